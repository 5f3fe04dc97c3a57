"""
Since when nobody has used a group, which is never guessed.

The group's own record in the offsets topic says since when it has no members; without it, our own
sightings do. A commit that is younger than that means that somebody used the group without joining
it, so the age counts from there.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from toolkit.model import Commit, Group, GroupType
from toolkit.model.sightings import Sighting


class Unused(NamedTuple):
    """Since when nobody has used a group, and how that is known."""

    since: datetime
    source: str


def unused_since(
    group: Group, commits: Iterable[Commit], sighting: Sighting | None
) -> Unused | None:
    """
    Return since when nobody has used a group; None where that is not known.

    A simple group has no members at any time, so that only its commits tell of its use.
    """
    times = [commit.committed_at for commit in commits]
    known = [time for time in times if time]
    newest = max(known) if known and len(known) == len(times) else None
    found = None
    if group.empty_since:
        found = Unused(group.empty_since, "group metadata record")
    elif times and group.type is GroupType.SIMPLE:
        return Unused(newest, "latest commit") if newest else None
    elif sighting:
        found = Unused(sighting.since, "first of consecutive observations")
    if found and newest and newest > found.since:
        return Unused(newest, "latest commit")
    return found
