"""
Record since when each unsubscribed offset has been seen, from earlier reads.

Kafka does not record since when a group has not subscribed to a topic; the last commit is earlier.
`sightings/<cluster id>.unsubscribed.json` in the state folder has, for each group and topic, the
unbroken series of reads that found it unsubscribed with the same commits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path

from toolkit.model import Commit, Snapshot
from toolkit.model.sightings import Sighting
from toolkit.storage.formats.atomic_files import make_folder
from toolkit.storage.formats.file_lock import PATIENCE_S, exclusively
from toolkit.storage.sightings.streak_file import StreakFile, extend_streak, streak_path

FORMAT = "offsetbook unsubscribed 1"


def record(state: Path, snapshot: Snapshot, left: Mapping[str, Collection[str]]) -> None:
    """
    Add a reading; one that is not newer than the last one changes nothing.

    `left` has the topics that each group was found to have left behind, none where there are none.
    Groups that are not in it keep their series: a missing read is no evidence, and neither is a
    group without members. Raises StateFileError if it cannot be written.
    """
    file = _file(state, snapshot.cluster_id)
    make_folder(file.path.parent)
    commits: dict[tuple[str, ...], list[Commit]] = defaultdict(list)
    for commit in snapshot.commits:
        commits[commit.group_id, commit.topic].append(commit)
    with exclusively(file.path.with_suffix(".lock"), within_s=PATIENCE_S):
        known = file.read()
        if known.taken_at is not None and known.taken_at >= snapshot.taken_at:
            return
        unchanged = {key: one for key, one in known.streaks.items() if key[0] not in left}
        keys = ((group_id, topic) for group_id, topics in left.items() for topic in topics)
        seen = {
            key: extend_streak(known.streaks.get(key), commits[key], now=snapshot.taken_at)
            for key in keys
        }
        file.write(snapshot.taken_at, unchanged | seen)


def since(state: Path, cluster_id: str) -> dict[tuple[str, str], Sighting]:
    """Return the series of each group and topic that it left behind; raises StateFileError."""
    streaks = _file(state, cluster_id).read().streaks
    return {(group_id, topic): one.sighting for (group_id, topic), one in streaks.items()}


def _file(state: Path, cluster_id: str) -> StreakFile:
    path = streak_path(state, cluster_id, ".unsubscribed")
    return StreakFile(path, cluster_id, FORMAT, ("group", "topic"))
