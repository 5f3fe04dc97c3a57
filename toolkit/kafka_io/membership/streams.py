"""Describe a streams group (KIP-1071) and remove members from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.groups.streams_tasks import read_by, source_topics
from toolkit.kafka_io.membership.request import ErrorCodeResult
from toolkit.kafka_io.wire.messages import StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
from toolkit.model import TopicPartition

LEAVE_EPOCH = -1


@dataclass(frozen=True, slots=True)
class DescribedStreamsMember:
    """One member: the partitions that its active tasks read, and those that they are to read."""

    member_id: str
    client_id: str
    epoch: int
    reads: frozenset[TopicPartition]
    is_to_read: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class StreamsFacts:
    """A streams group as its coordinator describes it."""

    error: int
    why: str = ""
    state: str = ""
    members: tuple[DescribedStreamsMember, ...] = ()


@dataclass(frozen=True, slots=True)
class DescribeStreams:
    """Ask for a streams group's members."""

    to_any: ClassVar[bool] = False
    waits: ClassVar[bool] = False

    def build(self, group_id: str) -> Any:
        """Return the protocol message."""
        return StreamsGroupDescribeRequest(
            group_ids=[group_id], include_authorized_operations=False
        )

    def read(self, response: Any) -> StreamsFacts:
        """Return what the coordinator says."""
        (group,) = response.groups
        if group.error_code != ErrorCode.NONE:
            return StreamsFacts(
                group.error_code, reason(group.error_code, "Describe", group.error_message)
            )
        sources = source_topics(group.topology) or {}
        return StreamsFacts(
            ErrorCode.NONE,
            state=group.group_state,
            members=tuple(
                DescribedStreamsMember(
                    m.member_id,
                    m.client_id,
                    m.member_epoch,
                    read_by(m.assignment, sources),
                    read_by(m.target_assignment, sources),
                )
                for m in group.members
            ),
        )


@dataclass(frozen=True, slots=True)
class LeaveStreams:
    """Leave, or have another member leave: a coordinator does not ask who says so."""

    member_id: str

    to_any: ClassVar[bool] = False
    waits: ClassVar[bool] = False

    def build(self, group_id: str) -> Any:
        """Return the protocol message."""
        return StreamsGroupHeartbeatRequest(
            group_id=group_id,
            member_id=self.member_id,
            member_epoch=LEAVE_EPOCH,
            endpoint_information_epoch=-1,
        )

    def read(self, response: Any) -> ErrorCodeResult:
        """Return what the coordinator says."""
        return ErrorCodeResult(response.error_code)
