"""Where partitions' logs start and end, and how far committed transactions reach."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest

from toolkit.errors import BrokerRefused, ToolkitError
from toolkit.kafka_io.broker_errors import NO_ERROR, reason
from toolkit.kafka_io.chunks import in_chunks
from toolkit.kafka_io.connect import Ask, Connection
from toolkit.model import LogOffsets, Problem, TopicPartition

PARTITIONS_PER_REQUEST = 1000
TOPICS_PER_REQUEST = 1000

UNKNOWN_TOPIC = 3
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


def topic_names(connection: Connection) -> frozenset[str]:
    """Return the name of every topic that exists and that we may describe."""
    response = connection.send(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    return frozenset(topic.name for topic in response.topics if topic.error_code == NO_ERROR)


def partition_numbers(connection: Connection, topic: str) -> list[int]:
    """Return a topic's partitions; [] where it does not exist. Raises BrokerRefused otherwise."""
    (found,) = _metadata(connection, [topic])
    if found.error_code == UNKNOWN_TOPIC:
        return []
    if found.error_code != NO_ERROR:
        raise BrokerRefused(
            f"describing topic {topic} of cluster {connection.cluster.name}: "
            f"{reason(found.error_code)}"
        )
    return sorted(partition.partition_index for partition in found.partitions)


def leaderless_partitions(connection: Connection, topic: str) -> list[int]:
    """Return the partitions of a topic that have no leader now; [] where that cannot be seen."""
    (found,) = _metadata(connection, [topic])
    return sorted(p.partition_index for p in found.partitions if p.leader_id < 0)


def read_log_offsets(
    connection: Connection, partitions: Iterable[TopicPartition]
) -> tuple[dict[TopicPartition, LogOffsets], list[Problem]]:
    """
    Return the log offsets of each partition that could be asked for, and a problem for each other.

    One request a leader, edge and 1,000 partitions. A deleted topic, a missing leader or a missing
    permission costs that partition only.
    """
    problems: list[Problem] = []
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition, leader in _leaders(connection, set(partitions)).items():
        if isinstance(leader, int):
            by_leader[leader].append(partition)
        else:
            problems.append(_problem(partition, leader))
    unknown = dict.fromkeys(edge.name for edge in EDGES)
    found: dict[TopicPartition, dict[str, int | None]] = defaultdict(lambda: dict(unknown))
    failed: dict[TopicPartition, str] = {}
    for edge, partition, offset in _edges(connection, by_leader):
        if isinstance(offset, int):
            found[partition][edge.name] = offset
        else:
            failed.setdefault(partition, offset)
    problems += [_problem(partition, why) for partition, why in failed.items()]
    logs = {
        partition: LogOffsets(edges["log_start"], edges["log_end"], edges["last_stable"])
        for partition, edges in found.items()
    }
    return logs, problems


def _problem(partition: TopicPartition, why: str) -> Problem:
    return Problem("log offsets", why, None, *partition)


def _leaders(
    connection: Connection, partitions: Collection[TopicPartition]
) -> dict[TopicPartition, int | str]:
    """Return each partition's leader, or in words why there is none."""
    leaders: dict[TopicPartition, int | str] = dict.fromkeys(
        partitions, "the partition does not exist"
    )
    wanted = sorted({partition.topic for partition in partitions})
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in partitions:
        by_topic[partition.topic].append(partition)
    for chunk in in_chunks(wanted, TOPICS_PER_REQUEST):
        for topic in _metadata(connection, chunk):
            if topic.error_code != NO_ERROR:
                leaders.update(dict.fromkeys(by_topic[topic.name], _topic_reason(topic.error_code)))
                continue
            for found in topic.partitions:
                key = TopicPartition(topic.name, found.partition_index)
                if key in leaders:
                    leaders[key] = found.leader_id if found.leader_id >= 0 else "it has no leader"
    return leaders


def _metadata(connection: Connection, topics: Sequence[str]) -> Iterable[Any]:
    asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return connection.send(MetadataRequest(topics=asked, allow_auto_topic_creation=False)).topics  # type: ignore[no-any-return] # generated at run time from a schema


def _topic_reason(code: int) -> str:
    return "the topic does not exist" if code == UNKNOWN_TOPIC else reason(code)


def _edges(
    connection: Connection, by_leader: Mapping[int, Sequence[TopicPartition]]
) -> Iterator[tuple[_Edge, TopicPartition, int | str]]:
    asks = {
        leader: [
            Ask((edge, chunk), _request(edge, chunk))
            for chunk in in_chunks(partitions, PARTITIONS_PER_REQUEST)
            for edge in EDGES
        ]
        for leader, partitions in by_leader.items()
    }
    for _, (edge, chunk), response in connection.send_each(asks):
        if isinstance(response, ToolkitError):
            yield from ((edge, partition, str(response)) for partition in chunk)
            continue
        answered = {
            TopicPartition(topic.name, found.partition_index): found
            for topic in response.topics
            for found in topic.partitions
        }
        for partition in chunk:
            if partition not in answered:
                yield edge, partition, "the broker's answer left it out"
            elif (code := answered[partition].error_code) != NO_ERROR:
                yield edge, partition, reason(code)
            else:
                yield edge, partition, answered[partition].offset


def _request(edge: _Edge, partitions: Sequence[TopicPartition]) -> ListOffsetsRequest:
    topic_type = ListOffsetsRequest.ListOffsetsTopic
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for topic, partition in partitions:
        by_topic[topic].append(
            topic_type.ListOffsetsPartition(partition_index=partition, timestamp=edge.timestamp)
        )
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=edge.isolation,
        topics=[topic_type(name=name, partitions=rows) for name, rows in by_topic.items()],
    )
