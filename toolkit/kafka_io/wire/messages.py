"""Requests the client lacks: of the group types newer than classic, and newer versions."""

from __future__ import annotations

# Of two classes for a response, the client uses the last one: these come after its own.
import kafka.protocol.admin  # noqa: F401 -- see above
from kafka.protocol.api_message import ApiMessage

SCHEMAS = "toolkit.kafka_io.wire"


class ConsumerGroupDescribeRequest(ApiMessage, load_json=SCHEMAS):
    """Describe KIP-848 groups; version 1 (Kafka 4.0) adds each member's kind."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=SCHEMAS):
    """One entry a group, each with its own error code."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=SCHEMAS):
    """Describe KIP-1071 groups with their topology; version 1 (Kafka 4.4) adds the assignor."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=SCHEMAS):
    """One entry a group, each with its own error code."""


class ShareGroupDescribeRequest(ApiMessage, load_json=SCHEMAS):
    """Describe KIP-932 groups."""


class ShareGroupDescribeResponse(ApiMessage, load_json=SCHEMAS):
    """One entry a group, each with its own error code."""


class DeleteGroupsRequest(ApiMessage, load_json=SCHEMAS):
    """Delete groups; version 3 (Kafka 4.4) adds the broker's reason to each error."""


class DeleteGroupsResponse(ApiMessage, load_json=SCHEMAS):
    """One entry a group, each with its own error code."""


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=SCHEMAS):
    """A KIP-848 member joins (epoch 0), stays or leaves (epoch -1)."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=SCHEMAS):
    """The member's epoch and, when it changed, its assignment."""


class ShareGroupHeartbeatRequest(ApiMessage, load_json=SCHEMAS):
    """A share consumer joins (epoch 0), stays or leaves (epoch -1)."""


class ShareGroupHeartbeatResponse(ApiMessage, load_json=SCHEMAS):
    """The member's epoch and, when it changed, its assignment."""


class StreamsGroupHeartbeatRequest(ApiMessage, load_json=SCHEMAS):
    """A streams instance joins with its topology (epoch 0), stays or leaves (epoch -1)."""


class StreamsGroupHeartbeatResponse(ApiMessage, load_json=SCHEMAS):
    """The member's epoch and, when they changed, its tasks."""
