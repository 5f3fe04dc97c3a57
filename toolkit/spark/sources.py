"""
The offsets topics of a fleet as a Spark data source: `schemas.READ`.

    session.read.format("offsetbook_offsets").option("clusters", clusters_option(clusters))
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from toolkit.errors import ToolkitError
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.group_settings import read_expiry_settings
from toolkit.kafka_io.leaders import describe_topics, topic_id
from toolkit.kafka_io.offsets_reader import offsets_partitions
from toolkit.kafka_io.offsets_topic import OFFSETS_TOPIC
from toolkit.model import Cluster
from toolkit.planning.incremental import OffsetsLog, OffsetsTopicNow, ResumePoint, plan_reads
from toolkit.spark.read_rows import problem_batches
from toolkit.spark.schemas import READ, as_spark
from toolkit.spark.tasks import AdminTask, LogTask, ProblemTask, Task, TopicNow

AT_ONCE = 8

ResumePoints = Mapping[str, Mapping[int, ResumePoint]]  # by cluster and offsets partition


class OffsetsReader(DataSourceReader):
    """Cut a fleet into tasks, and read one in a worker."""

    def __init__(self, clusters: Sequence[Cluster], points: ResumePoints) -> None:
        """Take the clusters; their settings hold references, so no secret gets into a plan."""
        self.clusters = clusters
        self.points = points

    def partitions(self) -> list[InputPartition]:
        """One task for each non-empty partition of each cluster's offsets topic."""
        # A cluster that does not answer takes seconds to say so: they are asked side by side.
        with ThreadPoolExecutor(max_workers=AT_ONCE) as pool:
            return [task for tasks in pool.map(self._tasks, self.clusters) for task in tasks]

    def _tasks(self, cluster: Cluster) -> Sequence[Task]:
        try:
            with Connection(cluster) as connection:
                try:
                    return _log_tasks(connection, self.points.get(cluster.name, {}))
                except ToolkitError as exc:
                    return [AdminTask(cluster, str(exc))]
        except ToolkitError as exc:
            return [ProblemTask(cluster, str(exc))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows as Arrow; what fails in a worker becomes a problem row as well."""
        task = cast("Task", partition)  # the kind that partitions() made
        try:
            # All of it first: of a task that fails half-way nothing must be counted.
            yield from list(task.batches())
        except ToolkitError as exc:
            yield from problem_batches(task.cluster, [str(exc)])
        except Exception as exc:  # noqa: BLE001 - one cluster's surprise must not end the fleet's job
            why = f"reading failed: {type(exc).__name__}: {exc}"
            yield from problem_batches(task.cluster, [why])


class OffsetsSource(DataSource):
    """Spark's entry, with the options `clusters` and, to go on reading, `points`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "offsetbook_offsets"

    def schema(self) -> StructType:
        """Columns as in `schemas.READ`."""
        return as_spark(READ)

    def reader(self, schema: Any) -> OffsetsReader:  # noqa: ARG002 - Spark hands it over
        """Make the reader from the options."""
        clusters = [Cluster(**entry) for entry in json.loads(self.options["clusters"])]
        return OffsetsReader(clusters, _points(self.options.get("points", "{}")))


def clusters_option(clusters: Iterable[Cluster]) -> str:
    """Return the value of the option `clusters`."""
    return json.dumps(
        [
            {
                "name": cluster.name,
                "bootstrap_servers": cluster.bootstrap_servers,
                "settings": dict(cluster.settings),
            }
            for cluster in clusters
        ]
    )


def points_option(points: ResumePoints) -> str:
    """Return the value of the option `points`: where readings ended that are to go on."""
    return json.dumps(
        {
            cluster: {
                str(number): {**asdict(point), "read_at": point.read_at.isoformat()}
                for number, point in numbers.items()
            }
            for cluster, numbers in points.items()
        }
    )


def _points(option: str) -> ResumePoints:
    return {
        cluster: {
            int(number): ResumePoint(
                **{**point, "read_at": datetime.fromisoformat(point["read_at"])}
            )
            for number, point in numbers.items()
        }
        for cluster, numbers in json.loads(option).items()
    }


def _log_tasks(connection: Connection, points: Mapping[int, ResumePoint]) -> list[LogTask]:
    """Return a task for each partition that is not empty; raises ToolkitError where it may not."""
    asked_at = datetime.now(UTC)
    topic = offsets_partitions(connection)
    (described,) = describe_topics(connection, [OFFSETS_TOPIC])
    now = TopicNow(
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
