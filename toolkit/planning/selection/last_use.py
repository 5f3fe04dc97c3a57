"""
Determine since when a group is unused; unknown rather than estimated.

The group's own record in `__consumer_offsets` has the time when it became Empty; without it,
earlier observations are used. A later commit means that the group was used without joining it, so
the age counts from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, TypeVar

from toolkit.model import Commit, Group, GroupType, Snapshot
from toolkit.model.groups import Sighting


class LastUse(NamedTuple):
    """Since when a group is unused, and the source."""

    since: datetime
    source: str


Key = TypeVar("Key", str, tuple[str, str])


def seen_in(sightings: Mapping[Key, Sighting] | None, snapshot: Snapshot) -> dict[Key, Sighting]:
    """
    Return the sightings that go up to a snapshot.

    One that ends earlier says nothing of what happened since; one that ends later is by a host
    whose clock is ahead, and hides what was read in between.
    """
    return {key: one for key, one in (sightings or {}).items() if one.last == snapshot.taken_at}


def last_use_of(
    group: Group, commits: Iterable[Commit], sighting: Sighting | None
) -> LastUse | None:
    """
    Return since when a group is unused; None if unknown.

    A simple group never has members, so only its commits count as use.
    """
    times = [commit.committed_at for commit in commits]
    known = [time for time in times if time]
    newest = max(known, default=None)
    # Where the offsets topic was read, a commit without a time was made meanwhile.
    if len(known) < len(times) and (known or group.empty_since):
        return None
    found = None
    if group.empty_since:
        found = LastUse(group.empty_since, "group metadata record")
    elif times and group.type is GroupType.SIMPLE:
        return LastUse(newest, "latest commit") if newest else None
    elif sighting:
        found = LastUse(sighting.since, "first of consecutive observations")
    if found and newest and newest > found.since:
        return LastUse(newest, "latest commit")
    return found
