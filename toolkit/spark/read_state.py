"""
Resume reading `__consumer_offsets` from the last run: the stored state of each partition.

The table `state` of the history has how far each partition was read, and the newest record of each
key up to there. It belongs to a run as the run's results do: it counts once the run is complete,
and of several runs the one that has read furthest. A reading task reads the rows of its own
partitions. Instead of a damaged row, or one of another format, the partition is read in full, and a
problem says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from toolkit.errors import StateFileError
from toolkit.kafka_io.offsets_topic.latest_records import LATEST, drop_tombstones
from toolkit.spark.arrow import Row, pack, unpack
from toolkit.spark.history import (
    READ_FOR,
    STATE_TABLE,
    History,
    files_of,
    naming,
    of_clusters,
    opened,
    paths_in,
)
from toolkit.spark.read_plan import ResumePoint
from toolkit.spark.schemas import STATE

# What the format of packed records is known by.
FORMAT = "3 " + " ".join(f"{field.name}:{field.type}" for field in LATEST)
SMALL = [*(name for name in STATE.names if name != "latest"), "attempt"]


class StoredPartition(NamedTuple):
    """How far a partition of the offsets topic was read, and the file with its newest records."""

    root: str
    path: str
    cluster: str
    number: int
    point: ResumePoint

    def latest(self, start: int) -> pa.Table:
        """
        Return the newest record of each key before an offset: LATEST.

        Raises StateFileError where the file cannot be read, or ends at another offset: parts that
        do not meet are never put together.
        """
        with (
            naming("the stored state of earlier reads cannot be read"),
            opened(files_of(self.root, STATE_TABLE), self.path) as file,
        ):
            # Each row is a row group, so that of many large ones only this one is read.
            numbers = file.read(["offsets_partition"], use_threads=False)["offsets_partition"]
            row_group = numbers.to_pylist().index(self.number)
            (row,) = file.read_row_group(row_group, use_threads=False).to_pylist()
            found = (row["cluster"], row["offsets_partition"], row["next_offset"])
            if found != (self.cluster, self.number, start):
                raise StateFileError(
                    f"the stored state of partition {self.number} of the offsets topic does not "
                    f"end at {start}"
                )
            return unpack(row["latest"], LATEST)


class ReadState(NamedTuple):
    """
    The stored state of earlier runs for some clusters: where to continue in each partition.

    `not_used` says of clusters, "" for all, why something that was left is not used. `over` are
    files that no run needs any more.
    """

    stored: Mapping[str, Mapping[int, StoredPartition]]
    not_used: Mapping[str, str]
    over: Sequence[str]


NO_STATE = ReadState({}, {}, ())


def load_state(history: History, clusters: Collection[str]) -> ReadState:
    """Return what complete runs left; raises StateFileError where the table cannot be opened."""
    attempts = {run.attempt for run in history.runs()}
    delta = history.open(STATE_TABLE)
    if delta is None:
        return NO_STATE
    files = files_of(history.root, STATE_TABLE)
    problems: dict[str, str] = {}
    over: list[str] = []
    found: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for path in paths_in(delta, of_clusters(clusters)):
        try:
            with (
                naming("the stored state of earlier reads cannot be read"),
                opened(files, path) as file,
            ):
                rows = file.read(SMALL, use_threads=False).to_pylist()
        except StateFileError as exc:
            problems[""] = str(exc)
            over.append(path)
            continue
        for row in rows:
            if row.get("format") != FORMAT:
                problems[row["cluster"]] = "the stored state of earlier reads is of another format"
            elif row["attempt"] in attempts:
                found[row["cluster"]][row["attempt"]].append({**row, "path": path})
                continue
            # Of a run that died, or of another version of offsetbook that is still at work.
            if row["read_at"] < datetime.now(UTC) - READ_FOR:
                over.append(path)
    stored = {}
    for cluster, by_attempt in found.items():
        best = max(by_attempt.values(), key=lambda rows: max(row["read_at"] for row in rows))
        over += [row["path"] for rows in by_attempt.values() if rows is not best for row in rows]
        stored[cluster] = {
            row["offsets_partition"]: _stored_partition(history.root, row) for row in best
        }
    return ReadState(
        {name: one for name, one in stored.items() if name in clusters},
        {name: why for name, why in problems.items() if name not in stored},
        sorted({*over}),
    )


def state_rows(blocks: Sequence[Row]) -> Iterator[pa.Table]:
    """
    Yield what to keep of the blocks of a cluster, `schemas.READ_BLOCKS`: rows of `schemas.STATE`.

    Tombstones that are older than `delete.retention.ms` are left out: nothing that they deleted
    comes back, because what is read later is newer.
    """
    for block in blocks:
        read_to = block["read_to"]
        if read_to is None:
            continue
        # Unknown counts as none: the next read starts from the beginning, and leaves nothing out.
        retention = timedelta(milliseconds=read_to["delete_retention_ms"] or 0)
        latest = block["latest"]
        if retention:
            before = read_to["read_at"] - retention
            latest = pack(drop_tombstones(unpack(latest, LATEST), before=before))
        row = {**block, **read_to, "format": FORMAT, "latest": latest}
        yield pa.Table.from_pylist([{name: row[name] for name in STATE.names}], schema=STATE)


def _stored_partition(root: str, row: Row) -> StoredPartition:
    point = ResumePoint(
        next_offset=row["next_offset"],
        log_start=row["log_start"],
        read_at=row["read_at"],
        topic_id=row["topic_id"] or "",
        partitions=row["partitions"],
        delete_retention_ms=row["delete_retention_ms"] or 0,
        leader_epoch=row["leader_epoch"],
    )
    return StoredPartition(root, row["path"], row["cluster"], row["offsets_partition"], point)
