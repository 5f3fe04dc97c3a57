"""
Read partitions of `__consumer_offsets` in bulk: what every group committed, and group clocks.

Records are read with read_committed and the newest of each raw key is kept, which is the rule by
which the coordinator itself rebuilds its state. A transaction that stays open holds this view back;
the reader says so.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Assignment

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.log_offsets import partition_numbers, read_log_offsets
from toolkit.kafka_io.offsets_topic import (
    CLASSIC_GROUP_TYPE,
    MODERN_GROUP_TYPES,
    OFFSET_COMMIT_TYPES,
    OFFSETS_TOPIC,
    CommitKey,
    CommitValue,
    UnknownRecord,
    decode_commit_key,
    decode_commit_value,
    decode_empty_since,
    decode_group_key,
    record_type,
)
from toolkit.kafka_io.settings import bulk_settings
from toolkit.kafka_io.timestamps import from_ms
from toolkit.model import Cluster, LogOffsets, TopicPartition

RECORDS_PER_CALL = 20_000
SILENCE_S = 20.0

# With librdkafka's own defaults for the two queue settings the same read takes eight times as long.
BULK = {
    "group.id": "offsetbook-reader",  # required by the client; nothing joins or commits
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "check.crcs": False,
    "fetch.queue.backoff.ms": 2,
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 262_144,
    "fetch.wait.max.ms": 50,
}


READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
MODERN_PREFIXES = frozenset(kind.to_bytes(2, "big") for kind in MODERN_GROUP_TYPES)


class OffsetsTopic(NamedTuple):
    """The offsets topic as it is now."""

    partitions: int  # how many it has; 0: a cluster that never had a group has no such topic
    logs: dict[int, LogOffsets]  # of those that are not empty: where to start and end reading


class OffsetsPartition(NamedTuple):
    """The newest committed offsets in one partition of the offsets topic, and group clocks."""

    commits: dict[CommitKey, CommitValue]
    # Since when a group has no members, as its own record tells. That of a KIP-848 or streams group
    # tells when members last came or went, so it holds only for a group known to be Empty.
    emptied: dict[str, datetime]
    other: Counter[int]  # records of other types, by type
    malformed: Counter[str]  # records that should be understood and cannot be, by why
    held_back: int  # records that an open transaction keeps out of sight


class _Newest(NamedTuple):
    """The newest record of each key."""

    values: dict[bytes, bytes | None]
    written_ms: dict[bytes, int]  # only of keys whose value does not tell a time


def offsets_partitions(connection: Connection) -> OffsetsTopic:
    """
    Return the offsets topic's partitions with where to start and end reading.

    Raises BrokerRefused where the topic may not be described or a partition has no leader.
    """
    numbers = partition_numbers(connection, OFFSETS_TOPIC)
    wanted = [TopicPartition(OFFSETS_TOPIC, number) for number in numbers]
    logs, problems = read_log_offsets(connection, wanted)
    if problems:
        raise BrokerRefused(
            f"reading {OFFSETS_TOPIC} of cluster {connection.cluster.name}: "
            f"partition {problems[0].partition}: {problems[0].why}"
        )
    filled = {p.partition: log for p, log in logs.items() if log.log_start != log.log_end}
    return OffsetsTopic(len(numbers), filled | _stable_by_now(connection, filled))


def _stable_by_now(connection: Connection, logs: Mapping[int, LogOffsets]) -> dict[int, LogOffsets]:
    """
    Return the logs of which the end was not stable yet, with how far it is now.

    The two ends are asked for one after the other: what was written in between is not held back.
    """
    behind = [number for number, log in logs.items() if log.last_stable != log.log_end]
    again, _ = read_log_offsets(connection, [TopicPartition(OFFSETS_TOPIC, n) for n in behind])
    found = {}
    for (_, number), now in again.items():
        log = logs[number]
        if log.log_end is not None and now.last_stable is not None:
            found[number] = replace(log, last_stable=min(now.last_stable, log.log_end))
    return found


def read_offsets_partition(cluster: Cluster, number: int, log: LogOffsets) -> OffsetsPartition:
    """Read one partition up to the end it had; raises BrokerRefused where it may not be read."""
    # A reader that stops at the last stable offset never sees the records behind it.
    end = log.last_stable if log.last_stable is not None else log.log_end
    newest = _read_newest(cluster, number, range(log.log_start or 0, end or 0), READ_COMMITTED)
    found = OffsetsPartition({}, {}, Counter(), Counter(), (log.log_end or 0) - (end or 0))
    for key, value in newest.values.items():
        try:
            _add(found, key, value, newest.written_ms.get(key, -1))
        except UnknownRecord as exc:
            found.malformed[str(exc)] += 1
    return found


def read_held_back(cluster: Cluster, number: int, log: LogOffsets) -> set[CommitKey]:
    """
    Return what is committed in the part of a partition that an open transaction holds back.

    That may be by a transaction, open or ended, or by none: only coordinators know which of it
    counts. Raises BrokerRefused where it may not be read.
    """
    start = log.log_end if log.last_stable is None else log.last_stable
    hidden = range(max(start or 0, log.log_start or 0), log.log_end or 0)
    newest = _read_newest(cluster, number, hidden, READ_UNCOMMITTED)
    found = set()
    for key, value in newest.values.items():
        # A key that cannot be decoded is of no group that is known.
        with suppress(UnknownRecord):
            if value is not None:
                found.add(decode_commit_key(key))
    return found


def _add(found: OffsetsPartition, key: bytes, value: bytes | None, written_ms: int) -> None:
    kind = record_type(key)
    if kind in OFFSET_COMMIT_TYPES:
        if value is not None:
            found.commits[decode_commit_key(key)] = decode_commit_value(value)
        return
    found.other[kind] += 1
    if value is None:
        return
    since = None
    if kind == CLASSIC_GROUP_TYPE:
        since = decode_empty_since(value)
    elif kind in MODERN_GROUP_TYPES:
        since = from_ms(written_ms)
    if since:
        found.emptied[decode_group_key(key)] = since


def _read_newest(cluster: Cluster, number: int, offsets: range, isolation: str) -> _Newest:
    if not offsets:
        return _Newest({}, {})
    doing = f"reading {OFFSETS_TOPIC} partition {number} of cluster {cluster.name}"
    try:
        settings = {**bulk_settings(cluster), **BULK, "isolation.level": isolation}
        consumer = Consumer(settings, logger=logging.getLogger("librdkafka"))
    except KafkaException as exc:
        raise BrokerRefused(f"{doing}: {exc.args[0].str()}") from exc
    try:
        consumer.assign([Assignment(OFFSETS_TOPIC, number, offsets.start)])
        return _consume(consumer, offsets, doing)
    except KafkaException as exc:
        raise BrokerRefused(f"{doing}: {exc.args[0].str()}") from exc
    finally:
        consumer.close()


def _consume(consumer: Consumer, offsets: range, doing: str) -> _Newest:
    newest = _Newest({}, {})
    position, silent_s = offsets.start, 0.0
    while position < offsets.stop:
        wait_s = 0.1
        # The call waits its whole time when fewer records are left, so never ask for more.
        messages = consumer.consume(min(RECORDS_PER_CALL, offsets.stop - position), wait_s)
        silent_s = 0.0 if messages else silent_s + wait_s
        if silent_s > SILENCE_S:
            raise BrokerRefused(f"{doing}: no data for {SILENCE_S:.0f} s at offset {position}")
        for message in messages:
            error, offset, key = message.error(), message.offset() or 0, message.key()
            if error is None:
                position = offset + 1
                if key is not None:
                    newest.values[key] = message.value()
                    if key[:2] in MODERN_PREFIXES:
                        newest.written_ms[key] = message.timestamp()[1]
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                position = max(position, offset)
            else:
                raise BrokerRefused(f"{doing}: {error.str()}")
    return newest
