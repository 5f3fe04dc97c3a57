"""
Read partitions of `__consumer_offsets` in bulk: what every group committed, and when.

Records are read with read_committed and the newest of each raw key is kept, which is the rule by
which the coordinator itself rebuilds its state. A transaction that stays open holds this view back;
the reader says so.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Assignment

from toolkit.errors import BrokerRefused, ToolkitError
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.log_offsets import partition_numbers, read_log_offsets
from toolkit.kafka_io.offsets_topic import (
    OFFSET_COMMIT_TYPES,
    OFFSETS_TOPIC,
    CommitKey,
    CommitValue,
    UnknownRecord,
    decode_commit_key,
    decode_commit_value,
    partition_of,
    record_type,
)
from toolkit.kafka_io.settings import bulk_settings
from toolkit.model import Cluster, Commit, LogOffsets, Problem, TopicPartition

RECORDS_PER_CALL = 20_000
SILENCE_S = 20.0

# With librdkafka's own defaults for the two queue settings the same read takes eight times as long.
BULK = {
    "group.id": "offsetbook-reader",  # required by the client; nothing joins or commits
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "check.crcs": False,
    "fetch.queue.backoff.ms": 2,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 262_144,
    "fetch.wait.max.ms": 50,
}


class OffsetsPartition(NamedTuple):
    """The newest committed offsets in one partition of the offsets topic."""

    commits: dict[CommitKey, CommitValue]
    other: Counter[int]  # records of other types, by type
    malformed: Counter[str]  # records that should be commits and cannot be understood, by why
    held_back: int  # records that an open transaction keeps out of sight


def offsets_partitions(connection: Connection) -> dict[int, LogOffsets]:
    """
    Return the non-empty partitions of the offsets topic with where to start and end reading.

    Raises BrokerRefused where the topic may not be described or a partition has no leader. A
    cluster that never had a group has no such topic and gives {}.
    """
    numbers = partition_numbers(connection, OFFSETS_TOPIC)
    wanted = [TopicPartition(OFFSETS_TOPIC, number) for number in numbers]
    logs, problems = read_log_offsets(connection, wanted)
    if problems:
        raise BrokerRefused(
            f"reading {OFFSETS_TOPIC} of cluster {connection.cluster.name}: "
            f"partition {problems[0].partition}: {problems[0].why}"
        )
    return {p.partition: log for p, log in logs.items() if log.log_start != log.log_end}


def read_offsets_partition(cluster: Cluster, number: int, log: LogOffsets) -> OffsetsPartition:
    """Read one partition up to the end it had; raises BrokerRefused where it may not be read."""
    newest: dict[bytes, bytes | None] = {}
    # A reader that stops at the last stable offset never sees the records behind it.
    end = log.last_stable if log.last_stable is not None else log.log_end
    if (end or 0) > (log.log_start or 0):
        _read_newest(cluster, number, log.log_start or 0, end or 0, newest)
    commits: dict[CommitKey, CommitValue] = {}
    other: Counter[int] = Counter()
    malformed: Counter[str] = Counter()
    for key, value in newest.items():
        try:
            if (kind := record_type(key)) not in OFFSET_COMMIT_TYPES:
                other[kind] += 1
            elif value is not None:
                commits[decode_commit_key(key)] = decode_commit_value(value)
        except UnknownRecord as exc:
            malformed[str(exc)] += 1
    return OffsetsPartition(commits, other, malformed, (log.log_end or 0) - (end or 0))


def with_commit_times(
    connection: Connection, commits: Iterable[Commit]
) -> tuple[list[Commit], list[Problem]]:
    """
    Add to each commit when it was made, as far as the offsets topic may be read.

    Only the partitions that hold these groups are read. A commit that has moved on since keeps
    None. Returns the commits, and a problem for each partition that could not be read.
    """
    commits = list(commits)
    problems = []
    found: dict[CommitKey, CommitValue] = {}
    try:
        logs = offsets_partitions(connection)
        total = len(partition_numbers(connection, OFFSETS_TOPIC))
    except ToolkitError as exc:
        return commits, [Problem("commit times", str(exc))]
    needed = {partition_of(group_id, total) for group_id in {c.group_id for c in commits}}
    for number in sorted(needed & logs.keys()):
        try:
            found |= read_offsets_partition(connection.cluster, number, logs[number]).commits
        except ToolkitError as exc:
            problems.append(Problem("commit times", str(exc), None, OFFSETS_TOPIC, number))
    return [_timed(commit, found) for commit in commits], problems


def _timed(commit: Commit, found: dict[CommitKey, CommitValue]) -> Commit:
    value = found.get(CommitKey(commit.group_id, commit.topic, commit.partition))
    if value is None or value.offset != commit.offset:
        return commit
    return replace(commit, committed_at=value.committed_at)


def _read_newest(
    cluster: Cluster, number: int, start: int, end: int, newest: dict[bytes, bytes | None]
) -> None:
    doing = f"reading {OFFSETS_TOPIC} partition {number} of cluster {cluster.name}"
    try:
        settings = {**bulk_settings(cluster), **BULK}
        consumer = Consumer(settings, logger=logging.getLogger("librdkafka"))
    except KafkaException as exc:
        raise BrokerRefused(f"{doing}: {exc.args[0].str()}") from exc
    try:
        consumer.assign([Assignment(OFFSETS_TOPIC, number, start)])
        position, silent_s = start, 0.0
        while position < end:
            wait_s = 0.1
            # The call waits its whole time when fewer records are left, so never ask for more.
            messages = consumer.consume(min(RECORDS_PER_CALL, end - position), wait_s)
            silent_s = 0.0 if messages else silent_s + wait_s
            if silent_s > SILENCE_S:
                raise BrokerRefused(f"{doing}: no data for {SILENCE_S:.0f} s at offset {position}")
            for message in messages:
                error, offset, key = message.error(), message.offset() or 0, message.key()
                if error is None:
                    position = offset + 1
                    if key is not None:
                        newest[key] = message.value()
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    position = max(position, offset)
                else:
                    raise BrokerRefused(f"{doing}: {error.str()}")
    except KafkaException as exc:
        raise BrokerRefused(f"{doing}: {exc.args[0].str()}") from exc
    finally:
        consumer.close()
