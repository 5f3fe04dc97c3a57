"""
Lag of partitions and groups as plain rows, for commands that start at once and for large clusters.

The rules are those of `lag.py`, which computes them for frames; a test compares the two.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter, itemgetter

from toolkit.model import GroupType, LogOffsets, Snapshot, TopicPartition
from toolkit.model.commit_columns import CommitColumns, columns_of
from toolkit.model.rows import Kind, Row, Rows
from toolkit.planning.lag.lag import lag_of

UNKNOWN = -1  # in an array, where an offset or a lag cannot be None
NO_LOG = LogOffsets(None, None)
PARTITION_COLUMNS: dict[str, Kind] = {
    **dict.fromkeys(("cluster", "group", "topic"), "text"),
    **dict.fromkeys(("partition", "committed", "log_start", "log_end", "last_stable"), "number"),
    "committed_at": "time",
    "pending": "text",
    "owner": "text",
    **dict.fromkeys(("lag", "stable_lag", "lost"), "number"),
    "position": "text",
}
GROUP_COLUMNS: dict[str, Kind] = {
    **dict.fromkeys(("cluster", "group"), "text"),
    **dict.fromkeys(("topics", "partitions", "lag", "lost", "unknown_lag_partitions"), "number"),
    "worst_topic": "text",
    "worst_partition": "number",
    "worst_lag": "number",
}


@dataclass(frozen=True, slots=True)
class _GroupTopic:
    """What a group has committed or owns of one topic, by partition."""

    group_id: str
    topic: str
    partitions: Sequence[int]
    offsets: Sequence[int]  # UNKNOWN: no commit
    places: Sequence[int]  # in the columns of commits; UNKNOWN: no commit
    owners: Mapping[TopicPartition, str]  # of the group
    logs: Mapping[int, LogOffsets]  # of the topic

    @property
    def lags(self) -> Iterator[tuple[int | None, int | None, int | None, str]]:
        """What `lag_of` says of each partition."""
        log = self.logs.get
        return (
            lag_of(None if offset == UNKNOWN else offset, log(number, NO_LOG))
            for number, offset in zip(self.partitions, self.offsets, strict=True)
        )


def partition_rows(snapshot: Snapshot, *, largest_first: bool = False) -> Rows:
    """
    Return a row for each partition that a group has committed or owns; columns as in `with_lag`.

    By group, topic and partition, or by lag. Without share groups (KIP-932), as `offsets_frame`.
    """
    parts = _by_group_and_topic(snapshot)
    commits = columns_of(snapshot.commits)
    if not largest_first:
        rows = (
            _row(snapshot, commits, part, index)
            for part in parts
            for index in range(len(part.partitions))
        )
        return Rows(PARTITION_COLUMNS, rows)
    # Large clusters have a million rows: what is kept of each until all are ordered is numbers.
    lags = array("q", (UNKNOWN if one[0] is None else one[0] for p in parts for one in p.lags))
    part_of = array("i", (n for n, p in enumerate(parts) for _ in p.partitions))
    index_of = array("i", (n for p in parts for n in range(len(p.partitions))))
    order = sorted(range(len(lags)), key=lags.__getitem__, reverse=True)
    return Rows(
        PARTITION_COLUMNS,
        (_row(snapshot, commits, parts[part_of[place]], index_of[place]) for place in order),
    )


def _row(snapshot: Snapshot, commits: CommitColumns, part: _GroupTopic, index: int) -> Row:
    number, place, offset = part.partitions[index], part.places[index], part.offsets[index]
    committed = None if offset == UNKNOWN else offset
    log = part.logs.get(number, NO_LOG)
    return (
        snapshot.cluster,
        part.group_id,
        part.topic,
        number,
        committed,
        log.log_start,
        log.log_end,
        log.last_stable,
        commits.committed_at.get(place),
        place in commits.pending,
        part.owners.get(TopicPartition(part.topic, number), "") if part.owners else "",
        *lag_of(committed, log),
    )


def group_rows(snapshot: Snapshot) -> Rows:
    """Return a row for each group with a commit or owner, largest lag first; see `lag_by_group`."""
    by_group = groupby(_by_group_and_topic(snapshot), attrgetter("group_id"))
    rows = [_group_row(snapshot.cluster, group_id, list(parts)) for group_id, parts in by_group]
    lag = itemgetter(list(GROUP_COLUMNS).index("lag"))
    rows.sort(key=lambda row: UNKNOWN if lag(row) is None else lag(row), reverse=True)
    return Rows(GROUP_COLUMNS, rows)


def _group_row(cluster: str, group_id: str, parts: Sequence[_GroupTopic]) -> Row:
    found = [one for part in parts for one in part.lags]
    lags = [UNKNOWN if one[0] is None else one[0] for one in found]
    known = [lag for lag in lags if lag != UNKNOWN]
    worst = max(known, default=None)
    places = [(part.topic, number) for part in parts for number in part.partitions]
    topic, partition = (None, None) if worst is None else places[lags.index(worst)]
    return (
        cluster,
        group_id,
        len(parts),
        len(lags),
        sum(known) if known else None,
        sum(one[2] or 0 for one in found) if known else None,
        len(lags) - len(known),
        topic,
        partition,
        worst,
    )


def _by_group_and_topic(snapshot: Snapshot) -> list[_GroupTopic]:
    """Return what each group has committed or owns, by group and topic."""
    commits = columns_of(snapshot.commits)
    places: dict[tuple[str, str], list[range]] = defaultdict(list)
    for block in commits.blocks:
        places[block.group_id, block.topic].append(block.places)
    owned: dict[tuple[str, str], set[int]] = defaultdict(set)
    owners: dict[str, dict[TopicPartition, str]] = defaultdict(dict)
    for group in snapshot.groups:
        for member in group.members if group.type is not GroupType.SHARE else ():
            owners[group.group_id].update(dict.fromkeys(member.assignment, member.display_name))
            for topic, number in member.assignment:
                owned[group.group_id, topic].add(number)
    logs: dict[str, dict[int, LogOffsets]] = defaultdict(dict)
    for (topic, number), log in snapshot.logs.items():
        logs[topic][number] = log
    return [
        _GroupTopic(
            *key,
            *_partitions(commits, places.get(key, ()), owned.get(key, ())),
            owners.get(key[0], {}),
            logs.get(key[1], {}),
        )
        for key in sorted(places.keys() | owned.keys())
    ]


def _partitions(
    commits: CommitColumns, blocks: Sequence[range], owned: Iterable[int]
) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
    """Return partitions in order, and the committed offset and the place of each."""
    if len(blocks) == 1:
        here = blocks[0]
        numbers = commits.partitions[here.start : here.stop]
        is_ordered = numbers.tolist() == sorted(numbers)
        if is_ordered and not set(owned) - set(numbers):
            return numbers, commits.offsets[here.start : here.stop], here
    place_of = dict.fromkeys(owned, UNKNOWN)
    place_of.update((commits.partitions[place], place) for here in blocks for place in here)
    ordered = sorted(place_of)
    found = [place_of[number] for number in ordered]
    return ordered, [UNKNOWN if p == UNKNOWN else commits.offsets[p] for p in found], found
