"""Partitions and their holders as text."""

from __future__ import annotations

from toolkit.model import Group, Member, TopicPartition
from toolkit.planning.selection.member_names import name_members
from toolkit.planning.selection.partition_selection import scopes_of


def in_short(partitions: tuple[TopicPartition, ...] | list[TopicPartition]) -> str:
    """Format partitions: orders:0-2,5 bills:1."""
    return " ".join(map(str, scopes_of(partitions)))


def owner_names(group: Group) -> dict[TopicPartition, str]:
    """Return the owner of each partition: "client-id @ host", or "paused by USER @ HOST"."""
    names = {place: one.display_name for one in group.members for place in one.assignment}
    paused = {place: f"paused by {_holder(one)}" for place, one in group.paused.items()}
    return names | paused


def holder_in_words(member: Member) -> str:
    """Return the holder from the hold's note, or else its client id and host."""
    note = member.hold_note
    if not note or not note.who or not note.since:
        return _holder(member)
    return f"{_holder(member)} since {note.since:%Y-%m-%d %H:%M:%S} UTC"


def _holder(member: Member) -> str:
    note = member.hold_note
    return f"{note.who} @ {note.host}" if note and note.who else name_members([member])


def hold_in_words(member: Member) -> str:
    """Return the holder of partitions, since when, and until when, if that is known."""
    until = member.hold_note.until if member.hold_note else None
    ends = f", until {until:%Y-%m-%d %H:%M:%S} UTC" if until else ""
    return holder_in_words(member) + ends
