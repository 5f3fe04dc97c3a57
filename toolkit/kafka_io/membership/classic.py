"""Requests of a member of a classic group: join, sync, heartbeat, leave, and describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.group import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)

from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.membership.request import ErrorCodeResult, MemberRequest

CONSUMER = "consumer"  # the protocol type of consumers
MEMBERS_VERSION = 3  # of LeaveGroup: earlier ones have no result for each member
SHOWING_VERSION = 6  # of DescribeGroups: brokers from 4.0 on have it
REASON = "offsetbook holds partitions of this group"  # brokers write it into their log


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The answer to a join; only the leader hears of the `members`, each with its subscription."""

    error: int
    member_id: str = ""
    generation: int = -1
    leader: str = ""
    protocol: str = ""
    members: Mapping[str, bytes] = field(default_factory=dict)
    instances: Mapping[str, str] = field(default_factory=dict)  # of static members

    @property
    def leads(self) -> bool:
        return self.leader == self.member_id


@dataclass(frozen=True, slots=True)
class Join(MemberRequest[JoinResult]):
    """Join, or join again; without a member id the answer is error 79 and an id to join with."""

    member_id: str
    protocols: tuple[tuple[str, bytes], ...]  # name and subscription, the preferred one first
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str = CONSUMER
    reason: str = REASON

    waits = True

    def build(self, group_id: str) -> Any:
        return JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            member_id=self.member_id,
            protocol_type=self.protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
                for name, metadata in self.protocols
            ],
            reason=self.reason,
        )

    def read(self, response: Any) -> JoinResult:
        return JoinResult(
            response.error_code,
            response.member_id,
            response.generation_id,
            response.leader,
            response.protocol_name or "",
            {member.member_id: bytes(member.metadata) for member in response.members},
            {m.member_id: m.group_instance_id for m in response.members if m.group_instance_id},
        )


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The answer to a sync: what the member itself was assigned."""

    error: int
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class Sync(MemberRequest[SyncResult]):
    """SyncGroup: fetch the member's assignment; the leader sends all assignments."""

    member_id: str
    generation: int
    protocol: str
    assignments: Mapping[str, bytes] = field(default_factory=dict)

    waits = True

    def build(self, group_id: str) -> Any:
        return SyncGroupRequest(
            group_id=group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type=CONSUMER,
            protocol_name=self.protocol,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in self.assignments.items()
            ],
        )

    def read(self, response: Any) -> SyncResult:
        return SyncResult(response.error_code, bytes(response.assignment or b""))


@dataclass(frozen=True, slots=True)
class ClassicHeartbeat(MemberRequest[ErrorCodeResult]):
    """Stay a member; error 27 says that the group is coming together again."""

    member_id: str
    generation: int

    def build(self, group_id: str) -> Any:
        return HeartbeatRequest(
            group_id=group_id, generation_id=self.generation, member_id=self.member_id
        )

    def read(self, response: Any) -> ErrorCodeResult:
        return ErrorCodeResult(response.error_code)


@dataclass(frozen=True, slots=True)
class LeaveResult:
    """The answer to a leave: the error of the whole, and of each member by its id."""

    error: int
    members: Mapping[str, int] = field(default_factory=dict)

    def error_of(self, member_id: str) -> int:
        return self.error or self.members.get(member_id, ErrorCode.NONE)


@dataclass(frozen=True, slots=True)
class Leave(MemberRequest[LeaveResult]):
    """Leave, or remove other members: a coordinator accepts it from any client."""

    member_ids: tuple[str, ...]
    reason: str = REASON

    def build(self, group_id: str) -> Any:
        return LeaveGroupRequest(
            group_id=group_id,
            members=[
                LeaveGroupRequest.MemberIdentity(member_id=member_id, reason=self.reason)
                for member_id in self.member_ids
            ],
            min_version=MEMBERS_VERSION,
        )

    def read(self, response: Any) -> LeaveResult:
        return LeaveResult(
            response.error_code, {m.member_id: m.error_code for m in response.members}
        )


@dataclass(frozen=True, slots=True)
class DescribedClassicMember:
    """
    A member of a classic group; its subscription is reported only while the group is Stable.

    So is its assignment before Kafka 4.0.
    """

    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicFacts:
    """A classic group as its coordinator describes it."""

    error: int
    why: str = ""
    state: str = ""
    protocol_type: str = ""
    protocol: str = ""
    members: tuple[DescribedClassicMember, ...] = ()
    shows_assignments: bool = False  # also in a rebalance, as brokers from 4.0 on do

    @classmethod
    def of(cls, entry: Any) -> ClassicFacts:
        """Return what a group of a DescribeGroups response says."""
        members = tuple(
            DescribedClassicMember(
                member_id=member.member_id,
                client_id=member.client_id,
                host=member.client_host,
                instance_id=member.group_instance_id,
                subscription=bytes(member.member_metadata or b""),
                assignment=bytes(member.member_assignment or b""),
            )
            for member in entry.members
        )
        return cls(
            ErrorCode.NONE,
            state=entry.group_state,
            protocol_type=entry.protocol_type,
            protocol=entry.protocol_data,
            members=members,
        )


@dataclass(frozen=True, slots=True)
class DescribeClassic(MemberRequest[ClassicFacts]):
    """Ask for a classic group's members."""

    def build(self, group_id: str) -> Any:
        return DescribeGroupsRequest(groups=[group_id])

    def read(self, response: Any) -> ClassicFacts:
        (group,) = response.groups
        if group.error_code != ErrorCode.NONE:
            return ClassicFacts(group.error_code, reason(group.error_code, "Describe"))
        return replace(
            ClassicFacts.of(group), shows_assignments=response.version >= SHOWING_VERSION
        )
