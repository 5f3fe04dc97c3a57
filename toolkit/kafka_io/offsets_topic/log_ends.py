"""Where the partitions of `__consumer_offsets` begin and end, and up to where they are stable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.logs.log_offsets import partition_numbers, read_log_offsets
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.model import LogOffsets, TopicPartition


class OffsetsTopic(NamedTuple):
    """The current state of the offsets topic."""

    partitions: int  # how many it has; 0: a cluster that never had a group has no such topic
    logs: dict[int, LogOffsets]  # of those that are not empty: where to start and end reading


def offsets_partitions(connection: Connection) -> OffsetsTopic:
    """
    Return the offsets topic's partitions with where to start and end reading.

    Raises BrokerRefused where the topic may not be described or a partition has no leader.
    """
    numbers = partition_numbers(connection, OFFSETS_TOPIC)
    partitions = [TopicPartition(OFFSETS_TOPIC, number) for number in numbers]
    logs, problems = read_log_offsets(connection, partitions)
    if problems:
        raise BrokerRefused(
            f"reading {OFFSETS_TOPIC} of cluster {connection.cluster.name}: "
            f"partition {problems[0].partition}: {problems[0].why}"
        )
    filled = {p.partition: log for p, log in logs.items() if log.log_start != log.log_end}
    return OffsetsTopic(len(numbers), filled | _stable_by_now(connection, filled))


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
