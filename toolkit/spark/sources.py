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
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from toolkit.errors import ToolkitError
from toolkit.kafka_io.commits import read_commits
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.listing import list_groups
from toolkit.kafka_io.offsets_reader import offsets_partitions, read_offsets_partition
from toolkit.kafka_io.offsets_topic import partition_of
from toolkit.model import Cluster, Group, LogOffsets
from toolkit.spark.schemas import COMMITS, as_spark

FROM_LOG, FROM_ADMIN = "offsets topic", "admin"


@dataclass
class AdminTask(InputPartition):
    """Read commits through the Admin protocol: of a cluster, or of one offsets partition."""

    cluster: Cluster
    why: str
    only: tuple[int, int] | None = None  # the partition, and of how many

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the commits, and a problem that says what they lack."""
        of = f"partition {self.only[0]} of the offsets topic" if self.only else "the cluster"
        yield _problem(self.cluster, f"{of} was read by Admin, without commit times: {self.why}")
        with Connection(self.cluster) as connection:
            groups, unlisted = list_groups(connection)
            commits, unread = read_commits(connection, filter(self._holds, _ids(groups)))
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

    def _holds(self, group_id: str) -> bool:
        return self.only is None or partition_of(group_id, self.only[1]) == self.only[0]


@dataclass
class LogTask(InputPartition):
    """Read one partition of one cluster's offsets topic."""

    cluster: Cluster
    number: int
    partitions: int  # how many the topic has
    log: LogOffsets

    def rows(self) -> Iterator[dict[str, Any]]:
        """
        Yield the partition's commits, and a problem for each kind of record that is not understood.

        Where the partition may not be read, or an open transaction hides its end, commits come
        through Admin instead: older values would look like lag, and new groups would be missing.
        """
        try:
            found = read_offsets_partition(self.cluster, self.number, self.log)
        except ToolkitError as exc:
            yield from self._by_admin(str(exc))
            return
        if found.held_back:
            yield from self._by_admin(
                f"an open transaction hides its last {found.held_back} records"
            )
            return
        for key, value in found.commits.items():
            yield {
                "cluster": self.cluster.name,
                "group": key.group_id,
                "topic": key.topic,
                "partition": key.partition,
                "committed": value.offset,
                "committed_at": value.committed_at,
                "source": FROM_LOG,
            }
        for why, count in found.malformed.items():
            where = f"partition {self.number} of the offsets topic"
            yield _problem(self.cluster, f"{count} records of {where} not understood: {why}")

    def _by_admin(self, why: str) -> Iterator[dict[str, Any]]:
        return AdminTask(self.cluster, why, (self.number, self.partitions)).rows()


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
        except Exception as exc:  # noqa: BLE001 - one cluster's surprise must not end the fleet's job
            rows = [_problem(task.cluster, f"reading failed: {type(exc).__name__}: {exc}")]
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
                topic = offsets_partitions(connection)
            except ToolkitError as exc:
                return [AdminTask(cluster, str(exc))]
    except ToolkitError as exc:
        return [ProblemTask(cluster, str(exc))]
    return [
        LogTask(cluster, number, topic.partitions, log)
        for number, log in sorted(topic.logs.items())
    ]


def _ids(groups: Iterable[Group]) -> Iterator[str]:
    return (group.group_id for group in groups)


def _problem(cluster: Cluster, why: str) -> dict[str, Any]:
    return {"cluster": cluster.name, "problem": why}
