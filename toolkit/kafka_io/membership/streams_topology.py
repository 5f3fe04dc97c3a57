"""
What a member says of a topology when it joins a streams group (KIP-1071).

A coordinator accepts a member only if it sends the topology that the group has. Its description
leaves out which sources are co-partitioned, and which numbers of partitions it has worked out
itself. Both have few possible values, and the coordinator accepts only the right ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, permutations, product
from typing import Any

from toolkit.kafka_io.wire.messages import StreamsGroupHeartbeatRequest

Topology = StreamsGroupHeartbeatRequest.Topology
Subtopology = Topology.Subtopology
TopicInfo = Subtopology.TopicInfo

MOST_CASES = 500
WORKED_OUT = 0  # how a member says that a number of partitions is for the coordinator to find


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
                _topic(one, partitions=WORKED_OUT) for one in part.state_changelog_topics
            ],
            repartition_sink_topics=list(part.repartition_sink_topics),
            repartition_source_topics=[
                _topic(one, partitions=WORKED_OUT if is_worked_out else one.partitions)
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
            named, of_ours = map(list, places)
            yield [
                Subtopology.CopartitionGroup(
                    source_topics=named, source_topic_regex=[], repartition_source_topics=of_ours
                )
            ]


def _topic(told: Any, *, partitions: int) -> Any:
    return TopicInfo(
        name=told.name,
        partitions=partitions,
        replication_factor=told.replication_factor,
        topic_configs=[
            StreamsGroupHeartbeatRequest.KeyValue(key=one.key, value=one.value)
            for one in told.topic_configs
        ],
    )
