"""Partitions and those who hold them, in words."""

from __future__ import annotations

from toolkit.model import Member, TopicPartition
from toolkit.planning.selection.member_names import name_members
from toolkit.planning.selection.partition_selection import scopes_of


def in_short(partitions: tuple[TopicPartition, ...] | list[TopicPartition]) -> str:
    """Format partitions: orders:0-2,5 bills:1."""
    return " ".join(map(str, scopes_of(partitions)))


def holder_in_words(member: Member) -> str:
    """Return the holder from the hold's note, or else its client id and host."""
    told = member.hold_note
    if told is None or not told.who:
        return name_members([member])
    since = f" since {told.since:%Y-%m-%d %H:%M:%S} UTC" if told.since else ""
    return f"{told.who} @ {told.host}{since}"


def hold_in_words(member: Member) -> str:
    """Return who holds partitions since when, and until when, if that was said."""
    until = member.hold_note.until if member.hold_note else None
    ends = f", until {until:%Y-%m-%d %H:%M:%S} UTC" if until else ""
    return holder_in_words(member) + ends
