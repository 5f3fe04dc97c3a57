"""Ask the leaders of many partitions at once, and say why a partition has no answer."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple
from uuid import UUID

from kafka.protocol.metadata import MetadataRequest

from toolkit.errors import ClusterUnreachable, ToolkitError
from toolkit.kafka_io.client.connection import Connection, TaggedRequest
from toolkit.kafka_io.client.coordinators import in_chunks
from toolkit.kafka_io.client.error_codes import LEADER_MOVED, ErrorCode, reason
from toolkit.kafka_io.wire.fields import topic_id_text
from toolkit.model import TopicPartition
from toolkit.model.snapshot import NO_PARTITION, NO_TOPIC

PARTITIONS_PER_REQUEST = 1000
TOPICS_PER_REQUEST = 1000
ASK_AGAIN_AFTER_S = (0.1, 0.2, 0.4, 0.8)  # a leader that has moved

BuildRequests = Callable[[Sequence[TopicPartition]], Iterable[tuple[Any, Any]]]


class LogLeader(NamedTuple):
    """The broker that leads a partition, and how often leadership has changed until then."""

    node_id: int
    epoch: int


class LeaderReply(NamedTuple):
    """A leader's response for one partition: the entry, or the error as text."""

    about: Any
    partition: TopicPartition
    entry: Any | str


# Descriptions over a connection, by the names of topics, within `described_once`.
_DESCRIBED: ContextVar[dict[Connection, dict[str, Any]] | None] = ContextVar(
    "topics that were described", default=None
)


@contextmanager
def described_once() -> Iterator[None]:
    """
    Describe each topic once until the end of the block, for facts that are read together.

    A topic that does not exist or has a partition without a leader is described again each time,
    and so is one of which a leader has moved.
    """
    if _DESCRIBED.get() is not None:
        yield
        return
    token = _DESCRIBED.set({})
    try:
        yield
    finally:
        _DESCRIBED.reset(token)


def describe_topics(
    connection: Connection, topics: Sequence[str], *, refresh: bool = False
) -> Iterator[Any]:
    """Yield the metadata of each topic, with an `error_code`; a request for many at a time."""
    for chunk in in_chunks(topics, TOPICS_PER_REQUEST):
        known = _known(connection)
        found = {} if refresh else {name: known[name] for name in chunk if name in known}
        named = [MetadataRequest.MetadataRequestTopic(name=n) for n in chunk if n not in found]
        if named:
            request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
            found |= {topic.name: topic for topic in connection.send(request).topics}
            keep_described(connection, found.values())
        yield from found.values()


def keep_described(connection: Connection, topics: Iterable[Any]) -> None:
    """Keep the topics in the response to another kind of request, within `described_once`."""
    _known(connection).update((topic.name, topic) for topic in topics if _is_settled(topic))


def _known(connection: Connection) -> dict[str, Any]:
    here = _DESCRIBED.get()
    return {} if here is None else here.setdefault(connection, {})


def _is_settled(topic: Any) -> bool:
    return topic.error_code == ErrorCode.NONE and all(p.leader_id >= 0 for p in topic.partitions)


def topic_id(topic: Any) -> str:
    """Return the id of a described topic as Kafka's tools write it; "" if it has none."""
    found: UUID | None = topic.topic_id
    return (found and topic_id_text(found.bytes)) or ""


def topic_reason(code: int) -> str:
    """Say why a topic could not be described."""
    return NO_TOPIC if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else reason(code, "Describe")


def find_leaders(
    connection: Connection, partitions: Collection[TopicPartition], *, refresh: bool = False
) -> tuple[dict[TopicPartition, LogLeader], dict[TopicPartition, str]]:
    """Return the leader of each partition that has one, and in words why the others have none."""
    leaders: dict[TopicPartition, LogLeader] = {}
    without = dict.fromkeys(partitions, NO_PARTITION)
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in without:
        by_topic[partition.topic].append(partition)
    for topic in describe_topics(connection, sorted(by_topic), refresh=refresh):
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
    build: BuildRequests,
) -> Iterator[LeaderReply]:
    """
    Ask each leader about its partitions; yield a reply for each partition and request.

    `build` makes, for at most `PARTITIONS_PER_REQUEST` partitions of one leader, the requests with
    what each is about; for some of these partitions it makes them in the same order. Requests to
    several leaders are in flight at the same time, those to one leader one after the other. If the
    leader of a partition changes, the new one gets the request, once brokers have learnt of it. A
    leader that does not answer may have been replaced; one that needs longer is asked once more.
    """
    waiting: Collection[tuple[int, TopicPartition]] | None = None  # None: for all
    for wait_s in (*ASK_AGAIN_AFTER_S, None):
        moved: dict[tuple[int, TopicPartition], LeaderReply] = {}
        for number, reply, code in _ask_once(connection, leaders, build):
            if waiting is not None and (number, reply.partition) not in waiting:
                continue  # it was answered before
            is_slow = code == ErrorCode.REQUEST_TIMED_OUT and waiting is None
            if (code in LEADER_MOVED or is_slow) and wait_s is not None:
                moved[number, reply.partition] = reply
            else:
                yield reply
        if not moved or wait_s is None:
            return
        time.sleep(wait_s)
        try:
            leaders, without = find_leaders(
                connection, {partition for _, partition in moved}, refresh=True
            )
        except ToolkitError:
            yield from moved.values()
            return
        yield from (r._replace(entry=without[p]) for (_, p), r in moved.items() if p in without)
        waiting = moved.keys()


def _ask_once(
    connection: Connection,
    leaders: Mapping[TopicPartition, LogLeader],
    build: BuildRequests,
) -> Iterator[tuple[int, LeaderReply, int]]:
    """Yield each reply with the number of its request and the broker's error code."""
    by_leader: dict[int, list[TopicPartition]] = defaultdict(list)
    for partition, leader in leaders.items():
        by_leader[leader.node_id].append(partition)
    asks = {
        node_id: [
            TaggedRequest((number, about, chunk), request)
            for chunk in in_chunks(led, PARTITIONS_PER_REQUEST)
            for number, (about, request) in enumerate(build(chunk))
        ]
        for node_id, led in by_leader.items()
    }
    for _, (number, about, chunk), response, _ in connection.send_each(asks):
        if isinstance(response, ToolkitError):
            is_silent = isinstance(response, ClusterUnreachable)
            code = ErrorCode.LEADER_NOT_AVAILABLE if is_silent else ErrorCode.NONE
            for partition in chunk:
                yield number, LeaderReply(about, partition, str(response)), code
            continue
        answered = dict(_entries(response))
        for partition in chunk:
            entry = answered.get(partition)
            code = ErrorCode.NONE if entry is None else entry.error_code
            result = "missing in the broker's response" if entry is None else entry
            if code != ErrorCode.NONE:
                result = reason(code, "Describe")
            yield number, LeaderReply(about, partition, result), code


def _entries(response: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for topic in response.topics:
        # OffsetForLeaderEpoch has its own names for the same things.
        name = topic.name if hasattr(topic, "name") else topic.topic
        for found in topic.partitions:
            number = found.partition_index if hasattr(found, "partition_index") else found.partition
            yield TopicPartition(name, number), found
