"""Requests that read and change the configuration of a group, to any broker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka.protocol.admin import IncrementalAlterConfigsRequest

from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.groups.group_settings import GROUP, config_request, config_resource
from toolkit.kafka_io.membership.request import ErrorCodeResult, MemberRequest

SESSION_TIMEOUT_MS = "consumer.session.timeout.ms"
ASSIGNMENT_INTERVAL_MS = "consumer.assignment.interval.ms"
STREAMS_DELAY_MS = "streams.initial.rebalance.delay.ms"

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
        return config_request(config_resource(GROUP, group_id, self.names))

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
class ChangeConfig(MemberRequest[ErrorCodeResult]):
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
            resources=[resource(resource_type=GROUP, resource_name=group_id, configs=[change])],
            validate_only=False,
        )

    def read(self, response: Any) -> ErrorCodeResult:
        (done,) = response.responses
        if done.error_code == ErrorCode.NONE:
            return ErrorCodeResult(ErrorCode.NONE)
        why = reason(done.error_code, "AlterConfigs", done.error_message)
        return ErrorCodeResult(done.error_code, why)
