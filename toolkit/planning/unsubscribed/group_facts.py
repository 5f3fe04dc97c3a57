"""
What is known of groups, put together from what the offsets topic and their coordinators tell.

A coordinator knows best whether a group exists, of which type it is and in which state; only the
log tells of thousands of groups what they subscribe to and since when they are Empty. It was read a
little earlier, so where the two contradict each other the coordinator is right, and what only the
log could tell is not known.
"""

from __future__ import annotations

import pandas as pd

from toolkit.model import GroupState, GroupType

GONE = frozenset({GroupState.EMPTY, GroupState.DEAD})
REBALANCING = frozenset({GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE})


def group_facts(logged: pd.DataFrame, listed: pd.DataFrame, *, complete: bool) -> pd.DataFrame:
    """
    Return `logged` with one row for each group of one cluster, and what is known by both.

    `logged`: cluster, group, type, protocol_type, state, members (Int64), epoch (Int64),
    empty_since, subscribed (lists), unreadable; only cluster and group where nothing but
    commits is known. `listed`: group, type, state, protocol_type; `complete` says whether all
    groups could be listed. A group that is not in a complete list is Dead; in an incomplete one its
    state is Unknown.
    """
    told = listed.set_index("group")
    groups = logged.drop_duplicates("group").set_index("group", drop=False)
    state = groups.index.to_series().map(told["state"])
    state = state.fillna(str(GroupState.DEAD if complete else GroupState.UNKNOWN))
    live = ~state.isin([*GONE, GroupState.UNKNOWN])
    type_ = groups.index.to_series().map(told["type"])
    type_ = type_.where(type_ != GroupType.UNKNOWN).fillna(groups["type"])
    protocol = groups.index.to_series().map(told["protocol_type"]).fillna(groups["protocol_type"])
    unreadable = _unreadable(groups, type_, state, protocol)
    known = live & (unreadable == "")
    facts = groups.assign(
        type=type_.fillna(str(GroupType.UNKNOWN)),
        protocol_type=protocol,
        state=state,
        members=groups["members"].where(live & (groups["members"] > 0)).mask(state.isin(GONE), 0),
        empty_since=groups["empty_since"].where(state == GroupState.EMPTY),
        subscribed=groups["subscribed"].where(known),
        unreadable=unreadable,
    )
    return facts.reset_index(drop=True)


def _unreadable(
    groups: pd.DataFrame, type_: pd.Series[str], state: pd.Series[str], protocol: pd.Series[str]
) -> pd.Series[str]:
    """Say of each group why its subscription is not known; "" where it is, or nobody is there."""
    why = groups["unreadable"].fillna("")
    alone = ~(groups["members"] > 0).fillna(value=False)
    why = why.mask(alone & (why == ""), "members joined after the log was read")
    foreign = (type_ == GroupType.CLASSIC) & protocol.notna() & (protocol != "consumer")
    why = why.mask(foreign, "protocol type is not consumer")
    why = why.mask(state.isin(REBALANCING), "the group is rebalancing")
    why = why.mask(state == GroupState.UNKNOWN, "group state unknown")
    return why.mask(state.isin(GONE), "")
