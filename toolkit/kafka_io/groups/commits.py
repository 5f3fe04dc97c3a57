"""Committed offsets of groups in any state, all topics in one go (KIP-88, KIP-709)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetFetchRequest

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.coordinators import ask_coordinators
from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.model import Commit, Problem, TopicPartition
from toolkit.model.garbage_collection import no_garbage_collection

FIRST_COMMIT = "an open transaction has the first commit of this partition pending"
MANY_GROUPS_VERSION = 8  # KIP-709; version 10 replaces topic names by ids


class _PendingCommit(NamedTuple):
    """The key of a committed offset that an open transaction is about to change."""

    group_id: str
    topic: str
    partition: int


@no_garbage_collection()
def read_commits(
    connection: Connection,
    group_ids: Iterable[str],
    *,
    on_group: Callable[[], None] = lambda: None,
) -> tuple[list[Commit], list[Problem]]:
    """
    Return all committed offsets of the groups, and what could not be read.

    A group without commits yields nothing; a group that could not be read yields a problem. The
    broker itself leaves out topics that we may not describe, and partitions of which an open
    transaction makes the first commit. Offsets are first asked for with
    require_stable, which tells where an open transaction is about to change one (KIP-447); those
    groups are asked again for the value that holds until then.
    """
    everything = dict.fromkeys(group_ids, ())
    rows = list(_read(connection, everything, require_stable=True, on_group=on_group))
    held = {row for row in rows if isinstance(row, _PendingCommit)}
    groups = dict.fromkeys((key.group_id for key in held), ())
    again = list(_read(connection, groups, require_stable=False))
    pending = [
        replace(row, pending=True)
        for row in again
        if isinstance(row, Commit)
        and _PendingCommit(row.group_id, row.topic, row.partition) in held
    ]
    commits = [row for row in rows if isinstance(row, Commit)]
    problems = [row for row in (*rows, *again) if isinstance(row, Problem)]
    return commits + pending, list(dict.fromkeys(problems))


def read_first_commits(
    connection: Connection, partitions: Mapping[str, Collection[TopicPartition]]
) -> list[Problem]:
    """
    Return a problem for each of a group's partitions that an open transaction is about to commit.

    The partitions are to be without a commit: where there is one, `read_commits` tells. A broker
    tells only of those that are asked for by name.
    """
    rows = _read(connection, partitions, require_stable=True)
    return [
        Problem("committed offset", FIRST_COMMIT, *row) if isinstance(row, _PendingCommit) else row
        for row in rows
        if not isinstance(row, Commit)
    ]


def _read(
    connection: Connection,
    wanted: Mapping[str, Collection[TopicPartition]],  # none of a group: all that it has
    *,
    require_stable: bool,
    on_group: Callable[[], None] = lambda: None,
) -> Iterator[Commit | Problem | _PendingCommit]:
    def build(chunk: Sequence[str]) -> OffsetFetchRequest:
        groups = [
            OffsetFetchRequest.OffsetFetchRequestGroup(group_id=g, topics=_topics(wanted[g]))
            for g in chunk
        ]
        return OffsetFetchRequest(
            groups=groups,
            require_stable=require_stable,
            min_version=MANY_GROUPS_VERSION,
            max_version=MANY_GROUPS_VERSION,
        )

    for answer in ask_coordinators(connection, wanted, what="committed offsets", build=build):
        if isinstance(answer, Problem):
            yield answer
        else:
            yield from _rows(answer.entry)
        on_group()


def _topics(partitions: Collection[TopicPartition]) -> list[Any] | None:
    by_topic: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(partition)
    one = OffsetFetchRequest.OffsetFetchRequestGroup.OffsetFetchRequestTopics
    return [one(name=name, partition_indexes=rows) for name, rows in by_topic.items()] or None


def _rows(group: Any) -> Iterator[Commit | Problem | _PendingCommit]:
    group_id = group.group_id
    for topic in group.topics:
        name = topic.name
        for found in topic.partitions:
            if found.error_code == ErrorCode.NONE and found.committed_offset >= 0:
                yield Commit(
                    group_id,
                    name,
                    found.partition_index,
                    found.committed_offset,
                    found.committed_leader_epoch if found.committed_leader_epoch >= 0 else None,
                    found.metadata or "",
                )
            elif found.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT:
                yield _PendingCommit(group_id, name, found.partition_index)
            elif found.error_code != ErrorCode.NONE:
                why = reason(found.error_code, "Describe")
                yield Problem("committed offset", why, group_id, name, found.partition_index)
