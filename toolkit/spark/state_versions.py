"""
The versions of what is kept between readings: which there are, what must be in them, cleaning.

A version is a folder `state/<name>/` of Parquet and a file `state/<name>.json`, written last and
never changed. The file says for each cluster how many rows there must be, their checksum, and how
far each partition was read. Names begin with the time at which they were made.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from toolkit.errors import StateFileError
from toolkit.spark.history.files import HistoryFiles
from toolkit.spark.read_plan import ResumePoint

FOLDER = "state"
STAMP = "%Y%m%dT%H%M%SZ"
KEPT = 2  # of each cluster: one to go on from, and one that a run which began earlier may read
# A folder without a file may be of a run that still saves; a file of another format, of another
# version of this program that is at work in the same folder.
UNUSABLE_FOR = timedelta(days=1)
MISUNDERSTOOD = (StateFileError, ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class SavedState:
    """What a version holds of one cluster."""

    rows: int
    checksum: str
    points: Mapping[int, ResumePoint]

    @property
    def read_at(self) -> datetime:
        """When the cluster was read."""
        return max(point.read_at for point in self.points.values())


@dataclass(frozen=True, slots=True)
class StateVersion:
    """One version, by the name of its folder."""

    name: str
    format: str
    clusters: Mapping[str, SavedState]


def new_name() -> str:
    """Return a name that no version has."""
    return f"{datetime.now(UTC).strftime(STAMP)}-{uuid.uuid4().hex}"


def read_versions(
    files: HistoryFiles, clusters: Collection[str], known_format: str
) -> tuple[list[StateVersion], list[str]]:
    """Return the versions of any of the clusters, and why others cannot be used."""
    versions, problems = [], []
    for file in sorted(files.sizes(FOLDER)):
        if not file.endswith(".json"):
            continue
        try:
            version = _parse(file.removesuffix(".json"), files.read(f"{FOLDER}/{file}"))
        except MISUNDERSTOOD as exc:
            problems.append(f"{file} of the state is invalid: {exc}")
            continue
        if version.format != known_format:
            problems.append(f"{file} of the state is of another format")
        elif version.clusters.keys() & set(clusters):
            versions.append(version)
    return versions, problems


def write_version(files: HistoryFiles, version: StateVersion) -> None:
    """Put a version in force; its folder must be complete."""
    document = {
        "format": version.format,
        "clusters": [
            {
                "cluster": cluster,
                "rows": saved.rows,
                "checksum": saved.checksum,
                "points": [
                    {**asdict(point), "partition": number, "read_at": point.read_at.isoformat()}
                    for number, point in saved.points.items()
                ],
            }
            for cluster, saved in version.clusters.items()
        ],
    }
    files.write_once(f"{FOLDER}/{version.name}.json", json.dumps(document))


def clean_versions(files: HistoryFiles, known_format: str) -> None:
    """Remove versions that no cluster needs, and after a day what nobody can use."""
    found = files.sizes(FOLDER)
    usable = {version.name: version for version in _understood(files, found, known_format)}
    versions = list(usable.values())
    needed: set[str] = set()
    for cluster in {name for version in versions for name in version.clusters}:
        having = [version for version in versions if cluster in version.clusters]
        having.sort(key=lambda version: version.clusters[cluster].read_at)
        needed |= {version.name for version in having[-KEPT:]}
    for name in usable.keys() - needed:
        files.remove(f"{FOLDER}/{name}.json")
        files.remove(f"{FOLDER}/{name}")
    since = (datetime.now(UTC) - UNUSABLE_FOR).strftime(STAMP)
    for entry in found:
        name = entry.split(".")[0]
        if name not in usable and name < since:
            files.remove(f"{FOLDER}/{entry}")


def _understood(
    files: HistoryFiles, entries: Iterable[str], known_format: str
) -> Iterator[StateVersion]:
    for file in entries:
        if file.endswith(".json"):
            with suppress(*MISUNDERSTOOD):
                version = _parse(file.removesuffix(".json"), files.read(f"{FOLDER}/{file}"))
                if version.format == known_format:
                    yield version


def _parse(name: str, text: str) -> StateVersion:
    document = json.loads(text)
    return StateVersion(
        name,
        str(document["format"]),
        {
            entry["cluster"]: SavedState(
                int(entry["rows"]),
                str(entry["checksum"]),
                {int(point["partition"]): _point(point) for point in entry["points"]},
            )
            for entry in document["clusters"]
            if entry["points"]
        },
    )


def _point(entry: dict[str, Any]) -> ResumePoint:
    values = {name: value for name, value in entry.items() if name != "partition"}
    point = ResumePoint(**{**values, "read_at": datetime.fromisoformat(values["read_at"])})
    numbers = (point.next_offset, point.log_start, point.partitions, point.delete_retention_ms)
    if not all(type(number) is int for number in numbers) or point.read_at.tzinfo is None:
        raise ValueError("a resume point has a value of the wrong type")
    return point
