"""
The offsets topics of a fleet, read by Spark: `schemas.SOURCE_BLOCKS`.

The work is divided here and done by Spark's workers. A Python data source would divide it in
processes that Spark starts for nothing else: three pairs of them, one after the other.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.leaders import describe_topics, topic_id
from toolkit.kafka_io.groups.group_settings import read_expiry_settings
from toolkit.kafka_io.offsets_topic.log_ends import offsets_partitions
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.model import Cluster
from toolkit.spark.packed_tables import rows_of
from toolkit.spark.read_plan import OffsetsLog, OffsetsTopicNow, ResumePoint, plan_reads
from toolkit.spark.schemas import SOURCE_BLOCKS, TASKS, as_spark
from toolkit.spark.source_rows import problem_batches
from toolkit.spark.tasks import AdminTask, LogTask, OffsetsTopicInfo, ProblemTask, Task

AT_ONCE = 8

ResumePoints = Mapping[str, Mapping[int, ResumePoint]]  # by cluster and offsets partition


def read_offsets(
    session: SparkSession, clusters: Iterable[Cluster], points: ResumePoints
) -> DataFrame:
    """
    Read the offsets topics of clusters, from `points` on where that is sure.

    The tasks hold references to secrets, as the clusters' settings do, and no secret.
    """
    # A cluster that does not answer takes seconds to say so: they are asked side by side.
    with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
        cut = pool.map(lambda cluster: tasks_of(cluster, points.get(cluster.name, {})), clusters)
        packed = [pickle.dumps(task) for tasks in cut for task in tasks]
    table = pa.table([range(len(packed)), packed], schema=TASKS)
    tasks = session.createDataFrame(table).repartitionById(max(1, len(packed)), "number")
    return tasks.mapInArrow(_read, as_spark(SOURCE_BLOCKS))


def tasks_of(cluster: Cluster, points: Mapping[int, ResumePoint]) -> Sequence[Task]:
    """Return a task for each non-empty partition of a cluster's offsets topic."""
    try:
        with Connection(cluster) as connection:
            try:
                return _log_tasks(connection, points)
            except ToolkitError as exc:
                return [AdminTask(cluster, str(exc))]
    except ToolkitError as exc:
        return [ProblemTask(cluster, str(exc))]


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of packed tasks; what fails in a worker becomes a problem row as well."""
    for row in rows_of(batches):
        task: Task = pickle.loads(row["task"])  # noqa: S301 - the driver has packed it
        try:
            # All of it first: of a task that fails half-way nothing must be counted.
            yield from list(task.batches())
        except ToolkitError as exc:
            yield from problem_batches(task.cluster, [str(exc)])
        except Exception as exc:  # noqa: BLE001 - one cluster's surprise must not end the fleet's job
            why = f"reading failed: {type(exc).__name__}: {exc}"
            yield from problem_batches(task.cluster, [why])


def _log_tasks(connection: Connection, points: Mapping[int, ResumePoint]) -> list[LogTask]:
    """Return a task for each partition that is not empty; raises ToolkitError where it may not."""
    asked_at = datetime.now(UTC)
    topic = offsets_partitions(connection)
    (described,) = describe_topics(connection, [OFFSETS_TOPIC])
    now = OffsetsTopicInfo(
        cluster=connection.cluster,
        topic_id=topic_id(described),
        partitions=topic.partitions,
        delete_retention_ms=read_expiry_settings(connection).delete_retention_ms,
        asked_at=asked_at,
    )
    epochs = {one.partition_index: one.leader_epoch for one in described.partitions}
    logs = {
        number: OffsetsLog(log.log_start or 0, log.last_stable or 0, epochs.get(number))
        for number, log in topic.logs.items()
    }
    read = OffsetsTopicNow(asked_at, now.topic_id, now.partitions, now.delete_retention_ms, logs)
    plans = plan_reads(points, read)
    return [
        LogTask(now, number, topic.logs[number], log.leader_epoch, plans[number])
        for number, log in sorted(logs.items())
    ]
