"""
Read log offsets and leader epochs from partition leaders.

Where logs start and end, how far committed transactions reach and where logs stood at an instant
(ListOffsets); which leader epochs wrote them, and where their records end (OffsetForLeaderEpoch,
KIP-320).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.client.leaders import ask_leaders, describe_topics, find_leaders
from toolkit.kafka_io.client.timestamps import from_ms, to_ms
from toolkit.kafka_io.groups.subscriptions import ExistingTopics
from toolkit.model import EpochEnd, LogOffsets, Problem, TimedOffset, TopicPartition, Unread

LATEST, EARLIEST = -1, -2  # ListOffsets: times with a special meaning
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
NO_OFFSET = -1
MAX_ROUNDS = 32  # a partition that has had more leaders keeps its older epochs unknown
CONSUMER_REPLICA = -1
# Of the time for a request, how much a leader has to look into remote storage (KIP-1075): what it
# has not found by then comes back alone as an error, in time.
REMOTE_SHARE = 0.8


class _Edge(NamedTuple):
    """One edge of a log that ListOffsets can return."""

    name: str
    timestamp: int
    isolation: int


EDGES = (
    # In the order in which they lie: a log that grows between two of them cannot cross them over.
    _Edge("log_start", EARLIEST, READ_UNCOMMITTED),
    _Edge("last_stable", LATEST, READ_COMMITTED),
    _Edge("log_end", LATEST, READ_UNCOMMITTED),
)


def existing_topics(connection: Connection) -> ExistingTopics:
    """Return every topic that exists and that this user may describe."""
    response = connection.send(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    found = {
        topic.name: len(topic.partitions)
        for topic in response.topics
        if topic.error_code == ErrorCode.NONE
    }
    return ExistingTopics(frozenset(found), found)


def partition_numbers(connection: Connection, topic: str) -> list[int]:
    """Return a topic's partitions; [] where it does not exist. Raises BrokerRefused otherwise."""
    (found,) = describe_topics(connection, [topic])
    if found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return []
    if found.error_code != ErrorCode.NONE:
        raise BrokerRefused(
            f"describing topic {topic} of cluster {connection.cluster.name}: "
            f"{reason(found.error_code, 'Describe')}"
        )
    return sorted(partition.partition_index for partition in found.partitions)


def read_log_offsets(
    connection: Connection, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, LogOffsets], list[Problem]]:
    """
    Return the log offsets of each partition that could be read, and a problem for each other.

    One request a leader, edge and 1,000 partitions. A deleted topic, a missing leader or a missing
    permission costs that partition only.
    """
    leaders, failed = find_leaders(connection, set(partitions))
    unknown = dict.fromkeys(edge.name for edge in EDGES)
    logs: dict[TopicPartition, dict[str, int | None]] = defaultdict(lambda: dict(unknown))
    requests = partial(_edge_requests, connection.cluster.timeout_s)
    for edge, partition, entry in ask_leaders(connection, leaders, requests):
        if isinstance(entry, str):
            failed.setdefault(partition, entry)
        else:
            logs[partition][edge.name] = entry.offset
    return (
        {
            partition: LogOffsets(edges["log_start"], edges["log_end"], edges["last_stable"])
            for partition, edges in logs.items()
        },
        [Problem(Unread.LOG_OFFSETS, why, None, *partition) for partition, why in failed.items()],
    )


def _edge_requests(
    timeout_s: float, partitions: Sequence[TopicPartition]
) -> Iterator[tuple[_Edge, ListOffsetsRequest]]:
    for edge in EDGES:
        at = dict.fromkeys(partitions, edge.timestamp)
        yield edge, list_offsets_request(at, timeout_s=timeout_s, isolation=edge.isolation)


def list_offsets_request(
    times: Mapping[TopicPartition, int], *, timeout_s: float, isolation: int = READ_UNCOMMITTED
) -> ListOffsetsRequest:
    """
    Return the request for the offsets of logs at times in ms, or at one of the special times.

    `timeout_s` is how long the answer is waited for.
    """
    topic_type = ListOffsetsRequest.ListOffsetsTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for (topic, partition), timestamp in times.items():
        by_topic[topic].append(
            topic_type.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=isolation,
        topics=[topic_type(name=name, partitions=rows) for name, rows in by_topic.items()],
        timeout_ms=round(REMOTE_SHARE * timeout_s * 1000),
    )


def read_offsets_at(
    connection: Connection, at: Mapping[TopicPartition, datetime]
) -> tuple[dict[TopicPartition, TimedOffset | None], list[Problem]]:
    """
    Return for each partition its first record at or after its instant, None where there is none.

    The record has the lowest offset of those, which need not be the oldest of them: producers
    choose timestamps. Records of open and aborted transactions count. One request a leader and
    1,000 partitions; a partition that could not be read is a problem, without a key.
    """

    def requests(chunk: Sequence[TopicPartition]) -> Iterator[tuple[None, ListOffsetsRequest]]:
        times = {partition: to_ms(at[partition]) for partition in chunk}
        yield None, list_offsets_request(times, timeout_s=connection.cluster.timeout_s)

    leaders, failed = find_leaders(connection, at.keys())
    found: dict[TopicPartition, TimedOffset | None] = {}
    for _, partition, entry in ask_leaders(connection, leaders, requests):
        if isinstance(entry, str):
            failed[partition] = entry
        elif entry.offset == NO_OFFSET:
            found[partition] = None
        elif (timestamp := from_ms(entry.timestamp)) is None:
            failed[partition] = f"record {entry.offset} has a timestamp that is out of range"
        else:
            found[partition] = TimedOffset(entry.offset, timestamp)
    problems = [Problem(Unread.OFFSETS_BY_TIME, why, None, *key) for key, why in failed.items()]
    return found, problems


def with_epochs(
    connection: Connection, logs: Mapping[TopicPartition, LogOffsets]
) -> tuple[dict[TopicPartition, LogOffsets], list[Problem]]:
    """
    Add to each log its leader epochs, oldest first, and a problem where they could not be read.

    A leader returns the largest epoch up to the requested one in which records were written, and
    where they end; so each round requests the next older one, until the log start is reached. For
    an epoch before its oldest, it returns where the oldest begins, which counts as an end as well.
    """
    leaders, failed = find_leaders(connection, logs)
    found: dict[TopicPartition, list[EpochEnd]] = defaultdict(list)
    next_epochs = {partition: leader.epoch for partition, leader in leaders.items()}
    for _ in range(MAX_ROUNDS):
        waiting = {partition: leaders[partition] for partition in next_epochs}
        older: dict[TopicPartition, int] = {}
        requests = partial(_epoch_requests, next_epochs)
        for _, partition, entry in ask_leaders(connection, waiting, requests):
            if isinstance(entry, str):
                failed[partition] = entry
                continue
            epoch = EpochEnd(entry.leader_epoch, entry.end_offset)
            if epoch.leader_epoch < 0 or epoch.end_offset < 0:
                continue  # the leader itself does not know
            found[partition].append(epoch)
            if epoch.leader_epoch > 0 and epoch.end_offset > (logs[partition].log_start or 0):
                older[partition] = epoch.leader_epoch - 1
        next_epochs = older
        if not next_epochs:
            break
    known = {
        partition: replace(log, epochs=tuple(reversed(found[partition])))
        for partition, log in logs.items()
    }
    return known, [Problem(Unread.LEADER_EPOCHS, why, None, *key) for key, why in failed.items()]


def _epoch_requests(
    epochs: Mapping[TopicPartition, int], partitions: Sequence[TopicPartition]
) -> Iterator[tuple[None, OffsetForLeaderEpochRequest]]:
    topic_type = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for partition in partitions:
        by_topic[partition.topic].append(
            topic_type.OffsetForLeaderPartition(
                partition=partition.partition, leader_epoch=epochs[partition]
            )
        )
    topics = [topic_type(topic=name, partitions=rows) for name, rows in by_topic.items()]
    yield None, OffsetForLeaderEpochRequest(replica_id=CONSUMER_REPLICA, topics=topics)
