"""
Resume reading `__consumer_offsets` from the last run, partition by partition, or start over.

What was read before and what is read now make the whole only if nothing was lost in between. In a
compacted log a record may vanish once there is a newer one of its key; and a tombstone, which is
the newest of its key, vanishes too, `delete.retention.ms` after the cleaner first came by. A run
that comes later finds neither the value nor its deletion, and would keep the deleted value for
ever. So a read continues where the last one ended only if every tombstone since must still be
there, and reads everything otherwise, with the reason as text.

The table `state` of the history has how far each partition was read, and the newest record of each
key up to there. It belongs to a run as the run's results do: it counts once the run is complete,
and of several runs the one that has read furthest. A reading task reads the rows of its own
partitions. Instead of a damaged row, or one of another format, the partition is read in full, and a
problem says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa

from toolkit.errors import StateFileError
from toolkit.kafka_io.offsets_topic.latest_records import LATEST, drop_tombstones
from toolkit.model import LogOffsets
from toolkit.model.times import format_duration
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
from toolkit.spark.schemas import STATE

# Of the retention of tombstones: for a read that takes long, and for clocks that
# differ between the machines of two runs.
MARGIN_SHARE = 0.25
MARGIN_MOST = timedelta(hours=1)
LONGEST_MS = 2**40  # some 35 years: the setting may be larger than any duration

# What the format of packed records is known by.
FORMAT = "3 " + " ".join(f"{field.name}:{field.type}" for field in LATEST)
SMALL = [*(name for name in STATE.names if name != "latest"), "attempt"]


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """How far a partition of the offsets topic has been read, and what it was like then."""

    next_offset: int  # all records before it are read; never beyond the last stable offset
    log_start: int
    read_at: datetime  # aware UTC, from before the log end was read
    topic_id: str  # "" if the broker reports none
    partitions: int  # how many the offsets topic had
    delete_retention_ms: int  # of the topic, then
    leader_epoch: int | None = None  # how often the partition's leader had changed, where known


@dataclass(frozen=True, slots=True)
class OffsetsTopicNow:
    """What all partitions of one cluster's offsets topic have in common now."""

    requested_at: datetime  # aware UTC, from before the request
    topic_id: str
    partitions: int
    delete_retention_ms: int | None  # the topic's delete.retention.ms; None: could not be read


class ReadPlan(NamedTuple):
    """Where to begin reading a partition; `why_full` is "" where the last read is continued."""

    start: int
    why_full: str


def plan_read(
    point: ResumePoint | None, log: LogOffsets, leader_epoch: int | None, topic: OffsetsTopicNow
) -> ReadPlan:
    """
    Say where the reading of a partition of the offsets topic begins.

    That is its beginning unless the topic and the log are as they were, and no tombstone is lost.
    """
    if point is None:
        return ReadPlan(log.log_start or 0, "it has not been read before")
    why = (
        _why_topic_is_other(point, topic)
        or _why_log_is_other(point, log, leader_epoch)
        or why_too_late(point, topic.delete_retention_ms, topic.requested_at)
    )
    return ReadPlan((log.log_start or 0) if why else point.next_offset, why)


def _why_topic_is_other(point: ResumePoint, topic: OffsetsTopicNow) -> str:
    if not point.topic_id or not topic.topic_id:
        return "the topic id of __consumer_offsets is unknown"
    if point.topic_id != topic.topic_id:
        return "__consumer_offsets was re-created"
    if point.partitions != topic.partitions:
        return (
            f"the offsets topic had {point.partitions} partitions and has {topic.partitions}: "
            "groups have moved"
        )
    return ""


def _why_log_is_other(point: ResumePoint, log: LogOffsets, leader_epoch: int | None) -> str:
    """Return why a log is not the earlier one: it may only have grown at its end."""
    start, end = log.log_start or 0, log.last_stable or 0
    if point.log_start != start:
        return f"its log began at {point.log_start} and begins at {start}"
    if point.next_offset < start:
        return f"its log begins at {start}, after {point.next_offset}"
    if point.next_offset > end:
        return f"its log ends at {end}, before {point.next_offset}"
    # A new leader may lack records that the old one had, and have others at the same offsets.
    return "its leader has changed" if point.leader_epoch != leader_epoch else ""


def why_too_late(point: ResumePoint, delete_retention_ms: int | None, now: datetime) -> str:
    """Say why a tombstone that was written since may be gone again; "" where it must be there."""
    if delete_retention_ms is None:
        return "delete.retention.ms could not be read"
    if now < point.read_at:
        return f"it was read at {point.read_at:%Y-%m-%d %H:%M:%S} UTC, which is in the future"
    # The cleaner sets a tombstone's last hour by what is set when it comes by.
    retention_ms = min(point.delete_retention_ms, delete_retention_ms)
    gap, longest = now - point.read_at, longest_gap(retention_ms)
    if gap < longest:
        return ""
    return (
        f"it was read {format_duration(gap)} ago, and tombstones are only guaranteed for "
        f"{format_duration(longest)} (delete.retention.ms={retention_ms}, less a margin)"
    )


def longest_gap(delete_retention_ms: int) -> timedelta:
    """Return how long after a reading every tombstone is sure to be found still, with a margin."""
    retention = timedelta(milliseconds=min(delete_retention_ms, LONGEST_MS))
    return retention - min(MARGIN_MOST, retention * MARGIN_SHARE)


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
    with naming(f"opening {history.root}/{STATE_TABLE}"):
        files, paths = files_of(history.root, STATE_TABLE), paths_in(delta, of_clusters(clusters))
    problems: dict[str, str] = {}
    over: list[str] = []
    found: dict[str, dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for path in paths:
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
    Yield the state to keep of a cluster's blocks, `schemas.READ_BLOCKS`: rows of `schemas.STATE`.

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
