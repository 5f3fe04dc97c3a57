"""
Subscription and assignment bytes of the classic protocol, compatible with the clients.

The broker carries these bytes from member to member and looks into none of them. A leader that
sends others than the members' own client would send may break an application for good.

offsetbook can be a member, and the leader, in the protocols of `PROTOCOLS`: each is a name that all
members support, how its members revoke partitions, and the user data that its own code expects.
Other names are refused: the user data of their members is not known, and neither is what they do
with offsetbook's. Of subscriptions only version and topics are used: some clients leave out what
their version should have (kafka-go writes version 1 without owned partitions), and some add what
only they can read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from toolkit.errors import Blocked
from toolkit.kafka_io.wire.fields import (
    FieldReader,
    MalformedMessage,
    int16,
    int32,
    optional_bytes,
    partitions,
    strings,
)
from toolkit.model import TopicPartition

NO_GENERATION = -1
LAST_GENERATION = 2**31 - 1
NO_RACK = -1
NOTHING_YET = partitions(()) + int32(NO_GENERATION)


@dataclass(frozen=True, slots=True)
class ClassicProtocol:
    """One protocol: `cooperative` members continue to read while the group rebalances."""

    name: str
    cooperative: bool = False
    sticky: bool = False  # its members send their previous partitions in user data
    no_user_data: bytes | None = None  # how its clients encode that there is none

    def subscription(self, topics: Iterable[str], note: str = "") -> bytes:
        """
        Return the subscription of a holding member, which owns nothing, with a note to the leader.

        Nothing may follow the user data: sarama, as leader, refuses that. The note follows what the
        protocol's own code expects there.
        """
        user_data = NOTHING_YET if self.sticky or self.cooperative else self.no_user_data
        if note:
            user_data = (user_data or b"") + note.encode()
        # kafka-go cannot read a newer version of an eager protocol. Cooperative leaders need the
        # owned partitions, which are none: version 1 has a field for them.
        version = 1 if self.cooperative else 0
        owned = partitions(()) if self.cooperative else b""
        return int16(version) + strings(topics) + optional_bytes(user_data) + owned

    def claim(self, topics: Iterable[str], place: TopicPartition) -> bytes:
        """
        Return the subscription of a cooperative member that claims to own a partition.

        Of two members that claim it, leaders choose the one with the higher generation. Java reads
        the generation in the message since version 2, librdkafka in the user data.
        """
        owned, generation = partitions((place,)), int32(LAST_GENERATION)
        user_data = optional_bytes(owned + generation)
        return int16(3) + strings(topics) + user_data + owned + generation + int16(NO_RACK)

    def assignment(self, share: Iterable[TopicPartition], *, generation: int) -> bytes:
        """
        Return the assignment of a member, also of one that gets nothing: it is never empty bytes.

        sarama's `sticky` members send the user data back at the next join. Without any they fail
        from then on, so it is written for all: other clients ignore it.
        """
        share = frozenset(share)
        user_data = partitions(share) + int32(generation) if self.sticky else self.no_user_data
        return int16(0) + partitions(share) + optional_bytes(user_data)


def note_in_subscription(subscription: bytes) -> bytes:
    """Return the note in a subscription of offsetbook; b"" if there is none."""
    found = read_subscription(subscription)
    return found.user_data.removeprefix(NOTHING_YET) if found else b""


def assignment_with_note(note: str) -> bytes:
    """Return an empty assignment, with a note that descriptions of the group show."""
    return int16(0) + partitions(()) + optional_bytes(note.encode())


PROTOCOLS: Mapping[str, ClassicProtocol] = {
    protocol.name: protocol
    for protocol in (
        ClassicProtocol("range"),
        ClassicProtocol("roundrobin"),
        ClassicProtocol("sticky", sticky=True),
        ClassicProtocol("cooperative-sticky", cooperative=True),
        ClassicProtocol("RoundRobinAssigner", no_user_data=b""),  # KafkaJS
    )
}


def protocol_named(name: str) -> ClassicProtocol:
    """Return a protocol by its name; raises Blocked for one that offsetbook cannot lead."""
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    raise Blocked(
        f"the group uses assignor {name!r}, whose assignment format is unknown: a malformed "
        "assignment would break its members",
        hint=f"only groups with one of {', '.join(PROTOCOLS)} can be held",
    )


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member's subscription; `generation` is that of what it owns, -1 where it does not say."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1
    user_data: bytes = field(default=b"", compare=False)


def read_subscription(data: bytes) -> MemberSubscription | None:
    """
    Return a member's subscription, None where it cannot be read.

    What it owns is in the message itself since version 1. Before, and always with `sticky`, it is
    in the user data: what the member had in the last generation that it was assigned something.
    """
    reader = FieldReader(data, "subscription")
    try:
        version = reader.int16()
        topics = frozenset(reader.list_of(reader.text))
    except MalformedMessage:
        return None
    user_data = b""
    owned: frozenset[TopicPartition] = frozenset()
    generation = -1
    with suppress(MalformedMessage):
        user_data = reader.nullable_blob() or b""
        if version >= 1 and not reader.is_at_end:
            owned = frozenset(reader.partitions())
        if version >= 2 and not reader.is_at_end:
            generation = reader.int32()
    if user_data and not owned:
        owned, generation = _read_sticky(user_data)
    return MemberSubscription(topics, owned, generation, user_data)


def _read_sticky(user_data: bytes) -> tuple[frozenset[TopicPartition], int]:
    """Return owned partitions and their generation; nothing where it is of another layout."""
    reader = FieldReader(user_data, "user data")
    try:
        owned = frozenset(reader.partitions())
        # The first version of this layout had no generation.
        generation = -1 if reader.is_at_end else reader.int32()
    except MalformedMessage:
        return frozenset(), -1
    return (owned, generation) if reader.is_at_end else (frozenset(), -1)
