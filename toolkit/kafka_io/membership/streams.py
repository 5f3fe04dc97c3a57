"""Describe a streams group (KIP-1071), join it, and remove members from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.groups.streams_tasks import read_by, source_topics
from toolkit.kafka_io.membership.request import ErrorCodeResult
from toolkit.kafka_io.wire.messages import StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
from toolkit.model import TopicPartition

LEAVE_EPOCH = -1
JOIN_EPOCH = 0
# The coordinator waits so long for a member that is told to give a task up; ours never has one.
REBALANCE_TIMEOUT_MS = 45_000


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
    topology: Any = None  # as `streams_topology.possible_topologies` takes it


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
            topology=group.topology if sources else None,
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
class StreamsHeartbeatResult:
    """What the coordinator says to a member."""

    error: int
    why: str = ""
    epoch: int = JOIN_EPOCH


@dataclass(frozen=True, slots=True)
class StreamsHeartbeat:
    """Stay in the group, or, with a topology, join it; a description shows the rack id."""

    member_id: str
    epoch: int = JOIN_EPOCH
    topology: Any = None
    rack_id: str | None = None

    to_any: ClassVar[bool] = False
    waits: ClassVar[bool] = False

    def build(self, group_id: str) -> Any:
        """Return the protocol message."""
        joining: dict[str, Any] = {}
        if self.topology is not None:
            joining = {
                "topology": self.topology,
                "rack_id": self.rack_id,
                "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
                "process_id": self.member_id,
                "client_tags": [],
                **{f"{kind}_tasks": [] for kind in ("active", "standby", "warmup")},
            }
        return StreamsGroupHeartbeatRequest(
            group_id=group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=-1,
            **joining,
        )

    def read(self, response: Any) -> StreamsHeartbeatResult:
        """Return what the coordinator says."""
        code = response.error_code
        if code != ErrorCode.NONE:
            return StreamsHeartbeatResult(code, reason(code, "Read", response.error_message))
        return StreamsHeartbeatResult(code, epoch=response.member_epoch)


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
