"""Group members, and those that hold partitions, in words."""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.model import Group, Member, TopicPartition
from toolkit.planning.selection.partition_selection import scopes_of

SHOWN_MEMBERS = 5


def members_of(group: Group) -> str:
    """Name a group's first members, or report that they are unknown."""
    if not group.described:
        return "not known"
    return name_members(group.members) or "none yet"


def name_members(members: Iterable[Member]) -> str:
    """Name the first few members and count the others."""
    names = sorted({member.display_name for member in members})
    more = len(names) - SHOWN_MEMBERS
    shown = ", ".join(names[:SHOWN_MEMBERS])
    return f"{shown} and {more} more" if more > 0 else shown


def in_short(partitions: Iterable[TopicPartition]) -> str:
    """Format partitions: orders:0-2,5 bills:1."""
    return " ".join(map(str, scopes_of(partitions)))


def owner_names(group: Group) -> dict[TopicPartition, str]:
    """Return the owner of each partition: "client-id @ host", or "paused by USER @ HOST"."""
    names = {place: one.display_name for one in group.members for place in one.assignment}
    paused = {place: f"paused by {holder_of(one)}" for place, one in group.paused.items()}
    return names | paused


def holder_in_words(member: Member) -> str:
    """Return the holder from the hold's note, or else its client id and host."""
    note = member.hold_note
    if not note or not note.who or not note.since:
        return holder_of(member)
    return f"{holder_of(member)} since {note.since:%Y-%m-%d %H:%M:%S} UTC"


def holder_of(member: Member) -> str:
    """Return the holder of paused partitions, as `USER @ HOST`."""
    note = member.hold_note
    return f"{note.who} @ {note.host}" if note and note.who else name_members([member])


def hold_in_words(member: Member) -> str:
    """Return the holder of partitions, since when, and until when, if that is known."""
    until = member.hold_note.until if member.hold_note else None
    ends = f", until {until:%Y-%m-%d %H:%M:%S} UTC" if until else ""
    return holder_in_words(member) + ends
