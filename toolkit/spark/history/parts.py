"""
The parts of a history: which there are, which of them count, and what is in them.

A part is what was published at once: the rows of one run, or those of one day's runs put together.
It is a JSON file in `published/`, written once, that names its folders; until it is there nobody
reads them. A part that puts others together names them, and they no longer count.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import NamedTuple

from toolkit.errors import StateFileError
from toolkit.spark.history.files import HistoryFiles

PUBLISHED = "published"
FORMAT = 1
STAMP = "%Y%m%dT%H%M%SZ"
TRIES = 3


class HistoryRun(NamedTuple):
    """One run of the job whose rows are in the history."""

    run_id: str
    taken_at: datetime  # aware UTC


class PartTable(NamedTuple):
    """The rows of one table in a part."""

    schema: str  # as Spark writes it in JSON
    folders: tuple[str, ...]  # one for each cluster, below the table's


@dataclass(frozen=True, slots=True)
class Part:
    """What was published at once."""

    name: str
    day: date  # in UTC
    runs: tuple[HistoryRun, ...]
    tables: Mapping[str, PartTable]
    replaces: tuple[str, ...] = ()  # names of the parts that it puts together
    generation: int = 0  # how often the day's parts have been put together

    def places(self, table: str) -> list[tuple[str, str]]:
        """Return the folders that hold a table's rows, by cluster and in full."""
        folders = self.tables[table].folders
        return [(one, place(table, one, self.day, self.name)) for one in folders]

    @property
    def begun_at(self) -> datetime:
        """When somebody began to write it."""
        return begun_at(self.name)


def new_part_name() -> str:
    """Return a name for a part that is begun now."""
    return f"{datetime.now(UTC).strftime(STAMP)}-{uuid.uuid4().hex}"


def begun_at(name: str) -> datetime:
    """Return when a part of this name was begun; raises ValueError for no part's name."""
    return datetime.strptime(name.split("-", maxsplit=1)[0], STAMP).replace(tzinfo=UTC)


def place(table: str, folder: str, day: date, name: str) -> str:
    """Return where a part's rows of a table and cluster lie: by cluster and day, as Hive does."""
    return f"{table}/{folder}/day={day.isoformat()}/part={name}"


def read_parts(files: HistoryFiles) -> list[Part]:
    """
    Return all parts, also those that no longer count; raises StateFileError for a damaged file.

    A file that is removed while they are listed belonged to a part that did not count any more, or
    to a day that was removed: the list is made again.
    """
    for _ in range(TRIES):
        names = [name for name in sorted(files.sizes(PUBLISHED)) if name.endswith(".json")]
        try:
            return [_parse(name, files.read(f"{PUBLISHED}/{name}")) for name in names]
        except StateFileError:
            if set(names) <= files.sizes(PUBLISHED).keys():
                raise
    raise StateFileError(f"the files in {files.url(PUBLISHED)} change faster than they can be read")


def that_count(parts: Sequence[Part]) -> list[Part]:
    """Return the parts that no other part has put together with others."""
    replaced = {name for part in parts for name in part.replaces}
    return [part for part in parts if part.name not in replaced]


def publish_run(files: HistoryFiles, part: Part) -> bool:
    """Publish the part of one run; returns False if another one of this run was there first."""
    (run,) = part.runs
    readable = re.sub(r"[^A-Za-z0-9]+", "-", run.run_id)[:60].strip("-")
    digest = hashlib.sha256(run.run_id.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return _publish(files, f"run-{readable}-{digest}.json", part)


def publish_day(files: HistoryFiles, part: Part) -> bool:
    """
    Publish a day's parts as one; returns False if somebody else has done so at the same time.

    Two that began with the same parts want the same name, so only one of them can come to count.
    """
    return _publish(files, f"day-{part.day.isoformat()}-{part.generation}.json", part)


def withdraw(files: HistoryFiles, parts: Iterable[Part]) -> None:
    """Remove what publishes some parts; their folders are nobody's then."""
    doomed = {part.name for part in parts}
    for file in sorted(files.sizes(PUBLISHED)):
        path = f"{PUBLISHED}/{file}"
        if file.endswith(".json") and _parse(file, files.read(path)).name in doomed:
            files.remove(path)


def _publish(files: HistoryFiles, file: str, part: Part) -> bool:
    document = {
        "format": FORMAT,
        "name": part.name,
        "day": part.day.isoformat(),
        "runs": [{"run_id": one.run_id, "taken_at": one.taken_at.isoformat()} for one in part.runs],
        "replaces": list(part.replaces),
        "generation": part.generation,
        "tables": {
            name: {"schema": table.schema, "folders": list(table.folders)}
            for name, table in part.tables.items()
        },
    }
    return files.write_once(f"{PUBLISHED}/{file}", json.dumps(document))


def _parse(file: str, text: str) -> Part:
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise StateFileError(
                f"{PUBLISHED}/{file} of the history has format {document['format']}, not {FORMAT}",
                hint="use the newer offsetbook version that wrote it",
            )
        return Part(
            document["name"],
            date.fromisoformat(document["day"]),
            tuple(
                HistoryRun(run["run_id"], datetime.fromisoformat(run["taken_at"]))
                for run in document["runs"]
            ),
            {
                name: PartTable(table["schema"], tuple(table["folders"]))
                for name, table in document["tables"].items()
            },
            tuple(document["replaces"]),
            document["generation"],
        )
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise StateFileError(f"{PUBLISHED}/{file} of the history is damaged: {exc!r}") from exc
