"""Settings that say how a group behaves: its own where it has any, else its brokers'."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from kafka.protocol.admin import DescribeConfigsRequest

from toolkit.errors import ToolkitError
from toolkit.kafka_io.broker_errors import NO_ERROR
from toolkit.kafka_io.connect import Connection

BROKER, GROUP = 4, 32  # types of resources
OF_A_BROKER = (
    *("group.consumer.heartbeat.interval.ms", "group.consumer.session.timeout.ms"),
    *("group.consumer.max.size", "group.max.size", "offsets.retention.minutes"),
)
OF_A_GROUP = ("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms")


def read_group_settings(connection: Connection, group_id: str) -> dict[str, str]:
    """Return those settings of a group and of a broker that we may see, by Kafka's names."""
    found: dict[str, str] = {}
    for broker_id in connection.broker_ids[:1]:  # brokers of a cluster have these in common
        found |= _read(connection, BROKER, str(broker_id), OF_A_BROKER, to=broker_id)
    return found | _read(connection, GROUP, group_id, OF_A_GROUP)


def _read(
    connection: Connection, kind: int, name: str, keys: Sequence[str], *, to: int | None = None
) -> dict[str, str]:
    resource = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys)
    )
    request = DescribeConfigsRequest(
        resources=[resource], include_synonyms=False, include_documentation=False
    )
    # Brokers before 4.0 know no settings of groups, and we may not be let to see any.
    with suppress(ToolkitError):
        answer = connection.send(request, to=to)
        return {
            config.name: config.value
            for result in answer.results
            if result.error_code == NO_ERROR
            for config in result.configs
            if config.value is not None
        }
    return {}
