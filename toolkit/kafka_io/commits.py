"""Committed offsets of groups in any state, all topics in one go (KIP-88, KIP-709)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from kafka.protocol.consumer import OffsetFetchRequest

from toolkit.kafka_io.broker_errors import NO_ERROR, reason
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.coordinators import ask_coordinators
from toolkit.model import Commit, Problem

UNSTABLE_OFFSET_COMMIT = 88
MANY_GROUPS_VERSION = 8  # KIP-709; version 10 replaces topic names by ids


class _Held(NamedTuple):
    """The key of a committed offset that an open transaction is about to change."""

    group_id: str
    topic: str
    partition: int


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
    rows = list(_read(connection, group_ids, require_stable=True, on_group=on_group))
    held = {row for row in rows if isinstance(row, _Held)}
    again = list(_read(connection, {key.group_id for key in held}, require_stable=False))
    pending = [
        replace(row, pending=True)
        for row in again
        if isinstance(row, Commit) and _Held(row.group_id, row.topic, row.partition) in held
    ]
    commits = [row for row in rows if isinstance(row, Commit)]
    problems = [row for row in (*rows, *again) if isinstance(row, Problem)]
    return commits + pending, list(dict.fromkeys(problems))


def _read(
    connection: Connection,
    group_ids: Iterable[str],
    *,
    require_stable: bool,
    on_group: Callable[[], None] = lambda: None,
) -> Iterator[Commit | Problem | _Held]:
    def build(chunk: Sequence[str]) -> OffsetFetchRequest:
        groups = [
            OffsetFetchRequest.OffsetFetchRequestGroup(group_id=g, topics=None) for g in chunk
        ]
        return OffsetFetchRequest(
            groups=groups,
            require_stable=require_stable,
            min_version=MANY_GROUPS_VERSION,
            max_version=MANY_GROUPS_VERSION,
        )

    for answer in ask_coordinators(connection, group_ids, what="committed offsets", build=build):
        if isinstance(answer, Problem):
            yield answer
        else:
            yield from _rows(answer.entry)
        on_group()


def _rows(group: Any) -> Iterator[Commit | Problem | _Held]:
    group_id = group.group_id
    for topic in group.topics:
        name = topic.name
        for found in topic.partitions:
            if found.error_code == NO_ERROR and found.committed_offset >= 0:
                yield Commit(
                    group_id,
                    name,
                    found.partition_index,
                    found.committed_offset,
                    found.committed_leader_epoch if found.committed_leader_epoch >= 0 else None,
                    found.metadata or "",
                )
            elif found.error_code == UNSTABLE_OFFSET_COMMIT:
                yield _Held(group_id, name, found.partition_index)
            elif found.error_code != NO_ERROR:
                why = reason(found.error_code)
                yield Problem("committed offset", why, group_id, name, found.partition_index)
