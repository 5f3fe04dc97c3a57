"""
Resume reading `__consumer_offsets` from the last run: load, merge and save the state.

Kept is, for each cluster, how far each partition was read and the newest record of each key up to
there, in *versions*: a folder of Parquet and a file that says what must be in it, written last.
So a run that dies while it saves leaves the version before in force, and of two runs side by side
the version that has read further is. A version is read once in full and compared with what its
file says before anything is built on it: what is damaged or of another format is read anew from
the cluster, and that is told.

    state = load_state(session, root, clusters)
    read = read_offsets(session, clusters, state.points).blocks, persisted
    reads = collect_reads(read)
    blocks = merged(state, read, reads)
    save_state(session, root, blocks, reads)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody knows it

from toolkit.errors import StateFileError
from toolkit.kafka_io.offsets_topic.latest_records import LATEST, drop_tombstones, merge_latest
from toolkit.spark.history.files import SPARK_FAILED, HistoryFiles
from toolkit.spark.packed_tables import Row, on_rows, pack, unpack
from toolkit.spark.read_plan import ResumePoint
from toolkit.spark.schemas import BLOCK, READ_BLOCKS, as_spark, schema
from toolkit.spark.state_versions import (
    FOLDER,
    SavedState,
    StateVersion,
    clean_versions,
    new_name,
    read_versions,
    write_version,
)

ResumePoints = Mapping[str, Mapping[int, ResumePoint]]  # by cluster and offsets partition

KEY = [field.name for field in BLOCK]
STATE = schema(*BLOCK, pa.field("latest", pa.binary()))  # as in `schemas.READ_BLOCKS`


class PartitionReadResult(NamedTuple):
    """How one partition of one cluster's offsets topic was just read."""

    cluster: str
    number: int
    start: int
    why_full: str  # "" where the reading went on from the last one
    point: ResumePoint  # where the next one may go on


@dataclass(frozen=True)
class ReadState:
    """
    What former runs left: where to go on, and the newest record of each key up to there.

    `latest` has the columns of `STATE`, and None stands for no rows. `not_used` says of clusters,
    "" for all of them, why something that was left is not used.
    """

    points: ResumePoints
    latest: DataFrame | None
    not_used: Mapping[str, str]


def load_state(session: SparkSession, root: str, clusters: Collection[str]) -> ReadState:
    """
    Return what is known from former runs about some clusters, after it was checked.

    Raises StateFileError where the folder itself cannot be listed.
    """
    versions, unreadable = read_versions(HistoryFiles(session, root), clusters, format_of_state())
    not_used = {"": "; ".join(unreadable)} if unreadable else {}
    frames: list[DataFrame] = []
    points: dict[str, Mapping[int, ResumePoint]] = {}
    for version, saved in _chosen(versions, clusters).items():
        frame = _stored(session, HistoryFiles(session, root), version)
        wrong = _wrong(frame, saved)
        not_used |= wrong
        good = {name: kept for name, kept in saved.items() if name not in wrong}
        points |= {name: kept.points for name, kept in good.items()}
        if good:
            frames.append(frame.where(F.col("cluster").isin(list(good))))
    return ReadState(points, reduce(DataFrame.union, frames) if frames else None, not_used)


def collect_reads(read: DataFrame) -> list[PartitionReadResult]:
    """
    Collect how far each partition was read: `schemas.READ_TO` of `schemas.READ_BLOCKS`.

    The frame must be persisted, as the rows of it that are merged and saved are.
    """
    read_to = read.where("read_to is not null").select(*KEY, "partitions", "read_to.*")
    return [
        PartitionReadResult(
            row["cluster"],
            row["offsets_partition"],
            row["start"],
            row["why_full"],
            ResumePoint(
                next_offset=row["next_offset"],
                log_start=row["log_start"],
                read_at=row["read_at"],
                topic_id=row["topic_id"] or "",
                partitions=row["partitions"],
                # Unknown counts as none: the next reading will not go on.
                delete_retention_ms=row["delete_retention_ms"] or 0,
                leader_epoch=row["leader_epoch"],
            ),
        )
        for row in read_to.toArrow().to_pylist()
    ]


def merged(state: ReadState, blocks: DataFrame, reads: Sequence[PartitionReadResult]) -> DataFrame:
    """
    Return the blocks with the newest record of each key up to now: kept, or read since.

    `blocks` are what was read: `schemas.READ_BLOCKS`, as is the result. Of a partition that was
    read in full, or not at all, nothing that was kept is used. Raises StateFileError where a
    reading went on from another place than where the kept one ended.
    """
    resumed = [read for read in reads if not read.why_full]
    for read in resumed:
        point = state.points.get(read.cluster, {}).get(read.number)
        if point is None or point.next_offset != read.start:
            raise StateFileError(
                f"partition {read.number} of the offsets topic of cluster {read.cluster} was read "
                f"from {read.start}, which is not where the state ends"
            )
    if state.latest is None or not resumed:
        return blocks
    went_on = blocks.sparkSession.createDataFrame(
        [(read.cluster, read.number) for read in resumed], "cluster string, offsets_partition int"
    )
    kept = state.latest.join(F.broadcast(went_on), KEY, "left_semi")
    both = blocks.join(kept.withColumnRenamed("latest", "kept"), KEY, "left")

    return on_rows(both, lambda rows: map(_merged, rows), READ_BLOCKS)


def save_state(
    session: SparkSession, root: str, blocks: DataFrame, reads: Sequence[PartitionReadResult]
) -> None:
    """
    Keep what was read and merged for the next run, and remove what no run needs any more.

    Tombstones that are older than `delete.retention.ms` are left out: nothing that they deleted
    comes back, because what is read later is newer. Raises StateFileError where it cannot be kept.
    """
    files, name = HistoryFiles(session, root), new_name()
    clusters = {read.cluster for read in reads}
    if not clusters:
        return
    before = {(read.cluster, read.number): _forget_before(read.point) for read in reads}

    def without_old_tombstones(row: Row) -> Row:
        at = before.get((row["cluster"], row["offsets_partition"]))
        if at is None:
            return row
        return {**row, "latest": pack(drop_tombstones(unpack(row["latest"], LATEST), before=at))}

    known = blocks.where("latest is not null").where(F.col("cluster").isin(list(clusters)))
    wanted = on_rows(
        known.select(*STATE.names), lambda rows: map(without_old_tombstones, rows), STATE
    )
    wanted.write.parquet(files.url(f"{FOLDER}/{name}"))
    sums = _sums(_stored(session, files, name))
    saved = {
        cluster: SavedState(
            *sums.get(cluster, (0, "0")),
            {read.number: read.point for read in reads if read.cluster == cluster},
        )
        for cluster in clusters
    }
    write_version(files, StateVersion(name, format_of_state(), saved))
    clean_versions(files, format_of_state())


def format_of_state() -> str:
    """Return what the format is known by: it changes with what is packed into `STATE`."""
    return "2 " + " ".join(f"{field.name}:{field.type}" for field in LATEST)


def _chosen(
    versions: Sequence[StateVersion], clusters: Collection[str]
) -> dict[str, dict[str, SavedState]]:
    """Return what to use of which version: of each cluster the one that has read furthest."""
    chosen: dict[str, dict[str, SavedState]] = {}
    for cluster in clusters:
        having = [version for version in versions if cluster in version.clusters]
        if having:
            best = max(having, key=lambda version: version.clusters[cluster].read_at)
            chosen.setdefault(best.name, {})[cluster] = best.clusters[cluster]
    return chosen


def _stored(session: SparkSession, files: HistoryFiles, version: str) -> DataFrame:
    return session.read.schema(as_spark(STATE)).parquet(files.url(f"{FOLDER}/{version}"))


def _wrong(frame: DataFrame, saved: Mapping[str, SavedState]) -> dict[str, str]:
    """Say which clusters' rows are not those that were saved, and why that is known."""
    try:
        sums = _sums(frame.where(F.col("cluster").isin(list(saved))))
    except SPARK_FAILED as exc:
        if len(saved) == 1:
            why = "the stored state of earlier reads cannot be read"
            return dict.fromkeys(saved, f"{why}: {str(exc).splitlines()[0]}")
        parts = (_wrong(frame, {name: kept}) for name, kept in saved.items())
        return {name: why for part in parts for name, why in part.items()}
    return {
        name: "the stored state of earlier reads is damaged"
        for name, kept in saved.items()
        if sums.get(name, (0, "0")) != (kept.rows, kept.checksum)
    }


def _sums(frame: DataFrame) -> dict[str, tuple[int, str]]:
    """Return of each cluster how many rows there are and a sum over all that is in them."""
    of_row = F.xxhash64(*frame.columns).cast("decimal(38,0)")
    sums = frame.groupBy("cluster").agg(F.count("*"), F.sum(of_row).cast("string"))
    return {cluster: (rows, checksum) for cluster, rows, checksum in sums.collect()}


def _merged(block: Row) -> Row:
    """Add to a block what was kept of its partition."""
    if block["kept"] is None:
        return block
    both = (unpack(block[name], LATEST) for name in ("kept", "latest"))
    return {**block, "latest": pack(merge_latest(*both))}


def _forget_before(point: ResumePoint) -> datetime | None:
    """Return until when tombstones are no longer needed, None where that is not known."""
    if not point.delete_retention_ms:
        return None
    return point.read_at - timedelta(milliseconds=point.delete_retention_ms)
