"""
Group members that no Python client can be: Connect, share and streams.

Like `applications`, whose declared exception they share, they play the user's side: they speak to
the broker themselves, with the protocol messages of kafka-python.
"""

from __future__ import annotations

import socket
import struct
import threading
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafka.protocol.consumer.offsets import ListOffsetsRequest, ListOffsetsResponse

from toolkit.kafka_io.wire.messages import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from toolkit.model import TopicPartition
from toolkit.sandbox.seed import TOPICS, Behaviour, SeededGroup, SeededTopic

LATEST, EARLIEST = -1, -2
NOT_LEADER, NOT_COORDINATOR = 6, 16
MEMBER_ID_REQUIRED, UNKNOWN_MEMBER = 79, 25
JOIN_AGAIN = frozenset({MEMBER_ID_REQUIRED, UNKNOWN_MEMBER})

_LEAVE = -1  # the epoch with which a member of the newer protocols leaves
_UNSTABLE = 88  # the error where a transaction has an offset for the partition
PROCESS = uuid.uuid4()  # parts of member ids that stay the same after an eviction


class RawRequestRefused(Exception):  # reads as a sentence: the broker refused
    """The broker answered with an error code."""


class RawConnection:
    """One connection to the broker, one request at a time."""

    def __init__(self, address: str, *, client_id: str, timeout_s: float = 30) -> None:
        """Connect to `address`, a host and a port."""
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=timeout_s)
        self._incoming = self._socket.makefile("rb")
        self._client_id = client_id

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._incoming.close()
        self._socket.close()

    def ask(self, request: Any, answer: Any, *, version: int) -> Any:
        """Send `request` and return what came back, decoded as `answer`."""
        request.API_VERSION = version
        request.with_header(client_id=self._client_id)
        self._socket.sendall(request.encode(version=version, header=True, framed=True))
        (size,) = struct.unpack(">i", self._read(4))
        return answer.decode(self._read(size), version=version, header=True)

    def ask_all(self, request: Any, answer: Any, *, version: int) -> list[Any]:
        return [self.ask(request, answer, version=version)]

    def _read(self, size: int) -> bytes:
        data = self._incoming.read(size)
        if len(data) < size:
            raise ConnectionResetError("the broker closed the connection")
        return data


class RawCluster:
    """A connection to each broker that runs; what only one of them may answer finds that one."""

    def __init__(self, addresses: str, *, client_id: str) -> None:
        """Connect to `addresses`, hosts and ports with commas between them."""
        self._open = ExitStack()
        self._brokers: list[RawConnection] = []
        refused: list[OSError] = []
        for address in addresses.split(","):
            try:
                one = RawConnection(address, client_id=client_id)
            except OSError as exc:
                refused.append(exc)
            else:
                self._brokers.append(self._open.enter_context(one))
        if not self._brokers:
            raise refused[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def ask(self, request: Any, answer: Any, *, version: int) -> Any:
        """Return the response of the group's coordinator, which is tried first the next time."""
        for number, broker in enumerate(self._brokers):
            got = broker.ask(request, answer, version=version)
            # An answer without a code of its own is one to a member, whose heartbeat came before.
            if getattr(got, "error_code", 0) != NOT_COORDINATOR:
                self._brokers.insert(0, self._brokers.pop(number))
                break
        return got

    def ask_all(self, request: Any, answer: Any, *, version: int) -> list[Any]:
        return [broker.ask(request, answer, version=version) for broker in self._brokers]


Brokers = RawConnection | RawCluster


def checked(answer: Any) -> Any:
    """Return `answer`, or raise `RawRequestRefused` when it carries an error code."""
    if answer.error_code:
        raise RawRequestRefused(f"{type(answer).__name__}: error {answer.error_code}")
    return answer


def log_offsets(
    brokers: Brokers,
    topics: Iterable[SeededTopic],
    *,
    timestamp: int = LATEST,
    stable: bool = False,
) -> dict[TopicPartition, int]:
    """Return the first or last offset of every partition; `stable` stops at open transactions."""
    Topic = ListOffsetsRequest.ListOffsetsTopic  # noqa: N806  # it is a class
    requested = [
        Topic(
            name=topic.name,
            partitions=[
                Topic.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
                for partition in range(topic.partitions)
            ],
        )
        for topic in topics
    ]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=int(stable), topics=requested)
    offsets = {
        TopicPartition(topic.name, partition.partition_index): checked(partition).offset
        for answer in brokers.ask_all(request, ListOffsetsResponse, version=3)
        for topic in answer.topics
        for partition in topic.partitions
        if partition.error_code != NOT_LEADER
    }
    if len(offsets) < sum(len(topic.partitions) for topic in requested):
        raise RawRequestRefused("partitions without a leader")
    return offsets


def stay_in(group: SeededGroup, *, address: str, stopped: threading.Event) -> None:
    """Be a member of `group` until `stopped`, and join again whenever the broker has removed it."""
    while not stopped.is_set():
        member = MEMBERS[group.behaviour](group)
        try:
            with RawCluster(address, client_id=f"{group.group_id}-1") as broker:
                member.join(broker)
                while not stopped.wait(1):
                    member.heartbeat(broker)
                member.leave(broker)
        except (OSError, RawRequestRefused):
            stopped.wait(0.2)


@dataclass
class ClassicMember:
    """A member of a classic group of any protocol type; as its leader it assigns nothing."""

    group_id: str
    protocol_type: str
    protocol: str
    metadata: bytes
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    member_id: str = ""
    generation: int = -1
    members: Sequence[str] = ()  # as their leader knows them

    def join(self, broker: Brokers) -> None:
        """Join or join again, which lasts until every member has."""
        while (joined := self._ask_to_join(broker)).error_code in JOIN_AGAIN:
            # With the id that the broker chose. Or without one: a new group that has nothing yet
            # may be tidied away, and the ids that it gave out with it.
            is_known = joined.error_code == MEMBER_ID_REQUIRED
            self.member_id = joined.member_id if is_known else ""
        self.generation = checked(joined).generation_id
        self.members = [member.member_id for member in joined.members]

    def _ask_to_join(self, broker: Brokers) -> Any:
        protocol = JoinGroupRequest.JoinGroupRequestProtocol
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            protocol_type=self.protocol_type,
            protocols=[protocol(name=self.protocol, metadata=self.metadata)],
        )
        return broker.ask(request, JoinGroupResponse, version=5)

    def sync(self, broker: Brokers) -> None:
        """End the rebalance."""
        assignment = SyncGroupRequest.SyncGroupRequestAssignment
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[assignment(member_id=one, assignment=b"") for one in self.members],
        )
        checked(broker.ask(request, SyncGroupResponse, version=3))

    def leave(self, broker: Brokers) -> None:
        """Leave at once instead of timing out."""
        member = LeaveGroupRequest.MemberIdentity(member_id=self.member_id)
        request = LeaveGroupRequest(group_id=self.group_id, members=[member])
        checked(broker.ask(request, LeaveGroupResponse, version=3))


class ConnectWorker(ClassicMember):
    """A worker of a Connect cluster that runs one sink."""

    # Worker state, version 2 ("sessioned"): its REST address, its config offset, no allocation.
    _STATE: ClassVar = struct.pack(">hh22sqi", 2, 22, b"http://127.0.0.1:8083/", 0, -1)

    def __init__(self, group: SeededGroup) -> None:
        super().__init__(group.group_id, "connect", "sessioned", self._STATE)
        self.topics = _topics_of(group)

    def join(self, broker: Brokers) -> None:
        super().join(broker)
        self.sync(broker)
        self.heartbeat(broker)

    def heartbeat(self, broker: Brokers) -> None:
        """Send a heartbeat of the worker, and commit for the sink's tasks."""
        request = HeartbeatRequest(
            group_id=self.group_id, generation_id=self.generation, member_id=self.member_id
        )
        checked(broker.ask(request, HeartbeatResponse, version=3))
        ends = log_offsets(broker, self.topics)
        commit(broker, self.group_id, ends, member=(self.member_id, self.generation))


class ShareConsumer:
    """A share consumer (KIP-932) that holds a subscription and fetches nothing."""

    def __init__(self, group: SeededGroup) -> None:
        self.group = group
        self.member_id = str(uuid.uuid4())
        self.epoch = 0

    def join(self, broker: Brokers) -> None:
        self._beat(broker, topics=list(self.group.reads))

    def heartbeat(self, broker: Brokers) -> None:
        self._beat(broker)

    def leave(self, broker: Brokers) -> None:
        self.epoch = _LEAVE
        self._beat(broker)

    def _beat(self, broker: Brokers, *, topics: list[str] | None = None) -> None:
        request = ShareGroupHeartbeatRequest(
            group_id=self.group.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            subscribed_topic_names=topics,
        )
        answer = checked(broker.ask(request, ShareGroupHeartbeatResponse, version=1))
        self.epoch = answer.member_epoch


class StreamsInstance:
    """
    An instance of a streams application (KIP-1071) with one stateless subtopology.

    As Kafka Streams does, it reads on where the application has committed when it is given a task,
    waits while a transaction has offsets for it, and forgets its positions, but not its member id,
    when it is evicted.
    """

    def __init__(self, group: SeededGroup) -> None:
        self.group = group
        self.member_id = str(uuid.uuid5(PROCESS, group.group_id))
        self.epoch = 0
        self.tasks: list[Any] = []
        self.positions: dict[TopicPartition, int] = {}  # of what it reads

    def join(self, broker: Brokers) -> None:
        Topology = StreamsGroupHeartbeatRequest.Topology  # noqa: N806  # it is a class
        subtopology = Topology.Subtopology(
            subtopology_id="0",
            source_topics=list(self.group.reads),
            source_topic_regex=[],
            state_changelog_topics=[],
            repartition_sink_topics=[],
            repartition_source_topics=[],
            copartition_groups=[],
        )
        self._beat(
            broker,
            topology=Topology(epoch=0, subtopologies=[subtopology]),
            rebalance_timeout_ms=60_000,
            process_id=self.member_id,
            client_tags=[],
        )
        self.heartbeat(broker)

    def heartbeat(self, broker: Brokers) -> None:
        """Send a heartbeat with the tasks of the instance, read new records, and commit."""
        self._beat(broker)
        read = _topics_of(self.group)
        owned = {
            TopicPartition(topic.name, number)
            for topic in read
            for task in self.tasks
            for number in task.partitions
        }
        new = _settled(broker, self.group, owned - self.positions.keys())
        ends = log_offsets(broker, read)
        self.positions = {place: ends[place] for place in owned & (self.positions.keys() | new)}
        member = self.member_id, self.epoch
        commit(broker, self.group.group_id, self.positions, member=member)

    def leave(self, broker: Brokers) -> None:
        self.epoch = _LEAVE
        self._beat(broker)

    def _beat(self, broker: Brokers, **more: Any) -> None:
        request = StreamsGroupHeartbeatRequest(
            group_id=self.group.group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=0,
            active_tasks=self.tasks,
            standby_tasks=[],
            warmup_tasks=[],
            shutdown_application=False,
            **{"rebalance_timeout_ms": -1, **more},
        )
        answer = checked(broker.ask(request, StreamsGroupHeartbeatResponse, version=0))
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.tasks = [
                StreamsGroupHeartbeatRequest.TaskIds(
                    subtopology_id=task.subtopology_id, partitions=task.partitions
                )
                for task in answer.active_tasks
            ]


MEMBERS: dict[Behaviour, type[ConnectWorker | ShareConsumer | StreamsInstance]] = {
    Behaviour.CONNECTS: ConnectWorker,
    Behaviour.SHARES: ShareConsumer,
    Behaviour.STREAMS: StreamsInstance,
}


def _topics_of(group: SeededGroup) -> list[SeededTopic]:
    return [topic for topic in TOPICS if topic.name in group.reads]


def _settled(
    broker: Brokers, group: SeededGroup, partitions: Collection[TopicPartition]
) -> set[TopicPartition]:
    """Return the partitions of which the committed offset is settled: no transaction has one."""
    Group = OffsetFetchRequest.OffsetFetchRequestGroup  # noqa: N806  # it is a class
    requested = Group(group_id=group.group_id, topics=None)
    request = OffsetFetchRequest(groups=[requested], require_stable=True)
    (response,) = broker.ask(request, OffsetFetchResponse, version=8).groups
    waiting = {
        TopicPartition(topic.name, partition.partition_index)
        for topic in checked(response).topics
        for partition in topic.partitions
        if partition.error_code == _UNSTABLE
    }
    return {*partitions} - waiting


def commit(
    broker: Brokers,
    group_id: str,
    positions: Mapping[TopicPartition, int],
    *,
    member: tuple[str, int] = ("", -1),
    keep_ms: int | None = None,
) -> None:
    """
    Commit positions as a member with its id and its generation or epoch, or without a member.

    `keep_ms` asks for a retention, as clients before Kafka 2.1 can.
    """
    Topic = OffsetCommitRequest.OffsetCommitRequestTopic  # noqa: N806  # it is a class
    topics = [
        Topic(
            name=partition.topic,
            partitions=[
                Topic.OffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=position,
                    committed_leader_epoch=-1,
                    committed_metadata="",
                )
            ],
        )
        for partition, position in positions.items()
    ]
    if not topics:
        return
    request = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=member[1],
        member_id=member[0],
        retention_time_ms=-1 if keep_ms is None else keep_ms,
        topics=topics,
    )
    answer = broker.ask(request, OffsetCommitResponse, version=9 if keep_ms is None else 4)
    for topic in answer.topics:
        checked(topic.partitions[0])
