"""Settings that say how a group behaves: its own where it has any, else its brokers'."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeConfigsRequest

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC

TOPIC, BROKER, GROUP = 2, 4, 32  # types of resources
OF_A_BROKER = (
    *("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    *("group.consumer.max.size", "group.max.size", "offsets.retention.minutes"),
)
OF_EXPIRY = ("offsets.retention.minutes", "offsets.retention.check.interval.ms")
OF_A_GROUP = ("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms")


def read_group_settings(connection: Connection, group_id: str) -> dict[str, str]:
    """Return the settings of a group and of a broker that this user may see, by Kafka's names."""
    for broker_id in connection.broker_ids[:1]:  # brokers of a cluster have these in common
        of_broker = _settings(BROKER, str(broker_id), OF_A_BROKER)
        of_both = (of_broker, _settings(GROUP, group_id, OF_A_GROUP))
        # A broker that knows no settings of groups may refuse the whole request.
        return _read(connection, *of_both, to=broker_id) or _read(
            connection, of_broker, to=broker_id
        )
    return {}


class ExpirySettings(NamedTuple):
    """The broker settings that decide when committed offsets expire; None if not reported."""

    retention_s: int | None  # offsets.retention.minutes
    check_interval_s: int | None  # offsets.retention.check.interval.ms
    delete_retention_ms: int | None  # how long the offsets topic keeps tombstones


def read_expiry_settings(connection: Connection) -> ExpirySettings:
    """Return those settings of a cluster, as far as this user may see them."""
    found: dict[str, str] = {}
    for broker_id in connection.broker_ids[:1]:  # brokers of a cluster have these in common
        found |= _read(connection, _settings(BROKER, str(broker_id), OF_EXPIRY), to=broker_id)
    found |= _read(connection, _settings(TOPIC, OFFSETS_TOPIC, ("delete.retention.ms",)))

    def number(name: str) -> int | None:
        return int(found[name]) if name in found else None

    minutes, interval_ms = (number(name) for name in OF_EXPIRY)
    return ExpirySettings(
        retention_s=None if minutes is None else minutes * 60,
        # Below a second it is a setting of tests only; never promise too early.
        check_interval_s=None if interval_ms is None else -(-interval_ms // 1000),
        delete_retention_ms=number("delete.retention.ms"),
    )


def _settings(kind: int, name: str, keys: Sequence[str]) -> Any:
    return DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys)
    )


def _read(connection: Connection, *resources: Any, to: int | None = None) -> dict[str, str]:
    request = DescribeConfigsRequest(
        resources=list(resources), include_synonyms=False, include_documentation=False
    )
    # Brokers before 4.0 have no settings of groups, and this user may not see any.
    with suppress(ToolkitError):
        answer = connection.send(request, to=to)
        return {
            config.name: config.value
            for result in answer.results
            if result.error_code == ErrorCode.NONE
            for config in result.configs
            if config.value is not None
        }
    return {}
