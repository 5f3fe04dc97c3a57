"""
Find committed offsets of topics that a live group no longer subscribes to.

The subscription counts, not the assignment, as in KIP-496. The lag of these offsets grows until
they expire, and the broker allows their deletion while the group runs. A group whose subscription
is unknown, or that has none, is skipped with a reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from toolkit.errors import NotFound
from toolkit.model import Group, GroupState, GroupType, Snapshot, select_groups
from toolkit.planning.frames.snapshot_frames import offsets_frame
from toolkit.planning.lag.lag import with_lag

ROW_COLUMNS = [
    *("cluster", "group", "topic", "partition", "lag", "group_lag_share", "deletable_now"),
    *("other_subscribers", "committed", "committed_at", "lost", "type", "why"),
]
LEFT_OUT_COLUMNS = ["cluster", "group", "type", "state", "commits", "why"]


class Unsubscribed(NamedTuple):
    """
    `rows`: one for each committed offset that no member subscribes to, largest lag first.

    `group_lag_share` is between 0 and 1 (null if any lag of the group is unknown).
    `deletable_now`: whether the broker would accept OffsetDelete at the time of the snapshot;
    always true here, because groups that it would reject are skipped. `other_subscribers`: the live
    groups that subscribe to the topic, as far as known. `by_group`: one row for each group with
    such offsets, with subscribed_lag and unsubscribed_lag (null if unknown). `left_out`: one row
    for each skipped group with commits, with the reason.
    """

    rows: pd.DataFrame
    by_group: pd.DataFrame
    left_out: pd.DataFrame


def find_unsubscribed(snapshot: Snapshot, *, groups: Sequence[str] = ()) -> Unsubscribed:
    """
    Find the unsubscribed offsets in a snapshot of a whole cluster, for all or some groups.

    `groups` holds names and shell patterns. Pass a snapshot of all groups in either case, for
    `other_subscribers`. Raises NotFound if no group matches any name.
    """
    chosen, missing = select_groups(snapshot.groups, groups)
    if missing and not chosen:
        raise NotFound(
            f"no group of cluster {snapshot.cluster} matches {missing[0]!r}",
            hint="list the names with 'offsetbook groups list'",
        )
    reasons = {group.group_id: uncheckable_reason(group) for group in chosen}
    considered = {g.group_id: g for g in chosen if not reasons[g.group_id]}
    subscribed = {name: group.subscribed_topics for name, group in considered.items()}
    partitions = with_lag(offsets_frame(snapshot))
    partitions = partitions[partitions["group"].isin(list(considered))]
    leftover = [
        topic not in subscribed[name]
        for name, topic in zip(partitions["group"], partitions["topic"], strict=True)
    ]
    rows = partitions[pd.Series(leftover, partitions.index, bool) & partitions["committed"].notna()]
    rows = rows.sort_values("lag", ascending=False, na_position="last", kind="stable")
    committed = partitions[partitions["committed"].notna()]
    # A share of an incomplete sum would be too large, so it is null.
    lags = committed.groupby("group")["lag"]
    group_lag = lags.sum().where(lags.count() == lags.size())
    return Unsubscribed(
        rows=_with_group_facts(rows, considered, group_lag=group_lag, readers=_readers(snapshot)),
        by_group=_by_group(partitions, rows),
        left_out=_left_out(snapshot, chosen, reasons),
    )


def unsubscribed_topics_by_group(snapshot: Snapshot) -> dict[str, frozenset[str]]:
    """
    Return the unsubscribed topics of each group with a known subscription; maybe none.

    Input of `storage.sightings.unsubscribed_topics`. Groups with an unknown subscription or a read
    error are missing: no unsubscribed offsets would then be no evidence.
    """
    unread = {problem.group_id for problem in snapshot.problems}
    committed: dict[str, set[str]] = defaultdict(set)
    for commit in snapshot.commits:
        committed[commit.group_id].add(commit.topic)
    return {
        group.group_id: frozenset(committed[group.group_id] - group.subscribed_topics)
        for group in snapshot.groups
        if group.group_id not in unread and not uncheckable_reason(group)
    }


def _with_group_facts(
    rows: pd.DataFrame,
    groups: Mapping[str, Group],
    *,
    group_lag: pd.Series[int],
    readers: Mapping[str, set[str]],
) -> pd.DataFrame:
    """Add the facts of its group and topic to each unsubscribed offset."""
    whole = rows["group"].map(group_lag).astype("Int64")
    told = rows.assign(
        type=[str(groups[name].type) for name in rows["group"]],
        group_lag_share=(rows["lag"] / whole.where(whole > 0)).astype("Float64"),
        # Only groups with a known subscription get here; the broker accepts their deletions.
        deletable_now=True,
        other_subscribers=[", ".join(sorted(readers.get(topic, ()))) for topic in rows["topic"]],
        why=[_why(groups[name]) for name in rows["group"]],
    )
    return told[ROW_COLUMNS].reset_index(drop=True)


def _left_out(
    snapshot: Snapshot, chosen: Sequence[Group], reasons: Mapping[str, str]
) -> pd.DataFrame:
    commits = Counter(commit.group_id for commit in snapshot.commits)
    rows = [
        (snapshot.cluster, group.group_id, str(group.type), str(group.state), count, why)
        for group in chosen
        if (why := reasons[group.group_id]) and (count := commits[group.group_id])
    ]
    return pd.DataFrame(rows, columns=LEFT_OUT_COLUMNS)


def _by_group(partitions: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    keys = ["cluster", "group"]
    leftover = rows.groupby(keys, sort=False)
    table = leftover.agg(topics=("topic", "nunique"), partitions=("partition", "size"))
    table["unsubscribed_lag"] = leftover["lag"].sum(min_count=1)
    subscribed = partitions.drop(rows.index).groupby(keys)["lag"].sum(min_count=1)
    table["subscribed_lag"] = subscribed.reindex(table.index)
    by_lag = table.sort_values("unsubscribed_lag", ascending=False, kind="stable")
    return by_lag.reset_index()


def uncheckable_reason(group: Group) -> str:
    """Return why a group's unsubscribed offsets are unknown; "" if they are known."""
    return uncheckable_reason_for(
        group.type, group.state, group.protocol_type, group.unreadable_subscription
    )


def uncheckable_reason_for(
    kind: str, state: str, protocol_type: str | None, unreadable: str
) -> str:
    """Return the same from a group's type, state, protocol type and unreadable subscription."""
    if kind == GroupType.SIMPLE:
        return (
            "no subscription: offsets are committed without members (assign() or an admin client)"
        )
    if state == GroupState.EMPTY:
        return "group is Empty: it has no subscription, and all its offsets can be deleted"
    if state == GroupState.DEAD:
        return "group is Dead: it no longer exists"
    if kind == GroupType.CLASSIC and protocol_type != "consumer":
        return f"not a consumer group (protocol type {protocol_type!r})"
    if kind == GroupType.UNKNOWN:
        return "group type is not supported by this version"
    return unreadable


def _why(group: Group) -> str:
    count = len(group.members)
    return (
        "the only member does not subscribe"
        if count == 1
        else (f"none of the {count} members subscribes")
    )


def _readers(snapshot: Snapshot) -> dict[str, set[str]]:
    readers: dict[str, set[str]] = {}
    for group in snapshot.groups:
        for topic in group.subscribed_topics:
            readers.setdefault(topic, set()).add(group.group_id)
    return readers
