"""
Find committed offsets of topics that a live group no longer subscribes to.

The subscription counts, not the assignment, as in KIP-496. The lag of these offsets grows until
they expire, and the broker allows their deletion while the group runs. A group whose subscription
is unknown, or that has none, is skipped with a reason.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

from toolkit.model import Group, GroupState, GroupType, Snapshot, select_groups
from toolkit.model.commit_columns import columns_of
from toolkit.model.names import shown_name
from toolkit.model.rows import Kind, Row, Rows, largest_first
from toolkit.planning.frames.frame_of import frame_of
from toolkit.planning.lag.group_topics import UNKNOWN, GroupTopic, by_group_and_topic

if TYPE_CHECKING:
    import pandas as pd

ROW_COLUMNS: dict[str, Kind] = {
    "cluster": "text",
    "group": "name",
    "topic": "text",
    **dict.fromkeys(("partition", "lag", "group_lag_share"), "number"),
    "deletable_now": "text",
    "other_subscribers": "text",
    "committed": "number",
    "committed_at": "time",
    "lost": "number",
    "type": "text",
    "why": "text",
}
LAG = list(ROW_COLUMNS).index("lag")
GROUP_COLUMNS: dict[str, Kind] = {
    "cluster": "text",
    "group": "name",
    **dict.fromkeys(("topics", "partitions", "unsubscribed_lag", "subscribed_lag"), "number"),
}
LEFT_OUT_COLUMNS: dict[str, Kind] = {
    "cluster": "text",
    "group": "name",
    "type": "text",
    "state": "text",
    "commits": "number",
    "why": "text",
}


@dataclass(frozen=True, eq=False)
class Unsubscribed:
    """
    Unsubscribed offsets, their groups, and the skipped groups: as plain rows, or as frames.

    `rows`: one for each committed offset that no member subscribes to, largest lag first.
    `group_lag_share` is between 0 and 1 (null if any lag of the group is unknown).
    `deletable_now`: whether the broker would accept OffsetDelete at the time of the snapshot;
    always true here, because groups that it would reject are skipped. `other_subscribers`: the live
    groups that subscribe to the topic, as far as known. `by_group`: one row for each group with
    such offsets, with subscribed_lag and unsubscribed_lag (of what is known; null without any).
    `left_out`: one row for each skipped group with commits, with the reason.
    """

    offset_rows: Rows
    group_rows: Rows
    skipped: Rows

    @cached_property
    def rows(self) -> pd.DataFrame:
        types = {"partition": "int64", "group_lag_share": "Float64", "deletable_now": "bool"}
        return frame_of(self.offset_rows, **types)

    @cached_property
    def by_group(self) -> pd.DataFrame:
        return frame_of(self.group_rows, topics="int64", partitions="int64")

    @cached_property
    def left_out(self) -> pd.DataFrame:
        return frame_of(self.skipped, commits="int64")


def find_unsubscribed(snapshot: Snapshot, *, groups: Sequence[str] = ()) -> Unsubscribed:
    """
    Find the unsubscribed offsets in a snapshot of a whole cluster, for all or some groups.

    `groups` holds names and shell patterns. Pass a snapshot of all groups in either case, for
    `other_subscribers`. Raises NotFound if no group matches any name, and BrokerRefused if that is
    not known because not all groups could be listed.
    """
    chosen, missing = select_groups(snapshot.groups, groups)
    if missing and not chosen:
        raise snapshot.no_such_group(missing[0])
    reasons = {group.group_id: uncheckable_reason(group) for group in chosen}
    considered = {group.group_id: group for group in chosen if not reasons[group.group_id]}
    readers = _readers(snapshot)
    rows: list[Row] = []
    by_group: list[Row] = []
    parts = by_group_and_topic(snapshot, only=considered)
    for name, of_group in groupby(parts, attrgetter("group_id")):
        found = _Found(snapshot, considered[name], list(of_group))
        if of_group_rows := found.rows(readers):
            rows += of_group_rows
            by_group.append(found.summary(of_group_rows))
    return Unsubscribed(
        Rows(ROW_COLUMNS, largest_first(rows, LAG)),
        Rows(GROUP_COLUMNS, largest_first(by_group, list(GROUP_COLUMNS).index("unsubscribed_lag"))),
        Rows(LEFT_OUT_COLUMNS, _left_out(snapshot, chosen, reasons)),
    )


@dataclass(frozen=True, slots=True)
class _Found:
    """What one group has committed or owns, and what of it is unsubscribed."""

    snapshot: Snapshot
    group: Group
    parts: Sequence[GroupTopic]

    def rows(self, readers: Mapping[str, set[str]]) -> list[Row]:
        commits, whole = columns_of(self.snapshot.commits), self._whole_lag()
        subscribed = self.group.subscribed_topics
        why = no_member_subscribes(len(self.group.members))
        rows: list[Row] = []
        for part in (part for part in self.parts if part.topic not in subscribed):
            others = ", ".join(map(shown_name, sorted(readers.get(part.topic, ()))))
            cells = zip(part.partitions, part.offsets, part.places, part.lags, strict=True)
            rows += (
                (
                    *(self.snapshot.cluster, self.group.group_id, part.topic, number, lag),
                    lag / whole if whole and lag is not None else None,
                    True,  # only groups with a known subscription get here; brokers accept it
                    *(others, offset, commits.committed_at(place), lost),
                    *(str(self.group.type), why),
                )
                for number, offset, place, (lag, _, lost, _) in cells
                if offset != UNKNOWN
            )
        return rows

    def _whole_lag(self) -> int | None:
        """Return the lag of all commits; None if any is unknown: a share would be too large."""
        whole = 0
        for part in self.parts:
            for offset, (lag, _, _, _) in zip(part.offsets, part.lags, strict=True):
                if offset != UNKNOWN and lag is None:
                    return None
                whole += lag or 0
        return whole

    def summary(self, rows: Sequence[Row]) -> Row:
        unread = [row[LAG] for row in rows if row[LAG] is not None]
        subscribed = self.group.subscribed_topics
        parts = (part for part in self.parts if part.topic in subscribed)
        read = [lag for part in parts for lag, _, _, _ in part.lags if lag is not None]
        return (
            *(self.snapshot.cluster, self.group.group_id),
            *(len(set(map(itemgetter(2), rows))), len(rows)),
            sum(unread) if unread else None,
            sum(read) if read else None,
        )


def unsubscribed_topics_by_group(snapshot: Snapshot) -> dict[str, frozenset[str]]:
    """
    Return the unsubscribed topics of each group with a known subscription; maybe none.

    Input of `storage.sightings`. Groups with an unknown subscription or a read
    error are missing: no unsubscribed offsets would then be no evidence.
    """
    unread = {problem.group_id for problem in snapshot.problems}
    committed: dict[str, set[str]] = defaultdict(set)
    for block in columns_of(snapshot.commits).blocks:
        committed[block.group_id].add(block.topic)
    return {
        group.group_id: frozenset(committed[group.group_id] - group.subscribed_topics)
        for group in snapshot.groups
        if group.group_id not in unread and not uncheckable_reason(group)
    }


def _left_out(snapshot: Snapshot, chosen: Sequence[Group], reasons: Mapping[str, str]) -> list[Row]:
    commits = Counter[str]()
    for block in columns_of(snapshot.commits).blocks:
        commits[block.group_id] += len(block.places)
    return [
        (snapshot.cluster, group.group_id, str(group.type), str(group.state), count, why)
        for group in chosen
        if (why := reasons[group.group_id]) and (count := commits[group.group_id])
    ]


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


def no_member_subscribes(members: int | None) -> str:
    if members == 1:
        return "the only member does not subscribe"
    return f"none of the {'' if members is None else f'{members} '}members subscribes"


def _readers(snapshot: Snapshot) -> dict[str, set[str]]:
    readers: dict[str, set[str]] = {}
    for group in snapshot.groups:
        for topic in group.subscribed_topics:
            readers.setdefault(topic, set()).add(group.group_id)
    return readers
