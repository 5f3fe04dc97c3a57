"""
The first stage: read the offsets topics of a fleet, a row for each partition of each topic.

The work is divided on the driver and done by Spark's workers. Small partitions of a cluster share a
task, because a task takes longer to begin than some thousand records to read. What could not be
read is a row whose `problem` says why, so a cluster that is down is seen in the result and does not
stop the others. A Python data source would divide the work in processes that Spark starts for
nothing else: three pairs of them in sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema as as_spark

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.leaders import describe_topics, topic_id
from toolkit.kafka_io.client.shared_connections import SharedConnections
from toolkit.kafka_io.groups.group_settings import read_expiry_settings
from toolkit.kafka_io.offsets_topic.latest_records import merge_latest
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC, offsets_partitions
from toolkit.kafka_io.offsets_topic.reader import OffsetsRead, read_offsets_log
from toolkit.model import Cluster, LogOffsets
from toolkit.spark.arrow import Row, pack
from toolkit.spark.read_state import (
    OffsetsTopicNow,
    ReadPlan,
    StoredPartition,
    plan_read,
    why_too_late,
)
from toolkit.spark.schemas import READ_BLOCKS, WHOLE

CLUSTERS_AT_ONCE = 8
RECORDS_A_TASK = 50_000
# Judging takes about 5 CPU seconds for a million commits, of which a log has no more than records.
RECORDS_A_JUDGING_TASK = 5_000_000

StoredPartitions = Mapping[int, StoredPartition]  # by offsets partition

# A worker reads many partitions of a cluster, one after the other.
CONNECTIONS = SharedConnections()


@dataclass(frozen=True)
class NothingToRead:
    """A cluster, or a partition of its offsets topic, without a log that can be read."""

    cluster: Cluster
    number: int = WHOLE
    partitions: int | None = None  # how many the topic has
    by_admin: str | None = None  # why its commits must come through Admin
    problem: str | None = None
    records = 0

    def rows(self) -> Iterator[Row]:
        yield {
            "offsets_partition": self.number,
            "partitions": self.partitions,
            "by_admin": self.by_admin,
            "problem": self.problem,
        }


@dataclass(frozen=True)
class LogTask:
    """Read one partition of one cluster's offsets topic."""

    cluster: Cluster
    topic: OffsetsTopicNow
    number: int
    log: LogOffsets
    leader_epoch: int | None
    stored: StoredPartition | None = None  # what was read before

    @property
    def plan(self) -> ReadPlan:
        point = self.stored.point if self.stored else None
        return plan_read(point, self.log, self.leader_epoch, self.topic)

    @property
    def records(self) -> int:
        """How many there are to read, at most."""
        return max(0, (self.log.last_stable or 0) - self.plan.start)

    def rows(self) -> Iterator[Row]:
        """
        Yield what the partition holds.

        If it may not be read, its commits must come through Admin. If its stored state cannot be
        read, a problem says so, and the partition is read from its start.
        """
        place = {"offsets_partition": self.number, "partitions": self.topic.partitions}
        older, (start, why_full) = None, self.plan
        if self.stored and not why_full:
            # The task may have waited since the work was divided.
            retention_ms, now = self.topic.delete_retention_ms, datetime.now(UTC)
            why_full = why_too_late(self.stored.point, retention_ms, now)
            try:
                older = None if why_full else self.stored.latest(start)
            except ToolkitError as exc:
                why_full = str(exc)
                yield {**place, "problem": why_full}
            start = self.log.log_start or 0 if why_full else start
        try:
            with CONNECTIONS.in_use():
                found = read_offsets_log(self.cluster, self.number, self.log, start=start)
            latest = merge_latest(older, found.latest) if older else found.latest
        except Exception as exc:  # noqa: BLE001 - Admin may have what this partition does not give
            yield {**place, "by_admin": why_failed(exc)}
            return
        yield {
            **place,
            "latest": pack(latest),
            "activity": pack(found.activity),
            "removals": pack(found.removals),
            "read_to": self._read_to(found, start, why_full),
        }

    def _read_to(self, found: OffsetsRead, start: int, why_full: str) -> dict[str, Any]:
        return {
            "topic_id": self.topic.topic_id,
            "delete_retention_ms": self.topic.delete_retention_ms,
            "leader_epoch": self.leader_epoch,
            "start": start,
            "next_offset": found.next_offset,
            "log_start": self.log.log_start,
            "records": found.records,
            "read_at": self.topic.requested_at,
            "why_full": why_full,
            "resumed_at": self.stored.point.read_at if self.stored and not why_full else None,
        }


ReadTask = LogTask | NothingToRead


class AssignedTask(NamedTuple):
    """A part of the reading, and the judging task that gets what it yields."""

    task: ReadTask
    judging_task: int


class OffsetsReading(NamedTuple):
    """What the reading tasks yield, `schemas.READ_BLOCKS`, and how many tasks are to judge it."""

    blocks: DataFrame
    judging_tasks: int


def read_offsets(
    session: SparkSession, clusters: Iterable[Cluster], stored: Mapping[str, StoredPartitions]
) -> OffsetsReading:
    """
    Read the offsets topics of clusters, from the end of `stored` where that is safe.

    The tasks hold references to secrets, as the clusters' settings do, and no secret.
    """
    # A cluster that does not answer takes seconds to time out: they are read in parallel.
    with ThreadPoolExecutor(max_workers=CLUSTERS_AT_ONCE) as pool:
        cut = pool.map(lambda cluster: tasks_of(cluster, stored.get(cluster.name, {})), clusters)
        bundles, judging_tasks = divided(cut)

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch["id"].to_pylist():
                for row in _rows(bundles[number]):
                    yield pa.RecordBatch.from_pylist([row], schema=READ_BLOCKS)

    numbers = session.range(0, len(bundles), 1, len(bundles))
    return OffsetsReading(numbers.mapInArrow(read, as_spark(READ_BLOCKS)), judging_tasks)


def divided(cut: Iterable[Sequence[ReadTask]]) -> tuple[list[list[AssignedTask]], int]:
    """
    Divide the reading of some clusters into Spark tasks; return how many are to judge it, too.

    A cluster is judged by one task, or by several where its offsets topic is very large. Each then
    judges the groups of some partitions.
    """
    bundles: list[list[AssignedTask]] = []
    judging_tasks = 0
    for tasks in cut:
        records = sum(task.records for task in tasks)
        judges = min(len(tasks), 1 + records // RECORDS_A_JUDGING_TASK)
        waiting = 0
        for place, task in enumerate(tasks):
            if place == 0 or waiting + task.records > RECORDS_A_TASK:
                bundles.append([])
                waiting = 0
            bundles[-1].append(AssignedTask(task, judging_tasks + place % judges))
            waiting += task.records
        judging_tasks += judges
    return bundles, judging_tasks


def tasks_of(cluster: Cluster, stored: StoredPartitions) -> Sequence[ReadTask]:
    """Return the reading tasks of each partition of a cluster's offsets topic; never none."""
    try:
        with Connection(cluster) as connection:
            try:
                return _log_tasks(connection, stored) or [NothingToRead(cluster)]
            except ToolkitError as exc:
                return [NothingToRead(cluster, by_admin=str(exc))]
    except Exception as exc:  # noqa: BLE001 - as below
        return [NothingToRead(cluster, problem=why_failed(exc))]


def guarded(work: Callable[[], Iterator[Row]], as_row: Callable[[str], Row]) -> Iterator[Row]:
    """Yield the rows of some work on one cluster; what fails becomes a row that says why."""
    try:
        # All of it first: of what fails half-way nothing must be counted.
        yield from list(work())
    except Exception as exc:  # noqa: BLE001 - one cluster's surprise must not end the fleet's job
        yield as_row(why_failed(exc))


def why_failed(exc: Exception) -> str:
    if isinstance(exc, ToolkitError):
        return str(exc)
    return f"reading failed: {type(exc).__name__}: {exc}"


def _rows(bundle: Iterable[AssignedTask]) -> Iterator[Row]:
    for task, judging_task in bundle:
        for row in guarded(task.rows, lambda why: {"offsets_partition": WHOLE, "problem": why}):
            yield {"cluster": task.cluster.name, "judging_task": judging_task, **row}


def _log_tasks(connection: Connection, stored: StoredPartitions) -> list[ReadTask]:
    """Return a task for each partition; raises ToolkitError where the topic may not be read."""
    requested_at = datetime.now(UTC)
    topic = offsets_partitions(connection)
    (described,) = describe_topics(connection, [OFFSETS_TOPIC])
    retention_ms = read_expiry_settings(connection).delete_retention_ms
    now = OffsetsTopicNow(requested_at, topic_id(described), topic.partitions, retention_ms)
    epochs = {one.partition_index: one.leader_epoch for one in described.partitions}
    cluster, logs = connection.cluster, topic.logs
    return [
        LogTask(cluster, now, number, logs[number], epochs.get(number), stored.get(number))
        if number in logs
        else NothingToRead(cluster, number, topic.partitions)
        for number in range(topic.partitions)
    ]
