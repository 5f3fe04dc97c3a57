"""Requests for topic metadata and committed offsets that a member needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from kafka.protocol.consumer import OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.membership.request import MemberRequest
from toolkit.model import TopicPartition

TOPIC_IDS_VERSION = 10
MANY_GROUPS_VERSION = 8


@dataclass(frozen=True, slots=True)
class Topic:
    """The id and size of a topic."""

    topic_id: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicsFound:
    """The requested topics that exist; `unread` has the reason why another may exist, too."""

    error: int
    topics: Mapping[str, Topic] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FetchTopics(MemberRequest[TopicsFound]):
    """Ask for the ids and partition counts of topics, or of all but Kafka's internal ones."""

    names: tuple[str, ...] | None = None

    to_any = True

    def build(self, _group_id: str) -> Any:
        topic = MetadataRequest.MetadataRequestTopic
        return MetadataRequest(
            topics=None
            if self.names is None
            else [topic(name=name, topic_id=None) for name in self.names],
            allow_auto_topic_creation=False,
            min_version=TOPIC_IDS_VERSION,
        )

    def read(self, response: Any) -> TopicsFound:
        """Return the topics that are there, and why others cannot be seen; the rest is not."""
        return TopicsFound(
            ErrorCode.NONE,
            {
                topic.name: Topic(topic.topic_id, len(topic.partitions))
                for topic in response.topics
                if topic.error_code == ErrorCode.NONE
                and not (self.names is None and topic.is_internal)
            },
            {
                topic.name: reason(topic.error_code, "Describe")
                for topic in response.topics
                if topic.error_code not in {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            },
        )


@dataclass(frozen=True, slots=True)
class CommitsFound:
    """What the group has committed; an open transaction is not waited for."""

    error: int
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def told(self) -> Mapping[TopicPartition, int]:
        """The offsets; raises BrokerRefused if the coordinator did not return them."""
        if self.error:
            raise BrokerRefused(f"committed offsets: {reason(self.error, 'Describe')}")
        return self.offsets


@dataclass(frozen=True, slots=True)
class FetchCommits(MemberRequest[CommitsFound]):
    """Ask for all committed offsets of the group (KIP-88)."""

    def build(self, group_id: str) -> Any:
        group = OffsetFetchRequest.OffsetFetchRequestGroup
        return OffsetFetchRequest(
            groups=[group(group_id=group_id, topics=None)],
            require_stable=False,
            min_version=MANY_GROUPS_VERSION,
            max_version=MANY_GROUPS_VERSION,
        )

    def read(self, response: Any) -> CommitsFound:
        (group,) = response.groups
        return CommitsFound(
            group.error_code,
            {
                TopicPartition(topic.name, found.partition_index): found.committed_offset
                for topic in group.topics
                for found in topic.partitions
                if found.error_code == ErrorCode.NONE and found.committed_offset >= 0
            },
        )
