"""Committed offsets of groups in any state, all topics in one go (KIP-88, KIP-709)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetFetchRequest

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.coordinators import GroupEnded, GroupEntry, ask_coordinators
from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.wire.offset_messages import (
    VERSION,
    FetchedGroup,
    FetchedTopic,
    OffsetFetchOfGroups,
)
from toolkit.model import Problem, TopicPartition, Unread
from toolkit.model.commit_columns import CommitColumns

FIRST_COMMIT = "an open transaction has the first commit of this partition pending"


class _PendingCommit(NamedTuple):
    """The key of a committed offset that an open transaction is about to change."""

    group_id: str
    topic: str
    partition: int


def read_commits(
    connection: Connection,
    group_ids: Iterable[str],
    *,
    on_group: Callable[[], None] = lambda: None,
) -> tuple[CommitColumns, list[Problem]]:
    """
    Return all committed offsets of the groups, and what could not be read.

    A group without commits yields nothing; a group that could not be read yields a problem. The
    broker itself leaves out topics that this user may not describe, and partitions of which an open
    transaction makes the first commit. Offsets are first fetched with require_stable, which shows
    where an open transaction is about to change one (KIP-447); those groups are fetched again for
    the value that is committed until then.
    """
    commits, problems = CommitColumns(), list[Problem]()
    unstable = set[_PendingCommit]()
    everything = dict.fromkeys(group_ids, ())
    for answer in _ask(connection, everything, require_stable=True):
        on_group()
        for row in _others(answer, commits):
            if isinstance(row, _PendingCommit):
                unstable.add(row)
            else:
                problems.append(row)
    again = CommitColumns()
    for answer in _ask(connection, {key.group_id: () for key in unstable}, require_stable=False):
        problems += [row for row in _others(answer, again) if isinstance(row, Problem)]
    for one in again:
        if _PendingCommit(one.group_id, one.topic, one.partition) in unstable:
            commits.append(replace(one, pending=True))
    return commits, list(dict.fromkeys(problems))


def read_first_commits(
    connection: Connection, partitions: Mapping[str, Collection[TopicPartition]]
) -> list[Problem]:
    """
    Return a problem for each of a group's partitions that an open transaction is about to commit.

    For partitions without a commit; `read_commits` reports those with one. A broker reports only
    partitions that are requested by name.
    """
    return [
        Problem(Unread.COMMIT, FIRST_COMMIT, *row) if isinstance(row, _PendingCommit) else row
        for answer in _ask(connection, partitions, require_stable=True)
        for row in _others(answer, CommitColumns())
    ]


def _ask(
    connection: Connection,
    by_group: Mapping[str, Collection[TopicPartition]],  # none of a group: all that it has
    *,
    require_stable: bool,
) -> Iterator[GroupEntry | GroupEnded | Problem]:
    def build(chunk: Sequence[str]) -> OffsetFetchOfGroups:
        groups = [
            OffsetFetchRequest.OffsetFetchRequestGroup(group_id=g, topics=_topics(by_group[g]))
            for g in chunk
        ]
        return OffsetFetchOfGroups(
            groups=groups,
            require_stable=require_stable,
            min_version=VERSION,
            max_version=VERSION,
        )

    return ask_coordinators(
        connection, by_group, what=Unread.COMMITS, build=build, size=_partitions_of
    )


def _partitions_of(group: FetchedGroup) -> int:
    return sum(len(topic.partitions) for topic in group.topics)


def _topics(partitions: Collection[TopicPartition]) -> list[Any] | None:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    one = OffsetFetchRequest.OffsetFetchRequestGroup.OffsetFetchRequestTopics
    return [one(name=name, partition_indexes=rows) for name, rows in by_topic.items()] or None


def _others(
    answer: GroupEntry | GroupEnded | Problem, commits: CommitColumns
) -> Iterator[Problem | _PendingCommit]:
    """Add the commits of a group, and yield its problems and pending commits."""
    if isinstance(answer, Problem):
        yield answer
    if not isinstance(answer, GroupEntry):
        return
    group_id = answer.entry.group_id
    for topic in answer.entry.topics:
        _add_topic(commits, group_id, topic)
        if not any(topic.error_codes):
            continue
        for number, code in zip(topic.partitions, topic.error_codes, strict=True):
            if code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                yield _PendingCommit(group_id, topic.name, number)
            elif code:
                why = reason(code, "Describe")
                yield Problem(Unread.COMMIT, why, group_id, topic.name, number)


def _add_topic(commits: CommitColumns, group_id: str, topic: FetchedTopic) -> None:
    """Add the commits of a group to one topic; a partition without one has offset -1."""
    partitions, offsets, epochs, notes = topic[1:5]
    if any(topic.error_codes) or min(offsets, default=0) < 0:
        cells = (partitions, offsets, epochs, notes or [""] * len(offsets), topic.error_codes)
        good = [row for row in zip(*cells, strict=True) if row[1] >= 0 and not row[4]]
        partitions, offsets, epochs, notes, _ = zip(*good, strict=True) if good else [()] * 5
    start = len(commits)
    commits.add_block(group_id, topic.name, partitions=partitions, offsets=offsets, epochs=epochs)
    if notes:
        commits.metadata.update((start + n, note) for n, note in enumerate(notes) if note)
