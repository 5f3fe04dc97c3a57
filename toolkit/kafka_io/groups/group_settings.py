"""Settings that say how a group behaves: its own where it has any, else its brokers'."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from kafka.protocol.admin import DescribeConfigsRequest

from toolkit.errors import BrokerRefused, ClusterUnreachable, ToolkitError
from toolkit.kafka_io.client.connection import Connection, TaggedRequest
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC

TOPIC, BROKER, GROUP = 2, 4, 32  # types of resources
OF_A_BROKER = (
    *("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    *("group.consumer.max.size", "group.max.size", "offsets.retention.minutes"),
)
OF_EXPIRY = ("offsets.retention.minutes", "offsets.retention.check.interval.ms")
TOMBSTONES = "delete.retention.ms"
OF_A_GROUP = ("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms")


def read_group_settings(connection: Connection, group_id: str) -> dict[str, str]:
    """Return the settings of a group and of a broker that this user may see, by Kafka's names."""
    for broker_id in connection.broker_ids:  # they have these in common: the first that answers
        of_broker = config_resource(BROKER, str(broker_id), OF_A_BROKER)
        of_both = (of_broker, config_resource(GROUP, group_id, OF_A_GROUP))
        with suppress(ClusterUnreachable):
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
    """
    Return those settings of a cluster, as far as this user may see them.

    Each broker has its own, and that of a group's coordinator counts: of several, the shortest
    retention and the longest interval are returned.
    """
    asks = {
        one: [TaggedRequest(None, config_request(config_resource(BROKER, str(one), OF_EXPIRY)))]
        for one in connection.broker_ids
    }
    found = [_values(one.response) for one in connection.send_each(asks)]
    of_topic: dict[str, str] = {}
    with suppress(ClusterUnreachable):
        of_topic = _read(connection, config_resource(TOPIC, OFFSETS_TOPIC, (TOMBSTONES,)))
    minutes, intervals_ms = (
        [int(values[name]) for values in found if name in values] for name in OF_EXPIRY
    )
    return ExpirySettings(
        retention_s=min(minutes) * 60 if minutes else None,
        # Below a second it is a setting of tests only; never promise too early.
        check_interval_s=-(-max(intervals_ms) // 1000) if intervals_ms else None,
        delete_retention_ms=int(of_topic[TOMBSTONES]) if TOMBSTONES in of_topic else None,
    )


def config_resource(kind: int, name: str, keys: Sequence[str]) -> Any:
    """Name some settings of a topic, broker or group, for `config_request`."""
    return DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys)
    )


def _read(connection: Connection, *resources: Any, to: int | None = None) -> dict[str, str]:
    # Brokers before 4.0 have no settings of groups, and this user may not see any.
    with suppress(BrokerRefused):
        return _values(connection.send(config_request(*resources), to=to))
    return {}


def config_request(*resources: Any) -> Any:
    return DescribeConfigsRequest(
        resources=list(resources), include_synonyms=False, include_documentation=False
    )


def _values(response: Any) -> dict[str, str]:
    """Return the settings in a response; none where there is no response."""
    if isinstance(response, ToolkitError):
        return {}
    return {
        config.name: config.value
        for result in response.results
        if result.error_code == ErrorCode.NONE
        for config in result.configs
        if config.value is not None
    }
