"""Where partitions' logs start and end, and how far committed transactions reach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.client.leaders import ask_leaders, describe_topics, find_leaders
from toolkit.kafka_io.groups.subscriptions import ExistingTopics
from toolkit.model import LogOffsets, Problem, TopicPartition

LATEST, EARLIEST = -1, -2  # ListOffsets: times with a special meaning
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class _Edge(NamedTuple):
    """One end of a log that ListOffsets can tell."""

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
    """Return every topic that exists and that we may describe."""
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


def leaderless_partitions(connection: Connection, topic: str) -> list[int]:
    """Return the partitions of a topic that have no leader now; [] where that cannot be seen."""
    (found,) = describe_topics(connection, [topic])
    return sorted(p.partition_index for p in found.partitions if p.leader_id < 0)


def read_log_offsets(
    connection: Connection, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, LogOffsets], list[Problem]]:
    """
    Return the log offsets of each partition that could be asked for, and a problem for each other.

    One request a leader, edge and 1,000 partitions. A deleted topic, a missing leader or a missing
    permission costs that partition only.
    """
    leaders, failed = find_leaders(connection, set(partitions))
    unknown = dict.fromkeys(edge.name for edge in EDGES)
    logs: dict[TopicPartition, dict[str, int | None]] = defaultdict(lambda: dict(unknown))
    for edge, partition, entry in ask_leaders(connection, leaders, _edge_requests):
        if isinstance(entry, str):
            failed.setdefault(partition, entry)
        else:
            logs[partition][edge.name] = entry.offset
    return (
        {
            partition: LogOffsets(edges["log_start"], edges["log_end"], edges["last_stable"])
            for partition, edges in logs.items()
        },
        [Problem("log offsets", why, None, *partition) for partition, why in failed.items()],
    )


def _edge_requests(
    partitions: Sequence[TopicPartition],
) -> Iterator[tuple[_Edge, ListOffsetsRequest]]:
    for edge in EDGES:
        at = dict.fromkeys(partitions, edge.timestamp)
        yield edge, list_offsets_request(at, isolation=edge.isolation)


def list_offsets_request(
    times: Mapping[TopicPartition, int], *, isolation: int = READ_UNCOMMITTED
) -> ListOffsetsRequest:
    """Return the request for where logs stand at times in ms, or at one of the special times."""
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
    )
