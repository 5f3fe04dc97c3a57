"""
Merge the group facts from `__consumer_offsets` and from the coordinators.

Existence, type and state come from the coordinator; subscriptions and the time a group became Empty
come from the log. The log was read a little earlier, so the coordinator wins a contradiction, and
facts that only the log has are then unknown.
"""

from __future__ import annotations

import pandas as pd

from toolkit.model import GroupState, GroupType

GONE = frozenset({GroupState.EMPTY, GroupState.DEAD})
REBALANCING = frozenset({GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE})


def group_facts(logged: pd.DataFrame, listed: pd.DataFrame, *, complete: bool) -> pd.DataFrame:
    """
    Return `logged` merged with `listed`: one row for each group of one cluster.

    `logged`: cluster, group, type, protocol_type, state, members (Int64), epoch (Int64),
    empty_since, subscribed (lists), unreadable; only cluster and group if only commits are known.
    `listed`: group, type, state, protocol_type; `complete`: all groups could be listed. A group
    that is missing from a complete list is Dead; from an incomplete one, Unknown.
    """
    by_group = listed.set_index("group")
    groups = logged.drop_duplicates("group").set_index("group", drop=False)
    state = groups.index.to_series().map(by_group["state"])
    state = state.fillna(str(GroupState.DEAD if complete else GroupState.UNKNOWN))
    live = ~state.isin([*GONE, GroupState.UNKNOWN])
    type_ = groups.index.to_series().map(by_group["type"])
    type_ = type_.where(type_.notna() & (type_ != GroupType.UNKNOWN), groups["type"])
    protocol = groups.index.to_series().map(by_group["protocol_type"])
    protocol = protocol.where(protocol.notna(), groups["protocol_type"])
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
    """Return why each group's subscription is unknown; "" if known or without members."""
    why = groups["unreadable"].fillna("")
    alone = ~(groups["members"] > 0).fillna(value=False)
    why = why.mask(alone & (why == ""), "members joined after the log was read")
    foreign = (type_ == GroupType.CLASSIC) & protocol.notna() & (protocol != "consumer")
    why = why.mask(foreign, "protocol type is not consumer")
    why = why.mask(state.isin(REBALANCING), "the group is rebalancing")
    why = why.mask(state == GroupState.UNKNOWN, "group state unknown")
    return why.mask(state.isin(GONE), "")
