"""
The protocols in which we can act as a member, and as the leader, of a classic group.

Each is a name that all members support, how its members let go of partitions, and the user data
that its own code expects. Other names are refused: what their members put into user data, and
what they make of ours, is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from toolkit.errors import Blocked
from toolkit.kafka_io.membership.protocol_bytes.fields import (
    ProtocolReader,
    Unreadable,
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
    """One protocol: `cooperative` members go on reading while the group comes together."""

    name: str
    cooperative: bool = False
    sticky: bool = False  # its members say in user data what they had
    no_user_data: bytes | None = None  # how its clients write that there is none

    def subscription(self, topics: Iterable[str], note: str = "") -> bytes:
        """
        Return the subscription of a member of ours, which owns nothing, with a note to our leader.

        Nothing may stand behind the user data: sarama refuses that, should it lead. The note stands
        behind what the protocol's own code expects there.
        """
        user_data = NOTHING_YET if self.sticky or self.cooperative else self.no_user_data
        if note:
            user_data = (user_data or b"") + note.encode()
        # kafka-go cannot read a newer version of an eager protocol. Cooperative leaders need to be
        # told that nothing is owned, for which version 1 has a field.
        version = 1 if self.cooperative else 0
        owned = partitions(()) if self.cooperative else b""
        return int16(version) + strings(topics) + optional_bytes(user_data) + owned

    def claim(self, topics: Iterable[str], place: TopicPartition) -> bytes:
        """
        Return the subscription of a cooperative member that says it owns a partition.

        Of two members that say so, leaders believe the one with the higher generation. Java reads
        that in the message since version 2, librdkafka in the user data.
        """
        owned, generation = partitions((place,)), int32(LAST_GENERATION)
        user_data = optional_bytes(owned + generation)
        return int16(3) + strings(topics) + user_data + owned + generation + int16(NO_RACK)

    def assignment(self, share: Iterable[TopicPartition], *, generation: int) -> bytes:
        """
        Return what the leader sends a member, also one that gets nothing: never no bytes at all.

        sarama's `sticky` members give the user data back when they join next. Without any they
        fail from then on, so it is written for all: others do not look at it.
        """
        share = frozenset(share)
        user_data = partitions(share) + int32(generation) if self.sticky else self.no_user_data
        return int16(0) + partitions(share) + optional_bytes(user_data)


def note_in_subscription(subscription: bytes) -> bytes:
    """Return the note in a subscription of ours; b"" where there is none."""
    reader = ProtocolReader(subscription)
    try:
        reader.int16()
        reader.strings()
        return (reader.optional_bytes() or b"").removeprefix(NOTHING_YET)
    except Unreadable:
        return b""


def assignment_with_note(note: str) -> bytes:
    """Return an assignment of nothing, with a note that everybody can read who may describe."""
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
    """Return a protocol by its name; raises Blocked for one that we cannot lead."""
    if name in PROTOCOLS:
        return PROTOCOLS[name]
    raise Blocked(
        f"the group uses assignor {name!r}, whose assignment format is unknown: a malformed "
        "assignment would break its members",
        hint=f"only groups with one of {', '.join(PROTOCOLS)} can be held",
    )
