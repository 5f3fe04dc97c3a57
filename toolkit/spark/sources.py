"""
Committed offsets of a fleet as a Spark data source, one task for each cluster and partition.

The rows come from `__consumer_offsets`; a cluster where it may not be read gives the same rows from
the Admin protocol, which lack the commit time. What could not be read is a row whose `problem` says
why, so a cluster that is down is seen in the result and does not stop the others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from toolkit.errors import ToolkitError
from toolkit.kafka_io.commits import read_commits
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.listing import list_groups
from toolkit.kafka_io.offsets_reader import offsets_partitions, read_offsets_partition
from toolkit.model import Cluster, LogOffsets
from toolkit.spark.schemas import COMMITS, as_spark

FROM_LOG, FROM_ADMIN = "offsets topic", "admin"


@dataclass
class LogTask(InputPartition):
    """Read one partition of one cluster's offsets topic."""

    cluster: Cluster
    number: int
    log: LogOffsets

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the partition's commits, and a problem for what is out of sight."""
        found = read_offsets_partition(self.cluster, self.number, self.log)
        for key, value in found.commits.items():
            yield {
                "cluster": self.cluster.name,
                "group": key.group_id,
                "topic": key.topic,
                "partition": key.partition,
                "committed": value.offset,
                "committed_at": datetime.fromtimestamp(value.commit_time_ms / 1000, UTC),
                "source": FROM_LOG,
            }
        if found.held_back:
            yield _problem(
                self.cluster,
                f"an open transaction hides the last {found.held_back} records of "
                f"partition {self.number} of the offsets topic: commits may be newer than shown",
            )


@dataclass
class AdminTask(InputPartition):
    """Read one cluster's commits through the Admin protocol: its topic may not be read."""

    cluster: Cluster
    why: str

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the cluster's commits, and a problem that says what they lack."""
        yield _problem(self.cluster, f"read by Admin, without commit times: {self.why}")
        with Connection(self.cluster) as connection:
            groups, unlisted = list_groups(connection)
            commits, unread = read_commits(connection, [group.group_id for group in groups])
        for commit in commits:
            yield {
                "cluster": self.cluster.name,
                "group": commit.group_id,
                "topic": commit.topic,
                "partition": commit.partition,
                "committed": commit.offset,
                "source": FROM_ADMIN,
            }
        for problem in (*unlisted, *unread):
            subject = f" of group {problem.group_id}" if problem.group_id else ""
            yield _problem(self.cluster, f"{problem.what}{subject}: {problem.why}")


@dataclass
class ProblemTask(InputPartition):
    """Stand in for a cluster that could not be reached when the work was cut up."""

    cluster: Cluster
    why: str

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the problem."""
        yield _problem(self.cluster, self.why)


Task = LogTask | AdminTask | ProblemTask


class CommitReader(DataSourceReader):
    """Cut a fleet into tasks, and read one in a worker."""

    def __init__(self, clusters: Sequence[Cluster]) -> None:
        """Take the clusters; their settings hold references, so no secret gets into a plan."""
        self.clusters = clusters

    def partitions(self) -> list[InputPartition]:
        """One task for each non-empty partition of each cluster's offsets topic."""
        # A cluster that does not answer takes seconds to say so: they are asked side by side.
        with ThreadPoolExecutor(max_workers=8) as pool:
            return [task for tasks in pool.map(_tasks, self.clusters) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield a task's rows as Arrow; what fails in a worker becomes a problem row as well."""
        task = cast("Task", partition)  # the kind that partitions() made
        try:
            rows = list(task.rows())
        except ToolkitError as exc:
            rows = [_problem(task.cluster, str(exc))]
        yield pa.RecordBatch.from_pylist(rows, schema=COMMITS)


class CommitSource(DataSource):
    """Spark's entry: `spark.read.format("offsetbook_commits").option("clusters", ...)`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "offsetbook_commits"

    def schema(self) -> StructType:
        """Columns as in `schemas.COMMITS`."""
        return as_spark(COMMITS)

    def reader(self, schema: Any) -> CommitReader:  # noqa: ARG002 - Spark hands it over
        """Make the reader from the option `clusters`."""
        entries = json.loads(self.options["clusters"])
        return CommitReader([Cluster(**entry) for entry in entries])


def clusters_option(clusters: Iterable[Cluster]) -> str:
    """Return the value of the source's option for some clusters."""
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


def _tasks(cluster: Cluster) -> list[Task]:
    try:
        with Connection(cluster) as connection:
            try:
                logs = offsets_partitions(connection)
            except ToolkitError as exc:
                return [AdminTask(cluster, str(exc))]
    except ToolkitError as exc:
        return [ProblemTask(cluster, str(exc))]
    return [LogTask(cluster, number, log) for number, log in sorted(logs.items())]


def _problem(cluster: Cluster, why: str) -> dict[str, Any]:
    return {"cluster": cluster.name, "problem": why}
