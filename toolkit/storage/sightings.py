"""
What earlier readings of a cluster saw of its groups: since when each has been Empty and unmoved.

Brokers tell since when a group is Empty only in the offsets topic. Where that may not be read, our
own readings are the witness: `sightings/<cluster id>.json` in the state folder has, for each group,
the unbroken series of readings that saw it Empty with the same commits.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from toolkit.errors import RecordFailed, UsageError
from toolkit.model import Commit, Group, GroupState, Snapshot
from toolkit.storage.json_records import Fields, read_document, readable, utc_text
from toolkit.storage.whole_files import exclusively, file_name, make_folder, write_whole

FORMAT = "offsetbook sightings 1"
FILE_FIELDS = frozenset({"format", "cluster_id", "taken_at", "groups"})
GROUP_FIELDS = frozenset({"group", "since", "last", "seen", "commits"})


@dataclass(frozen=True, slots=True)
class Sighting:
    """A series of readings that all saw a group Empty with the same commits."""

    since: datetime  # the first of them
    seen: int  # how many there were
    last: datetime


@dataclass(frozen=True, slots=True)
class _Series:
    sighting: Sighting
    commits: str  # a digest of what was committed


@dataclass(frozen=True, slots=True)
class _Book:
    taken_at: datetime | None
    series: Mapping[str, _Series]


def record(state: Path, snapshot: Snapshot) -> None:
    """
    Add a reading of a whole cluster; one that is not newer than the last one changes nothing.

    A group that is gone, live or moved loses its series. One that could not be read keeps it as it
    was: not to have looked is no evidence. Raises RecordFailed where it cannot be kept.
    """
    path = _path(state, snapshot.cluster_id)
    make_folder(path.parent)
    with exclusively(path.with_suffix(".lock")):
        book = _read(path, snapshot.cluster_id)
        if book.taken_at is None or book.taken_at < snapshot.taken_at:
            write_whole(path, _text(snapshot, _continued(book.series, snapshot)))


def empty_since(state: Path, cluster_id: str) -> dict[str, Sighting]:
    """Return the series of each group that was Empty when it was last seen; RecordFailed."""
    book = _read(_path(state, cluster_id), cluster_id)
    return {group_id: series.sighting for group_id, series in book.series.items()}


def _continued(known: Mapping[str, _Series], snapshot: Snapshot) -> dict[str, _Series]:
    commits: dict[str, list[Commit]] = defaultdict(list)
    for commit in snapshot.commits:
        commits[commit.group_id].append(commit)
    groups = {group.group_id: group for group in snapshot.groups}
    unread = _unread(known, groups, snapshot)
    kept = {group_id: known[group_id] for group_id in unread if group_id in known}
    seen = {
        group_id: _with_reading(known.get(group_id), group, commits[group_id], snapshot.taken_at)
        for group_id, group in groups.items()
        if group.state is GroupState.EMPTY and group_id not in unread
    }
    return dict(sorted({**kept, **seen}.items()))


def _unread(
    known: Iterable[str], groups: Mapping[str, Group], snapshot: Snapshot
) -> frozenset[str]:
    """Return the groups of which this reading tells nothing for certain."""
    unread = {problem.group_id for problem in snapshot.problems if problem.group_id is not None}
    unread |= {name for name, group in groups.items() if group.state is GroupState.UNKNOWN}
    if any(p.group_id is None and p.what.startswith("groups") for p in snapshot.problems):
        unread |= {name for name in known if name not in groups}  # not listed is not gone
    return frozenset(unread)


def _with_reading(
    series: _Series | None, group: Group, commits: Sequence[Commit], now: datetime
) -> _Series:
    digest = _digest(commits)
    times = [commit.committed_at for commit in commits] + [group.empty_since]
    if series is None or series.commits != digest:
        return _Series(Sighting(now, 1, now), digest)
    old = series.sighting
    if any(time and time > old.since for time in times):  # it committed the same, or was live
        return _Series(Sighting(now, 1, now), digest)
    return _Series(Sighting(old.since, old.seen + 1, now), digest)


def _digest(commits: Iterable[Commit]) -> str:
    # A partition is there once, so that sorting never comes to an epoch, which may be None.
    rows = sorted((c.topic, c.partition, c.offset, c.leader_epoch, c.metadata) for c in commits)
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def _path(state: Path, cluster_id: str) -> Path:
    return state / "sightings" / f"{file_name(cluster_id)}.json"


def _text(snapshot: Snapshot, series: Mapping[str, _Series]) -> str:
    return readable(
        {
            "format": FORMAT,
            "cluster_id": snapshot.cluster_id,
            "taken_at": utc_text(snapshot.taken_at),
            "groups": [
                {
                    "group": group_id,
                    "since": utc_text(one.sighting.since),
                    "last": utc_text(one.sighting.last),
                    "seen": one.sighting.seen,
                    "commits": one.commits,
                }
                for group_id, one in series.items()
            ],
        }
    )


def _read(path: Path, cluster_id: str) -> _Book:
    if not path.exists():
        return _Book(None, {})
    try:
        return _book(path, cluster_id)
    except UsageError as exc:
        hint = "remove that file: sightings then begin anew"
        raise RecordFailed(exc.problem, hint=hint) from exc


def _book(path: Path, cluster_id: str) -> _Book:
    fields = Fields.of(read_document(path, "sightings"), f"sightings {path}: file", FILE_FIELDS)
    if (fields.text("format"), fields.text("cluster_id")) != (FORMAT, cluster_id):
        raise UsageError(f"sightings {path} are not of cluster {cluster_id}, or not {FORMAT!r}")
    groups = fields.many("groups", GROUP_FIELDS)
    return _Book(fields.time("taken_at"), {one.text("group"): _series(one) for one in groups})


def _series(fields: Fields) -> _Series:
    times = fields.time("since"), fields.time("last")
    return _Series(Sighting(times[0], fields.count("seen"), times[1]), fields.text("commits"))
