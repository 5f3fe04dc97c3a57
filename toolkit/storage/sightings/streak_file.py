"""
Store streaks: consecutive reads that found the same state.

Brokers do not record since when a state holds; an unbroken series of offsetbook's reads does.
The streaks of a cluster are one file, in the folder `sightings` of the state folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from toolkit.errors import StateFileError, UsageError
from toolkit.model import Commit
from toolkit.model.sightings import Sighting
from toolkit.storage.formats.atomic_files import file_name, write_whole
from toolkit.storage.formats.json_codec import JsonFields, read_document, readable, utc_text

FILE_FIELDS = frozenset({"format", "cluster_id", "taken_at", "groups"})


@dataclass(frozen=True, slots=True)
class Streak:
    """Consecutive reads with the same result, and a digest of the commits in all of them."""

    sighting: Sighting
    commits: str


@dataclass(frozen=True, slots=True)
class ClusterStreaks:
    """All streaks of one cluster, by key, and the time of the last read."""

    taken_at: datetime | None
    streaks: Mapping[tuple[str, ...], Streak]


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

    def write(self, taken_at: datetime, streaks: Mapping[tuple[str, ...], Streak]) -> None:
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


def streak_path(state: Path, cluster_id: str, ending: str = "") -> Path:
    """Return the file of a cluster's streaks."""
    return state / "sightings" / f"{file_name(cluster_id)}{ending}.json"


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
