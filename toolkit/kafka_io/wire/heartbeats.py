"""Heartbeats the client lacks: of KIP-848, share (KIP-932) and streams groups (KIP-1071)."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json="toolkit.kafka_io.wire"):
    """A KIP-848 member joins (epoch 0), stays or leaves (epoch -1)."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json="toolkit.kafka_io.wire"):
    """The member's epoch and, when it changed, its assignment."""


class ShareGroupHeartbeatRequest(ApiMessage, load_json="toolkit.kafka_io.wire"):
    """A share consumer joins (epoch 0), stays or leaves (epoch -1)."""


class ShareGroupHeartbeatResponse(ApiMessage, load_json="toolkit.kafka_io.wire"):
    """The member's epoch and, when it changed, its assignment."""


class StreamsGroupHeartbeatRequest(ApiMessage, load_json="toolkit.kafka_io.wire"):
    """A streams instance joins with its topology (epoch 0), stays or leaves (epoch -1)."""


class StreamsGroupHeartbeatResponse(ApiMessage, load_json="toolkit.kafka_io.wire"):
    """The member's epoch and, when they changed, its tasks."""
