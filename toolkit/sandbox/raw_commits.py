"""
Commit as a member of one group, and find what may be read on from.

Part of `raw_members`, whose declared exception it shares.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafka.protocol.consumer.group import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from toolkit.model import TopicPartition
from toolkit.sandbox.raw_connection import Brokers, checked
from toolkit.sandbox.seed import TOPICS, SeededGroup, SeededTopic

UNSTABLE = 88  # a transaction has an offset for the partition


def topics_of(group: SeededGroup) -> list[SeededTopic]:
    """Return the topics that a group reads."""
    return [topic for topic in TOPICS if topic.name in group.reads]


def settled(
    broker: Brokers, group: SeededGroup, wanted: Collection[TopicPartition]
) -> set[TopicPartition]:
    """Return the partitions of which the committed offset is settled: no transaction has one."""
    Group = OffsetFetchRequest.OffsetFetchRequestGroup  # noqa: N806  # it is a class
    asked = Group(group_id=group.group_id, topics=None)
    request = OffsetFetchRequest(groups=[asked], require_stable=True)
    (told,) = broker.ask(request, OffsetFetchResponse, version=8).groups
    waiting = {
        TopicPartition(topic.name, partition.partition_index)
        for topic in checked(told).topics
        for partition in topic.partitions
        if partition.error_code == UNSTABLE
    }
    return {*wanted} - waiting


def commit(
    broker: Brokers,
    group: SeededGroup,
    positions: Mapping[TopicPartition, int],
    *,
    member: tuple[str, int],
) -> None:
    """Commit positions, as a member with its id and epoch."""
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
        group_id=group.group_id,
        generation_id_or_member_epoch=member[1],
        member_id=member[0],
        topics=topics,
    )
    answer = broker.ask(request, OffsetCommitResponse, version=9)
    for topic in answer.topics:
        checked(topic.partitions[0])
