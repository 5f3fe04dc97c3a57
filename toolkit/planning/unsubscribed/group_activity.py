"""
What `__consumer_offsets` says of each group: its state, merged with the coordinator's, and writes.

Existence, type and state come from the coordinator; subscriptions and the time a group became Empty
come from the log. The log was read a little earlier, so the coordinator wins a contradiction, and
facts that only the log has are then unknown.

Commits, rebalances, and removals by cause are counted as by KIP-496's meters, but by group and from
the log instead of JMX. A tombstone has no reason. It is derived from the earliest time at which the
broker could have expired the offset: before that, it was deleted (OffsetDelete, DeleteGroups, or
its topic was deleted).
"""

from __future__ import annotations

from datetime import datetime
from math import isnan
from typing import Any

import numpy as np
import pandas as pd

from toolkit.model import GroupState, GroupType
from toolkit.model.groups import CLASSIC_REBALANCES

GONE = frozenset({GroupState.EMPTY, GroupState.DEAD})

EXPIRED = "expired"
DELETED = "deleted"
REMOVED = "removed"  # cause unknown
# A check is written within a second of its time, as measured on brokers.
CHECK_TAKES_S = 1.0
# Clients commit each partition every 5 s by default. Ten times as often is rarely needed, and each
# commit is written, replicated, cleaned and loaded.
HOT_COMMITS_PER_S = 2.0
SHORTEST_S = 60.0  # a few commits in a moment are no rate
NOTHING_KNOWN = ""
OWN_TIME = "the expiry time set by the client"
AFTER_EMPTY = "group Empty + offsets.retention.minutes"
AFTER_COMMIT = "commit + offsets.retention.minutes"
ACTIVITY_COLUMNS = [
    *("cluster", "group", "window_from", "commits", "commits_per_s", "expirations", "deletions"),
    *("removals", "rebalances", "bytes_per_s", "complete", "commits_too_often", "why"),
]
KEYS = ["cluster", "group"]
Seconds = float | pd.Series | None


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
    why = why.mask(state.isin(CLASSIC_REBALANCES), "the group is rebalancing")
    why = why.mask(state == GroupState.UNKNOWN, "group state unknown")
    return why.mask(state.isin(GONE), "")


def with_removal_kinds(
    removals: pd.DataFrame, *, retention_s: Seconds, check_interval_s: Seconds
) -> pd.DataFrame:
    """
    Add kind (one of the words above) and why to removed offsets.

    Reads removed_at, committed, committed_at, expire_at, empty_since and group_kind, from before
    the tombstone. An offset expires at the expiry time set by the client, if any; in a classic
    group that is Empty, one retention period after it became Empty; in any other, one retention
    period after its commit; and then at the broker's next check. The two settings are numbers or
    columns. The cause is unknown without them, without the removed value, or if the expiry was
    delayed, for example by a member that subscribed to the topic. Pass data from the start of the
    log: a group without a metadata record counts as simple.
    """
    index = removals.index
    retention, interval = (_column(value, index) for value in (retention_s, check_interval_s))
    is_empty = (removals["group_kind"] == "classic") & removals["empty_since"].notna()
    has_own = removals["expire_at"].notna()
    clock = removals["committed_at"].mask(is_empty, removals["empty_since"])
    due = clock + pd.to_timedelta(retention, unit="s")
    due = due.mask(has_own, removals["expire_at"])
    late = (removals["removed_at"] - due).dt.total_seconds()
    conditions = [removals["committed"].isna(), has_own, is_empty]
    rules = np.select(conditions, [NOTHING_KNOWN, OWN_TIME, AFTER_EMPTY], AFTER_COMMIT)
    judged = [_judged(*row) for row in zip(late, interval, rules, strict=True)]
    results = pd.DataFrame(judged, index=index, columns=["kind", "why"], dtype="object")
    return removals.assign(kind=results["kind"], why=results["why"])


def activity_by_group(
    activity: pd.DataFrame,
    removals: pd.DataFrame,
    *,
    since: datetime,
    now: datetime,
    commits: pd.DataFrame,
) -> pd.DataFrame:
    """
    Sum recent activity: one row for each cluster and group, busiest first.

    Reads of `activity` cluster, group, hour, first_at, bytes, commits, rebalances and complete; of
    `removals` cluster, group, removed_at and kind. `since` is the start of the window: hourly
    counts start with its hour, so pass the start of an hour, or of the read. window_from: that, or
    the first record of the group in it; rates are from there on. removals: those with
    an unknown cause. complete: no record was compacted away; otherwise counts are minimums.
    `commits` (cluster, group; one row per partition) gives the number of partitions of a group.
    commits_too_often: more than HOT_COMMITS_PER_S per partition; null if unknown, with the reason
    in `why`.
    """
    window_from = pd.Timestamp(since)
    wrote = activity[activity["hour"] >= window_from.floor("h")].groupby(KEYS)
    table = wrote[["commits", "rebalances", "bytes"]].sum()
    table["complete"] = wrote["complete"].all()
    gone = removals[removals["removed_at"] >= window_from]
    kinds = {EXPIRED: "expirations", DELETED: "deletions", REMOVED: "removals"}
    counted = gone.assign(**{name: gone["kind"] == kind for kind, name in kinds.items()})
    counts = counted.groupby(KEYS)[list(kinds.values())].sum()
    table = table.join(counts, how="outer")
    numbers = ["commits", "rebalances", "bytes", *kinds.values()]
    table[numbers] = table[numbers].fillna(0).astype("Int64")
    table["complete"] = table["complete"].astype("boolean")
    first = wrote["first_at"].min().reindex(table.index)
    began = first.where(first > window_from, window_from)
    length_s = (pd.Timestamp(now) - began).dt.total_seconds().clip(lower=SHORTEST_S)
    rate = table["commits"].astype("Float64") / length_s
    table = table.assign(
        window_from=began,
        commits_per_s=rate,
        bytes_per_s=table["bytes"].astype("Float64") / length_s,
    )
    partitions = commits.groupby(KEYS).size().reindex(table.index, fill_value=0)
    verdicts = [_hot(*row) for row in zip(rate, partitions, table["complete"], strict=True)]
    table["commits_too_often"] = pd.array([hot for hot, _ in verdicts], dtype="boolean")
    table["why"] = pd.Series([why for _, why in verdicts], table.index, dtype="object")
    busiest = table.reset_index().sort_values("commits", ascending=False, kind="stable")
    return busiest[ACTIVITY_COLUMNS].reset_index(drop=True)


def _judged(late_s: float, interval_s: float, rule: str) -> tuple[str, str]:
    """Return the kind of a removal that came some seconds after the offset's expiry, and why."""
    if rule == NOTHING_KNOWN:
        return REMOVED, "the removed value is no longer in the log"
    if isnan(late_s):
        return REMOVED, "its expiry time is unknown"
    if late_s < 0:
        return DELETED, f"{-late_s:.1f} s before {rule}"
    after = f"{late_s:.1f} s after {rule}"
    if isnan(interval_s):
        return REMOVED, f"{after}; offsets.retention.check.interval.ms is unknown"
    if late_s <= interval_s + CHECK_TAKES_S:
        return EXPIRED, f"{after}, at the next check"
    return REMOVED, f"{after}: expiry was delayed, or it was deleted"


def _hot(rate: float, partitions: int, complete: Any) -> tuple[bool | None, str]:
    """Return whether a group commits too often for its number of partitions, and why."""
    each = rate / partitions if partitions else rate
    each_text = f"{_rate_text(each)} per partition"
    if each > HOT_COMMITS_PER_S:
        if not partitions:
            return None, "number of committed partitions unknown"
        return True, (
            f"{each_text}; {HOT_COMMITS_PER_S:g} is already ten times the default rate of clients"
        )
    if pd.isna(complete) or not complete:
        return None, f"at least {each_text}; some of its records may be compacted away"
    return False, each_text if partitions else f"{_rate_text(rate)} in total"


def _rate_text(per_s: float) -> str:
    """Return commits per second, or per hour where that is next to nothing."""
    return f"{per_s:.2f} commits/s" if per_s >= 0.01 else f"{per_s * 3600:.2g} commits/h"


def _column(value: Seconds, index: pd.Index[Any]) -> pd.Series[float]:
    """Return a setting for each row, NaN if unknown."""
    known = value if isinstance(value, pd.Series) else pd.Series(value, index, dtype="Float64")
    return known.astype("Float64").astype("float64")
