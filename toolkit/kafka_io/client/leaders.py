"""Ask the leaders of many partitions at once, and say why a partition has no answer."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.metadata import MetadataRequest

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection, TaggedRequest
from toolkit.kafka_io.client.coordinators import in_chunks
from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.model import TopicPartition

PARTITIONS_PER_REQUEST = 1000
TOPICS_PER_REQUEST = 1000


class LogLeader(NamedTuple):
    """The broker that leads a partition, and how often leadership has changed until then."""

    node_id: int
    epoch: int


class LeaderReply(NamedTuple):
    """A leader's response for one partition: the entry, or the error as text."""

    about: Any
    partition: TopicPartition
    entry: Any | str


def describe_topics(connection: Connection, topics: Sequence[str]) -> Iterable[Any]:
    """Return the metadata of each topic, with an `error_code`; one request."""
    asked = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    return connection.send(MetadataRequest(topics=asked, allow_auto_topic_creation=False)).topics  # type: ignore[no-any-return] # generated at run time from a schema


def topic_id(topic: Any) -> str:
    """Return the id of a described topic as Kafka's tools write it; "" where none is told."""
    found: UUID | None = topic.topic_id
    return urlsafe_b64encode(found.bytes).decode().rstrip("=") if found and found.int else ""


def topic_reason(code: int) -> str:
    """Say why a topic could not be described."""
    return (
        "the topic does not exist"
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else reason(code, "Describe")
    )


def find_leaders(
    connection: Connection, partitions: Collection[TopicPartition]
) -> tuple[dict[TopicPartition, LogLeader], dict[TopicPartition, str]]:
    """Return the leader of each partition that has one, and in words why the others have none."""
    leaders: dict[TopicPartition, LogLeader] = {}
    without = dict.fromkeys(partitions, "the partition does not exist")
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in without:
        by_topic[partition.topic].append(partition)
    for chunk in in_chunks(sorted(by_topic), TOPICS_PER_REQUEST):
        for topic in describe_topics(connection, chunk):
            if topic.error_code != ErrorCode.NONE:
                without.update(dict.fromkeys(by_topic[topic.name], topic_reason(topic.error_code)))
                continue
            for found in topic.partitions:
                key = TopicPartition(topic.name, found.partition_index)
                if key not in without:
                    continue
                if found.leader_id < 0:
                    without[key] = "it has no leader"
                else:
                    leaders[key] = LogLeader(found.leader_id, found.leader_epoch)
                    del without[key]
    return leaders, without


def ask_leaders(
    connection: Connection,
    leaders: Mapping[TopicPartition, LogLeader],
    build: Callable[[Sequence[TopicPartition]], Iterable[tuple[Any, Any]]],
) -> Iterator[LeaderReply]:
    """
    Ask each leader about its partitions; yield what it said of each one to each request.

    `build` makes, for at most `PARTITIONS_PER_REQUEST` partitions of one leader, the requests with
    what each is about. Leaders work side by side; the requests of one follow one another.
    """
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition, leader in leaders.items():
        by_leader[leader.node_id].append(partition)
    asks = {
        node_id: [
            TaggedRequest((about, chunk), request)
            for chunk in in_chunks(led, PARTITIONS_PER_REQUEST)
            for about, request in build(chunk)
        ]
        for node_id, led in by_leader.items()
    }
    for _, (about, chunk), response, _ in connection.send_each(asks):
        if isinstance(response, ToolkitError):
            yield from (LeaderReply(about, partition, str(response)) for partition in chunk)
            continue
        answered = dict(_entries(response))
        for partition in chunk:
            entry = answered.get(partition)
            if entry is None:
                yield LeaderReply(about, partition, "missing in the broker's response")
            elif entry.error_code != ErrorCode.NONE:
                yield LeaderReply(about, partition, reason(entry.error_code, "Describe"))
            else:
                yield LeaderReply(about, partition, entry)


def _entries(response: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in response.topics:
        # OffsetForLeaderEpoch has its own names for the same things.
        name = topic.name if hasattr(topic, "name") else topic.topic
        for found in topic.partitions:
            number = found.partition_index if hasattr(found, "partition_index") else found.partition
            yield TopicPartition(name, number), found
