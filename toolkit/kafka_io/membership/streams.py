"""Describe a streams group (KIP-1071) and remove members from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from toolkit.kafka_io.client.error_codes import ErrorCode, reason
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
        topology = group.topology.subtopologies if group.topology else None
        topics = {
            part.subtopology_id: (
                *part.source_topics,
                *(topic.name for topic in part.repartition_source_topics),
            )
            for part in topology or ()
        }
        return StreamsFacts(
            ErrorCode.NONE,
            state=group.group_state,
            members=tuple(
                DescribedStreamsMember(
                    m.member_id,
                    m.client_id,
                    m.member_epoch,
                    _reads(m.assignment, topics),
                    _reads(m.target_assignment, topics),
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


def _reads(assignment: Any, topics: Mapping[str, tuple[str, ...]]) -> frozenset[TopicPartition]:
    """Return the partitions that active tasks read."""
    return frozenset(
        TopicPartition(topic, number)
        for task in assignment.active_tasks
        for topic in topics.get(task.subtopology_id, ())
        for number in task.partitions
    )
