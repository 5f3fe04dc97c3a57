"""
`__consumer_offsets`: which group lives where, and what kinds of records there are.

A key is an int16 record type and a body; a value is an int16 version and a body; no value is a
tombstone. The types are those of Kafka's CoordinatorRecordType (4.3), and every key of them begins
with the group. What is not listed here is skipped and counted, as brokers do with what an aborted
upgrade left behind.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.logs.log_offsets import partition_numbers, read_log_offsets
from toolkit.model import LogOffsets, TopicPartition

OFFSETS_TOPIC = "__consumer_offsets"

LEGACY_COMMIT, COMMIT = 0, 1  # keys of the same layout
OFFSET_COMMIT_TYPES = frozenset({LEGACY_COMMIT, COMMIT})
CLASSIC_GROUP = 2
CONSUMER_GROUP, CONSUMER_MEMBER, CONSUMER_TARGET = 3, 5, 6
CONSUMER_CURRENT, CONSUMER_PATTERN = 8, 16
SHARE_MEMBER, SHARE_GROUP, SHARE_TARGET = 10, 11, 12
STREAMS_GROUP, STREAMS_MEMBER, STREAMS_TARGET = 17, 19, 20
STREAMS_CURRENT, STREAMS_TOPOLOGY = 22, 23

# What type of group a record makes its group.
TYPE_OF_GROUP = (
    {CLASSIC_GROUP: "classic"}
    | dict.fromkeys((3, 4, 5, 6, 7, 8, 16), "consumer")
    | dict.fromkeys((10, 11, 12, 13, 14, 15), "share")
    | dict.fromkeys((17, 19, 20, 21, 22, 23), "streams")
)
KNOWN_TYPES = OFFSET_COMMIT_TYPES | TYPE_OF_GROUP.keys()
# One value for each rebalance of a group that is not classic.
TARGET_TYPES = frozenset({CONSUMER_TARGET, SHARE_TARGET, STREAMS_TARGET})


def java_hash(text: str) -> int:
    """Return Java's String.hashCode, as a number without a sign."""
    data = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code


def partition_of(group_id: str, partitions: int) -> int:
    """Return the partition of the offsets topic that holds a group."""
    code = java_hash(group_id)
    signed = code - 2**32 if code >= 2**31 else code
    # Java's abs of the smallest integer is negative, which Kafka turns into 0.
    return (0 if signed == -(2**31) else abs(signed)) % partitions


class OffsetsTopic(NamedTuple):
    """The current state of the offsets topic."""

    partitions: int  # how many it has; 0: a cluster that never had a group has no such topic
    logs: dict[int, LogOffsets]  # of those that are not empty: where to start and end reading
    unread: dict[int, BrokerRefused]  # of those without a leader, say


def offsets_partitions(connection: Connection) -> OffsetsTopic:
    """
    Return the offsets topic's partitions with where to start and end reading.

    Raises BrokerRefused where the topic may not be described or a partition has no leader.
    """
    topic = read_offsets_topic(connection)
    for error in topic.unread.values():
        raise error
    return topic


def read_offsets_topic(connection: Connection) -> OffsetsTopic:
    """Return the same, also where a partition has no leader."""
    numbers = partition_numbers(connection, OFFSETS_TOPIC)
    partitions = [TopicPartition(OFFSETS_TOPIC, number) for number in numbers]
    logs, problems = read_log_offsets(connection, partitions)
    doing = f"reading {OFFSETS_TOPIC} of cluster {connection.cluster.name}"
    unread = {
        one.partition: BrokerRefused(f"{doing}: partition {one.partition}: {one.why}")
        for one in problems
        if one.partition is not None
    }
    filled = {p.partition: log for p, log in logs.items() if log.log_start != log.log_end}
    return OffsetsTopic(len(numbers), filled | _stable_by_now(connection, filled), unread)


def _stable_by_now(connection: Connection, logs: Mapping[int, LogOffsets]) -> dict[int, LogOffsets]:
    """
    Return the logs whose end was not stable, with their current last stable offset.

    The two ends are read one after the other: records written in between are not held back.
    """
    behind = [number for number, log in logs.items() if log.last_stable != log.log_end]
    again, _ = read_log_offsets(connection, [TopicPartition(OFFSETS_TOPIC, n) for n in behind])
    found = {}
    for (_, number), now in again.items():
        log = logs[number]
        if log.log_end is not None and now.last_stable is not None:
            found[number] = replace(log, last_stable=min(now.last_stable, log.log_end))
    return found
