"""
Describe a streams group (KIP-1071), join it, and remove members from it.

A coordinator accepts a member only if it sends the topology that the group has. Its description
leaves out which sources are co-partitioned, and which numbers of partitions it has worked out
itself. Both have few possible values, and the coordinator accepts only the right ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import Any

from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.groups.subscriptions import read_by, source_topics
from toolkit.kafka_io.membership.consumer import JOIN_EPOCH
from toolkit.kafka_io.membership.request import MemberRequest
from toolkit.kafka_io.wire.messages import StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
from toolkit.model import TopicPartition

# How long the coordinator waits for a member to revoke a task; offsetbook's has none.
REBALANCE_TIMEOUT_MS = 45_000

Topology = StreamsGroupHeartbeatRequest.Topology
Subtopology = Topology.Subtopology
TopicInfo = Subtopology.TopicInfo
MOST_CASES = 500
WORKED_OUT = 0  # how a member says that a number of partitions is for the coordinator to find


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
    topology: Any = None  # as `possible_topologies` takes it


@dataclass(frozen=True, slots=True)
class DescribeStreams(MemberRequest[StreamsFacts]):
    """Ask for a streams group's members."""

    def build(self, group_id: str) -> Any:
        return StreamsGroupDescribeRequest(group_ids=[group_id])

    def read(self, response: Any) -> StreamsFacts:
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
class StreamsHeartbeat(MemberRequest[StreamsHeartbeatResult]):
    """
    Stay in the group, with a topology join it, and with epoch -1 leave it.

    It can also remove another member: a coordinator does not check who sends it. A description
    shows the rack id.
    """

    member_id: str
    epoch: int = JOIN_EPOCH
    topology: Any = None
    rack_id: str | None = None

    def build(self, group_id: str) -> Any:
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
        code = response.error_code
        if code != ErrorCode.NONE:
            return StreamsHeartbeatResult(code, reason(code, "Read", response.error_message))
        return StreamsHeartbeatResult(code, epoch=response.member_epoch)


def possible_topologies(described: Any) -> Iterator[Any]:
    """
    Yield the topologies that a described one may be, the simplest first.

    Left out are sources given as a pattern, and several co-partitioned groups in a subtopology.
    """
    parts = [list(islice(_possible_parts(part), MOST_CASES)) for part in described.subtopologies]
    for chosen in islice(product(*parts), MOST_CASES):
        yield Topology(epoch=described.epoch, subtopologies=list(chosen))


def _possible_parts(part: Any) -> Iterator[Any]:
    repartitioned = part.repartition_source_topics
    numbers = [True, False] if repartitioned else [True]
    for alike, is_worked_out in product(_alike(part), numbers):
        yield Subtopology(
            subtopology_id=part.subtopology_id,
            source_topics=list(part.source_topics),
            source_topic_regex=[],
            state_changelog_topics=[
                _topic_info(one, partitions=WORKED_OUT) for one in part.state_changelog_topics
            ],
            repartition_sink_topics=list(part.repartition_sink_topics),
            repartition_source_topics=[
                _topic_info(one, partitions=WORKED_OUT if is_worked_out else one.partitions)
                for one in repartitioned
            ],
            copartition_groups=alike,
        )


def _alike(part: Any) -> Iterator[list[Any]]:
    """Yield which sources are co-partitioned: none, or all of them, in any order."""
    yield []
    sources, repartitioned = (
        range(len(part.source_topics)),
        range(len(part.repartition_source_topics)),
    )
    if len(sources) + len(repartitioned) > 1:
        for places in product(permutations(sources), permutations(repartitioned)):
            source_topics, repartition_topics = map(list, places)
            yield [
                Subtopology.CopartitionGroup(
                    source_topics=source_topics,
                    source_topic_regex=[],
                    repartition_source_topics=repartition_topics,
                )
            ]


def _topic_info(topic: Any, *, partitions: int) -> Any:
    return TopicInfo(
        name=topic.name,
        partitions=partitions,
        replication_factor=topic.replication_factor,
        topic_configs=[
            StreamsGroupHeartbeatRequest.KeyValue(key=one.key, value=one.value)
            for one in topic.topic_configs
        ],
    )
