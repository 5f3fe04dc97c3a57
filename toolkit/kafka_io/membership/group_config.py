"""Requests for group configuration and topic lists, to any broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from kafka.protocol.metadata import MetadataRequest

from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.membership.request import MemberRequest
from toolkit.kafka_io.membership.topics_and_commits import TOPIC_IDS_VERSION, Topic, TopicsFound

SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"
ASSIGNMENT_INTERVAL_MS = "consumer.assignment.interval.ms"
STREAMS_DELAY_MS = "streams.initial.rebalance.delay.ms"

GROUP_RESOURCE = 32
SET_FOR_THE_GROUP = 8  # the source of a value; others are defaults of some kind
SET, DELETE = 0, 1


@dataclass(frozen=True, slots=True)
class ConfigFound:
    """The values in force, by name, and those that were set for this very group."""

    error: int
    why: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FetchGroupConfig(MemberRequest[ConfigFound]):
    """Ask for some settings of the group; needs DESCRIBE_CONFIGS on it."""

    names: tuple[str, ...]

    to_any = True

    def build(self, group_id: str) -> Any:
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name=group_id,
            configuration_keys=list(self.names),
        )
        return DescribeConfigsRequest(
            resources=[resource], include_synonyms=False, include_documentation=False
        )

    def read(self, response: Any) -> ConfigFound:
        (found,) = response.results
        if found.error_code != ErrorCode.NONE:
            return ConfigFound(
                found.error_code, reason(found.error_code, "DescribeConfigs", found.error_message)
            )
        known = [entry for entry in found.configs if entry.value is not None]
        return ConfigFound(
            ErrorCode.NONE,
            values={entry.name: entry.value for entry in known},
            own={e.name: e.value for e in known if e.config_source == SET_FOR_THE_GROUP},
        )


@dataclass(frozen=True, slots=True)
class ConfigChanged:
    """Whether a setting was changed."""

    error: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class ChangeConfig(MemberRequest[ConfigChanged]):
    """Set one setting of the group, or, with None, have it follow the cluster's default again."""

    name: str
    value: str | None

    to_any = True

    def build(self, group_id: str) -> Any:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        change = resource.AlterableConfig(
            name=self.name,
            config_operation=DELETE if self.value is None else SET,
            value=self.value,
        )
        return IncrementalAlterConfigsRequest(
            resources=[
                resource(resource_type=GROUP_RESOURCE, resource_name=group_id, configs=[change])
            ],
            validate_only=False,
        )

    def read(self, response: Any) -> ConfigChanged:
        (done,) = response.responses
        if done.error_code != ErrorCode.NONE:
            return ConfigChanged(
                done.error_code, reason(done.error_code, "AlterConfigs", done.error_message)
            )
        return ConfigChanged(ErrorCode.NONE)


@dataclass(frozen=True, slots=True)
class FetchAllTopics(MemberRequest[TopicsFound]):
    """Request every topic that this user may see, without Kafka's internal topics."""

    to_any = True

    def build(self, _group_id: str) -> Any:
        return MetadataRequest(
            topics=None, allow_auto_topic_creation=False, min_version=TOPIC_IDS_VERSION
        )

    def read(self, response: Any) -> TopicsFound:
        """Return the topics without an error."""
        return TopicsFound(
            ErrorCode.NONE,
            {
                topic.name: Topic(topic.topic_id, len(topic.partitions))
                for topic in response.topics
                if topic.error_code == ErrorCode.NONE and not topic.is_internal
            },
        )
