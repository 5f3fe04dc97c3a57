"""
Read what a member of a classic group subscribes to, and what it says it owns.

Only version and topics are relied on: some clients leave out what their version should have
(kafka-go writes version 1 without owned partitions), and some add what only they can read.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from toolkit.kafka_io.membership.protocol_bytes.fields import ProtocolReader, Unreadable
from toolkit.model import TopicPartition


@dataclass(frozen=True, slots=True)
class MemberSubscription:
    """A member's subscription; `generation` is that of what it owns, -1 where it does not say."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1


def read_subscription(data: bytes) -> MemberSubscription | None:
    """
    Return a member's subscription, None where it cannot be read.

    What it owns is in the message itself since version 1. Before, and always with `sticky`, it is
    in the user data: what the member had in the last generation that it was assigned something.
    """
    reader = ProtocolReader(data)
    try:
        version = reader.int16()
        topics = frozenset(reader.strings())
    except Unreadable:
        return None
    user_data: bytes | None = None
    owned: frozenset[TopicPartition] = frozenset()
    generation = -1
    with suppress(Unreadable):
        user_data = reader.optional_bytes()
        if version >= 1 and not reader.is_done:
            owned = reader.partitions()
        if version >= 2 and not reader.is_done:
            generation = reader.int32()
    if owned or not user_data:
        return MemberSubscription(topics, owned, generation)
    return MemberSubscription(topics, *_read_sticky(user_data))


def _read_sticky(user_data: bytes) -> tuple[frozenset[TopicPartition], int]:
    """Return owned partitions and their generation; nothing where it is of another layout."""
    reader = ProtocolReader(user_data)
    try:
        owned = reader.partitions()
        # The first version of this layout had no generation.
        generation = -1 if reader.is_done else reader.int32()
    except Unreadable:
        return frozenset(), -1
    return (owned, generation) if reader.is_done else (frozenset(), -1)
