"""Requests of a KIP-848 member: its heartbeat, by which it also joins and leaves, and describe."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.membership.request import MemberRequest
from toolkit.kafka_io.wire.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from toolkit.model import HOLDER_CLIENT_ID, TopicPartition

JOIN_EPOCH, LEAVE_EPOCH = 0, -1
LONGEST_REBALANCE_MS = 2**31 - 1  # 24.8 days


class IdPartition(NamedTuple):
    """A partition as the newer protocols write it: the id of its topic, and its number."""

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeatResult:
    """The answer to a heartbeat; `assigned` is None where the assignment did not change."""

    error: int
    why: str = ""
    epoch: int = 0
    assigned: frozenset[IdPartition] | None = None
    interval_ms: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat(MemberRequest[ConsumerHeartbeatResult]):
    """ConsumerGroupHeartbeat: epoch 0 joins, -1 leaves; None means unchanged."""

    member_id: str
    epoch: int
    owned: frozenset[IdPartition] | None = None
    topics: tuple[str, ...] | None = None
    assignor: str | None = None
    rack_id: str | None = None  # free text that the description of the group shows
    instance_id: str | None = None  # of a static member that joins; later none is needed

    def build(self, group_id: str) -> Any:
        """Return the protocol message; a joining member must say everything."""
        joins = self.epoch == JOIN_EPOCH
        request = ConsumerGroupHeartbeatRequest
        owned = frozenset[IdPartition]() if joins and self.owned is None else self.owned
        return request(
            group_id=group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            rebalance_timeout_ms=LONGEST_REBALANCE_MS if joins else -1,
            subscribed_topic_names=None if self.topics is None else list(self.topics),
            server_assignor=self.assignor,
            topic_partitions=None
            if owned is None
            else [
                request.TopicPartitions(topic_id=topic_id, partitions=numbers)
                for topic_id, numbers in _by_topic(owned).items()
            ],
            min_version=1,
        )

    def read(self, response: Any) -> ConsumerHeartbeatResult:
        code = response.error_code
        if code != ErrorCode.NONE:
            return ConsumerHeartbeatResult(code, reason(code, "Read", response.error_message))
        assigned = response.assignment
        return ConsumerHeartbeatResult(
            ErrorCode.NONE,
            epoch=response.member_epoch,
            assigned=None
            if assigned is None
            else frozenset(
                IdPartition(topic.topic_id, number)
                for topic in assigned.topic_partitions
                for number in topic.partitions
            ),
            interval_ms=response.heartbeat_interval_ms,
        )


@dataclass(frozen=True, slots=True)
class DescribedConsumerMember:
    """A member of a KIP-848 group."""

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    topics: frozenset[str]
    assigned: frozenset[TopicPartition]
    target: frozenset[TopicPartition]

    @classmethod
    def of(cls, entry: Any) -> DescribedConsumerMember:
        """Return what a member of a ConsumerGroupDescribe response says."""
        return cls(
            member_id=entry.member_id,
            client_id=entry.client_id,
            host=entry.client_host,
            instance_id=entry.instance_id,
            rack_id=entry.rack_id,
            epoch=entry.member_epoch,
            topics=frozenset(entry.subscribed_topic_names),
            assigned=frozenset(assigned_partitions(entry.assignment)),
            target=frozenset(assigned_partitions(entry.target_assignment)),
        )

    @property
    def holds(self) -> frozenset[TopicPartition]:
        """
        What offsetbook's member keeps from all others: what it has and is not meant to have.

        While a hold is being captured its members are meant to have what they own.
        """
        is_holder = self.client_id == HOLDER_CLIENT_ID
        return self.assigned - self.target if is_holder else frozenset()


@dataclass(frozen=True, slots=True)
class ConsumerFacts:
    """A KIP-848 group as its coordinator describes it."""

    error: int
    why: str = ""
    state: str = ""
    epoch: int = 0
    assignor: str = ""
    members: tuple[DescribedConsumerMember, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeConsumer(MemberRequest[ConsumerFacts]):
    """Ask for a KIP-848 group's members."""

    def build(self, group_id: str) -> Any:
        return ConsumerGroupDescribeRequest(group_ids=[group_id])

    def read(self, response: Any) -> ConsumerFacts:
        (group,) = response.groups
        if group.error_code != ErrorCode.NONE:
            return ConsumerFacts(
                group.error_code, reason(group.error_code, "Describe", group.error_message)
            )
        return ConsumerFacts(
            ErrorCode.NONE,
            state=group.group_state,
            epoch=group.group_epoch,
            assignor=group.assignor_name,
            members=tuple(map(DescribedConsumerMember.of, group.members)),
        )


def assigned_partitions(assignment: Any) -> Iterator[TopicPartition]:
    """Yield the partitions of an assignment in a response of KIP-848 and later protocols."""
    for topic in assignment.topic_partitions:
        for number in topic.partitions:
            yield TopicPartition(topic.topic_name, number)


def _by_topic(partitions: Iterable[IdPartition]) -> dict[UUID, list[int]]:
    by_topic: dict[UUID, list[int]] = defaultdict(list)
    for topic_id, number in sorted(partitions):
        by_topic[topic_id].append(number)
    return by_topic
