"""
The records in `__consumer_offsets` that groups have of their own, one at a time.

Only what is used is decoded; the fields before it have to fit. Raises MalformedMessage for bytes
that Kafka's own classes would not read. Layouts: the schemas of Kafka's group coordinator (4.3)
that the functions name.
"""

from __future__ import annotations

from typing import NamedTuple

from toolkit.kafka_io.wire.fields import FieldReader, MalformedMessage

NEWEST_CLASSIC, FLEXIBLE_CLASSIC = 4, 4
STABLE_MEMBER = 0  # the state in a current assignment, of KIP-848 and streams members alike


class GroupKey(NamedTuple):
    """Whose record it is; `member` is the member's id or the pattern, where the type has one."""

    group_id: str
    member: str | None


class ClassicGroup(NamedTuple):
    """
    GroupMetadataValue; the times of versions 0 and 1 are not known (-1).

    `subscriptions` has one entry for each member.
    """

    protocol_type: str
    generation: int
    changed_ms: int  # currentStateTimestamp
    subscriptions: tuple[bytes, ...]

    @property
    def empty_since_ms(self) -> int:
        """When the last member left; -1 if there is one, or never was one, or it is not known."""
        return self.changed_ms if self.protocol_type and not self.subscriptions else -1


class ConsumerMemberRecord(NamedTuple):
    """ConsumerGroupMemberMetadataValue: what a KIP-848 member subscribes to."""

    topics: tuple[str, ...]
    pattern: str | None


class CurrentAssignment(NamedTuple):
    """ConsumerGroupCurrentMemberAssignmentValue, and the streams one, as far as they are alike."""

    epoch: int
    state: int

    def is_reconciled_to(self, epoch: int) -> bool:
        """Whether the member has taken over the assignment of an epoch."""
        return self.epoch == epoch and self.state == STABLE_MEMBER


class StreamsGroup(NamedTuple):
    """StreamsGroupMetadataValue."""

    epoch: int
    validated_topology_epoch: int  # -1: none yet


class Topology(NamedTuple):
    """StreamsGroupTopologyValue: what the application reads."""

    epoch: int
    topics: frozenset[str]  # source topics and repartition topics that are read
    patterns: tuple[str, ...]


def decode_group_key(key: bytes) -> GroupKey:
    """Decode the key of a group's own record, of any type."""
    fields = FieldReader(key, "group key")
    kind = fields.int16()
    member_types = (5, 7, 8, 10, 13, 14, 16, 19, 21, 22)
    found = GroupKey(fields.text(), fields.text() if kind in member_types else None)
    fields.end()
    return found


def decode_classic_group(value: bytes) -> ClassicGroup:
    """Decode a GroupMetadataValue of version 0 to 4."""
    fields = FieldReader(value, "classic group value")
    version = fields.version(NEWEST_CLASSIC, flexible_from=FLEXIBLE_CLASSIC)

    def subscription_of_member() -> bytes:
        fields.text()  # member id
        if version >= 3:
            fields.nullable_text()  # the instance id
        fields.text()  # client id
        fields.text()  # client host
        if version >= 1:
            fields.int32()  # rebalance timeout
        fields.int32()  # session timeout
        subscription = fields.blob()
        fields.blob()  # the assignment
        fields.tags()
        return subscription

    protocol_type, generation = fields.text(), fields.int32()
    fields.nullable_text()  # the protocol
    fields.nullable_text()  # the leader
    changed_ms = fields.int64() if version >= 2 else -1
    subscriptions = tuple(fields.list_of(subscription_of_member))
    fields.tags()
    fields.end()
    return ClassicGroup(protocol_type, generation, changed_ms, subscriptions)


def generation_of(value: bytes) -> int | None:
    """Return the generation in a GroupMetadataValue, of which no more is read; None: unreadable."""
    fields = FieldReader(value, "classic group value")
    try:
        fields.version(NEWEST_CLASSIC, flexible_from=FLEXIBLE_CLASSIC)
        fields.text()  # the protocol type
        return fields.int32()
    except MalformedMessage:
        return None


def decode_epoch(value: bytes) -> int:
    """Decode the epoch that ConsumerGroupMetadataValue and the target assignments begin with."""
    fields = _flexible(value, "group epoch")
    epoch = fields.int32()
    fields.tags()
    fields.end()
    return epoch


def decode_share_group(value: bytes) -> int:
    """Decode the epoch of a ShareGroupMetadataValue."""
    return decode_streams_group(value).epoch  # the same layout, without the tags


def decode_share_member(value: bytes) -> tuple[str, ...]:
    """Decode the subscribed topics in a ShareGroupMemberMetadataValue."""
    fields = _flexible(value, "share member")
    fields.nullable_text()  # rack
    fields.text()  # client id
    fields.text()  # client host
    topics = fields.list_of(fields.text)
    fields.tags()
    fields.end()
    return tuple(topics)


def decode_streams_group(value: bytes) -> StreamsGroup:
    """Decode a StreamsGroupMetadataValue."""
    fields = _flexible(value, "group epoch")
    epoch = fields.int32()
    fields.int64()  # the metadata hash
    validated = fields.tags({0: 4}).get(0, b"\xff\xff\xff\xff")
    fields.end()
    return StreamsGroup(epoch, int.from_bytes(validated, "big", signed=True))


def decode_consumer_member(value: bytes) -> ConsumerMemberRecord:
    """Decode a ConsumerGroupMemberMetadataValue."""
    fields = _flexible(value, "member")
    fields.nullable_text()  # instance id
    fields.nullable_text()  # rack
    fields.text()  # client id
    fields.text()  # client host
    topics, pattern = fields.list_of(fields.text), fields.nullable_text()
    fields.int32()  # rebalance timeout
    fields.nullable_text()  # server assignor
    fields.tags()
    fields.end()
    return ConsumerMemberRecord(tuple(topics), pattern)


def decode_current_assignment(value: bytes) -> CurrentAssignment:
    """Decode epoch and state of a member; the assignment after them is not decoded."""
    fields = _flexible(value, "current assignment")
    epoch = fields.int32()
    fields.int32()  # the epoch before it
    return CurrentAssignment(epoch, fields.int8())


def decode_resolved_pattern(value: bytes) -> tuple[str, ...]:
    """Decode the topics in a ConsumerGroupRegularExpressionValue."""
    fields = _flexible(value, "resolved pattern")
    topics = fields.list_of(fields.text)
    fields.int64()  # the metadata version
    fields.int64()  # when it was resolved
    fields.tags()
    fields.end()
    return tuple(topics)


def decode_topology(value: bytes) -> Topology:
    """Decode a StreamsGroupTopologyValue."""
    fields = _flexible(value, "topology")
    topics: set[str] = set()
    patterns: list[str] = []

    def pair() -> None:
        fields.text()
        fields.text()
        fields.tags()

    def internal_topic() -> str:
        name = fields.text()
        fields.int32()  # partitions
        fields.int16()  # replication factor
        fields.list_of(pair)  # settings
        fields.tags()
        return name

    def copartition_group() -> None:
        for _ in range(3):
            fields.list_of(fields.int16)
        fields.tags()

    def subtopology() -> None:
        fields.text()  # its id
        topics.update(fields.list_of(fields.text))
        patterns.extend(fields.list_of(fields.text))
        fields.list_of(internal_topic)  # changelogs of state
        fields.list_of(fields.text)  # repartition sinks
        topics.update(fields.list_of(internal_topic))
        fields.list_of(copartition_group)
        fields.tags()

    epoch = fields.int32()
    fields.list_of(subtopology)
    fields.tags()
    fields.end()
    return Topology(epoch, frozenset(topics), tuple(patterns))


def _flexible(value: bytes, what: str) -> FieldReader:
    """Begin to read a value of which only version 0 is known, which is flexible."""
    fields = FieldReader(value, what)
    fields.version(0, flexible_from=0)
    return fields
