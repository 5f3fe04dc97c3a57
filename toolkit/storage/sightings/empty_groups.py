"""
Record since when each group has been Empty with unchanged commits, from earlier reads.

Only the offsets topic has the time since when a group is Empty. If it may not be read, offsetbook's
own reads are the evidence: `sightings/<cluster id>.json` in the state folder has, for each group,
the unbroken series of reads that found it Empty with the same commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from toolkit.model import Commit, Group, GroupState, Snapshot
from toolkit.model.sightings import Sighting
from toolkit.storage.formats.atomic_files import make_folder
from toolkit.storage.formats.file_lock import PATIENCE_S, exclusively
from toolkit.storage.sightings.streak_file import (
    Streak,
    StreakFile,
    extend_streak,
    streak_path,
)

FORMAT = "offsetbook sightings 1"


def record(state: Path, snapshot: Snapshot) -> None:
    """
    Add a reading of a whole cluster; one that is not newer than the last one changes nothing.

    A group that is gone, live or moved loses its series. One that could not be read keeps it
    unchanged: a missing read is no evidence. Raises StateFileError if it cannot be written.
    """
    file = _file(state, snapshot.cluster_id)
    make_folder(file.path.parent)
    with exclusively(file.path.with_suffix(".lock"), within_s=PATIENCE_S):
        before = file.read()
        if before.taken_at is None or before.taken_at < snapshot.taken_at:
            known = {group_id: streak for (group_id,), streak in before.streaks.items()}
            continued = _continued(known, snapshot)
            file.write(snapshot.taken_at, {(name,): one for name, one in continued.items()})


def empty_since(state: Path, cluster_id: str) -> dict[str, Sighting]:
    """Return the series of each group that was Empty when it was last seen; StateFileError."""
    streaks = _file(state, cluster_id).read().streaks
    return {group_id: streak.sighting for (group_id,), streak in streaks.items()}


def _file(state: Path, cluster_id: str) -> StreakFile:
    return StreakFile(streak_path(state, cluster_id), cluster_id, FORMAT, ("group",))


def _continued(known: Mapping[str, Streak], snapshot: Snapshot) -> dict[str, Streak]:
    commits: dict[str, list[Commit]] = defaultdict(list)
    for commit in snapshot.commits:
        commits[commit.group_id].append(commit)
    groups = {group.group_id: group for group in snapshot.groups}
    unread = _unread(known, groups, snapshot)
    unchanged = {group_id: known[group_id] for group_id in unread if group_id in known}
    seen = {
        group_id: extend_streak(
            known.get(group_id),
            commits[group_id],
            now=snapshot.taken_at,
            stirred=[group.empty_since],  # it was live in between
        )
        for group_id, group in groups.items()
        if group.state is GroupState.EMPTY and group_id not in unread
    }
    return unchanged | seen


def _unread(
    known: Iterable[str], groups: Mapping[str, Group], snapshot: Snapshot
) -> frozenset[str]:
    """Return the groups whose state is not certain in this read."""
    unread = {problem.group_id for problem in snapshot.problems if problem.group_id is not None}
    unread |= {name for name, group in groups.items() if group.state is GroupState.UNKNOWN}
    if snapshot.listing_problem:
        unread |= {name for name in known if name not in groups}  # not listed is not gone
    return frozenset(unread)
