"""
Sightings: since when a state holds that Kafka does not record, from offsetbook's earlier reads.

An unbroken series of reads that found the same state is a streak. Each kind is a file for each
cluster, in the folder `sightings` of the state folder.

Empty groups, `<cluster id>.json`: only the offsets topic has the time since when a group is Empty.
If it may not be read, there is for each group the series of reads that found it Empty with the same
commits. Unsubscribed topics, `<cluster id>.unsubscribed.json`: the last commit is earlier than the
end of a subscription, so there is for each group and topic the series of reads that found it
unsubscribed with the same commits.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import StateFileError, UsageError
from toolkit.model import Commit, Group, GroupState, Snapshot
from toolkit.model.groups import Sighting
from toolkit.storage.formats.atomic_files import file_name, make_folder, write_whole
from toolkit.storage.formats.file_lock import PATIENCE_S, exclusively
from toolkit.storage.formats.json_codec import JsonFields, read_document, readable, utc_text

FILE_FIELDS = frozenset({"format", "cluster_id", "taken_at", "groups"})

EMPTY_FORMAT = "offsetbook sightings 1"
UNSUBSCRIBED_FORMAT = "offsetbook unsubscribed 1"
CLOCKS_DIFFER_BY = timedelta(minutes=5)  # between hosts with the same state folder


@dataclass(frozen=True, slots=True)
class Streak:
    """Consecutive reads with the same result, and a digest of the commits in all of them."""

    sighting: Sighting
    commits: str


Streaks = Mapping[tuple[str, ...], Streak]  # of one cluster, by key


class ClusterStreaks(NamedTuple):
    """All streaks of one cluster, and the time of the last read."""

    taken_at: datetime | None
    streaks: Streaks


@dataclass(frozen=True, slots=True)
class StreakFile:
    """The file of one cluster: its format, and the names of the fields that identify a streak."""

    path: Path
    cluster_id: str
    format: str
    key: tuple[str, ...]

    def read(self) -> ClusterStreaks:
        """Return the streaks, none if there is no file; raises StateFileError if it is damaged."""
        if not self.path.exists():
            return ClusterStreaks(None, {})
        try:
            return self._parsed()
        except UsageError as exc:
            hint = "delete that file; observations then start again"
            raise StateFileError(exc.problem, hint=hint) from exc

    def extend(self, snapshot: Snapshot, continued: Callable[[Streaks, Snapshot], Streaks]) -> None:
        """
        Add one more read, unless the last one is as new.

        Raises StateFileError if the file is damaged, or from the future: it would hide every read
        until then.
        """
        make_folder(self.path.parent)
        with exclusively(self.path.with_suffix(".lock"), within_s=PATIENCE_S):
            taken_at, known = self.read()
            if taken_at and taken_at - datetime.now(UTC) > CLOCKS_DIFFER_BY:
                raise StateFileError(
                    f"sightings {self.path} were written by a host whose clock is ahead: they are "
                    f"of {taken_at:%Y-%m-%d %H:%M} UTC",
                    hint="correct that clock and delete that file; observations then start again",
                )
            if taken_at is None or taken_at < snapshot.taken_at:
                self.write(snapshot.taken_at, continued(known, snapshot))

    def write(self, taken_at: datetime, streaks: Streaks) -> None:
        """Replace the file; raises StateFileError."""
        document = {
            "format": self.format,
            "cluster_id": self.cluster_id,
            "taken_at": utc_text(taken_at),
            "groups": [
                {
                    **dict(zip(self.key, names, strict=True)),
                    "since": utc_text(one.sighting.since),
                    "last": utc_text(one.sighting.last),
                    "seen": one.sighting.seen,
                    "commits": one.commits,
                }
                for names, one in sorted(streaks.items())
            ],
        }
        write_whole(self.path, readable(document), private=True)

    def _parsed(self) -> ClusterStreaks:
        where = f"sightings {self.path}: file"
        fields = JsonFields.of(read_document(self.path, "sightings"), where, FILE_FIELDS)
        if (fields.text("format"), fields.text("cluster_id")) != (self.format, self.cluster_id):
            raise UsageError(
                f"sightings {self.path} are not of cluster {self.cluster_id}, or not "
                f"{self.format!r}"
            )
        rows = fields.many("groups", frozenset({*self.key, "since", "last", "seen", "commits"}))
        streaks = {tuple(map(one.text, self.key)): _streak(one) for one in rows}
        return ClusterStreaks(fields.time("taken_at"), streaks)


def extend_streak(
    streak: Streak | None,
    commits: Collection[Commit],
    *,
    now: datetime,
    stirred: Iterable[datetime | None] = (),
) -> Streak:
    """
    Return a streak with one more read; a new one if the commits have changed.

    It is also a new one if an offset was committed again since the old one began, or one of the
    times `stirred` is later.
    """
    digest = _digest(commits)
    times = [*(commit.committed_at for commit in commits), *stirred]
    if streak is None or streak.commits != digest:
        return Streak(Sighting(now, 1, now), digest)
    old = streak.sighting
    if any(time and time > old.since for time in times):
        return Streak(Sighting(now, 1, now), digest)
    return Streak(Sighting(old.since, old.seen + 1, now), digest)


def _digest(commits: Iterable[Commit]) -> str:
    # A partition is there once, so that sorting never comes to an epoch, which may be None.
    rows = sorted((c.topic, c.partition, c.offset, c.leader_epoch, c.metadata) for c in commits)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def _streak(fields: JsonFields) -> Streak:
    times = fields.time("since"), fields.time("last")
    return Streak(Sighting(times[0], fields.count("seen"), times[1]), fields.text("commits"))


def record_empty(state: Path, snapshot: Snapshot) -> None:
    """
    Add a reading of a whole cluster; one that is not newer than the last one changes nothing.

    A group that is gone, live or moved loses its series. One that could not be read keeps it
    unchanged: a missing read is no evidence. Raises StateFileError if it cannot be written.
    """
    _empty_file(state, snapshot.cluster_id).extend(snapshot, _still_empty)


def empty_since(state: Path, cluster_id: str) -> dict[str, Sighting]:
    """Return the series of each group that was Empty when it was last seen; StateFileError."""
    streaks = _empty_file(state, cluster_id).read().streaks
    return {group_id: streak.sighting for (group_id,), streak in streaks.items()}


def _empty_file(state: Path, cluster_id: str) -> StreakFile:
    path = state / "sightings" / f"{file_name(cluster_id)}.json"
    return StreakFile(path, cluster_id, EMPTY_FORMAT, ("group",))


def _still_empty(known: Streaks, snapshot: Snapshot) -> Streaks:
    commits: dict[str, list[Commit]] = defaultdict(list)
    for commit in snapshot.commits:
        commits[commit.group_id].append(commit)
    groups = {group.group_id: group for group in snapshot.groups}
    unread = _unread([name for (name,) in known], groups, snapshot)
    unchanged = {key: one for key, one in known.items() if key[0] in unread}
    seen: Streaks = {
        (name,): extend_streak(
            known.get((name,)),
            commits[name],
            now=snapshot.taken_at,
            stirred=[group.empty_since],  # it was live in between
        )
        for name, group in groups.items()
        if group.state is GroupState.EMPTY and name not in unread
    }
    return {**unchanged, **seen}


def _unread(
    known: Iterable[str], groups: Mapping[str, Group], snapshot: Snapshot
) -> frozenset[str]:
    """Return the groups whose state is not certain in this read."""
    unread = {problem.group_id for problem in snapshot.problems if problem.group_id is not None}
    unread |= {name for name, group in groups.items() if group.state is GroupState.UNKNOWN}
    if snapshot.listing_problem:
        unread |= {name for name in known if name not in groups}  # not listed is not gone
    return frozenset(unread)


def record_unsubscribed(
    state: Path, snapshot: Snapshot, left: Mapping[str, Collection[str]]
) -> None:
    """
    Add a reading; one that is not newer than the last one changes nothing.

    `left` has the topics that each group was found to have left behind, none where there are none.
    Groups that are not in it keep their series: a missing read is no evidence, and neither is a
    group without members. Raises StateFileError if it cannot be written.
    """
    commits: dict[tuple[str, ...], list[Commit]] = defaultdict(list)
    for commit in snapshot.commits:
        commits[commit.group_id, commit.topic].append(commit)

    def continued(known: Streaks, snapshot: Snapshot) -> Streaks:
        unchanged = {key: one for key, one in known.items() if key[0] not in left}
        keys = [(group_id, topic) for group_id, topics in left.items() for topic in topics]
        now = snapshot.taken_at
        seen: Streaks = {key: extend_streak(known.get(key), commits[key], now=now) for key in keys}
        return {**unchanged, **seen}

    _unsubscribed_file(state, snapshot.cluster_id).extend(snapshot, continued)


def unsubscribed_since(state: Path, cluster_id: str) -> dict[tuple[str, str], Sighting]:
    """Return the series of each group and topic that it left behind; raises StateFileError."""
    streaks = _unsubscribed_file(state, cluster_id).read().streaks
    return {(group_id, topic): one.sighting for (group_id, topic), one in streaks.items()}


def _unsubscribed_file(state: Path, cluster_id: str) -> StreakFile:
    path = state / "sightings" / f"{file_name(cluster_id)}.unsubscribed.json"
    return StreakFile(path, cluster_id, UNSUBSCRIBED_FORMAT, ("group", "topic"))
