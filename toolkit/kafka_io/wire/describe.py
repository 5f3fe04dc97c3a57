"""The describe calls of the group types that are newer than the classic one."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage

SCHEMAS = "toolkit.kafka_io.wire"


class ConsumerGroupDescribeRequest(ApiMessage, load_json=SCHEMAS):
    """Describe KIP-848 groups; version 1 (Kafka 4.0) adds each member's kind."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=SCHEMAS):
    """One entry a group, each with its own error code."""


class StreamsGroupDescribeRequest(ApiMessage, load_json=SCHEMAS):
    """Describe KIP-1071 groups, with the topology whose source topics they read."""


class StreamsGroupDescribeResponse(ApiMessage, load_json=SCHEMAS):
    """One entry a group, each with its own error code."""


class ShareGroupDescribeRequest(ApiMessage, load_json=SCHEMAS):
    """Describe KIP-932 groups."""


class ShareGroupDescribeResponse(ApiMessage, load_json=SCHEMAS):
    """One entry a group, each with its own error code."""
