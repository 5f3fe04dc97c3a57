"""Format group members (client id and host) for messages."""

from __future__ import annotations

from collections.abc import Iterable

from toolkit.model import Group, Member

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
