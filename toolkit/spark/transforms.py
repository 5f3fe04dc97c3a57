"""
The pipeline's steps, each a `DataFrame -> DataFrame`.

Rules are not written again here: the functions of `planning` run on Spark's partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody knows it

from toolkit.errors import ToolkitError
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.log_offsets import read_log_offsets
from toolkit.model import Cluster, TopicPartition
from toolkit.planning.lag import lag_by_group, with_lag
from toolkit.spark.schemas import GROUP_LAG, LOG_OFFSETS, PARTITION_LAG, as_spark

PARTITION_KEY = ["cluster", "topic", "partition"]

Step = Callable[[DataFrame], DataFrame]


def commits_only(rows: DataFrame) -> DataFrame:
    """Keep the rows that are committed offsets."""
    return rows.where("problem is null").drop("problem")


def problems_only(rows: DataFrame) -> DataFrame:
    """Keep the rows that say what could not be read: cluster, problem."""
    return rows.where("problem is not null").select("cluster", "problem").distinct()


def log_problems_only(partitions: DataFrame) -> DataFrame:
    """Say for each topic whose log offsets could not be read, why: cluster, problem."""
    about = "concat('log offsets of topic ', topic, ': ', log_problem) as problem"
    return partitions.where("log_problem is not null").selectExpr("cluster", about).distinct()


def with_log_offsets(clusters: Mapping[str, Cluster]) -> Step:
    """
    Return the step that adds log_start, log_end, last_stable and log_problem.

    Each cluster is asked once, in one task, for the distinct partitions that have a commit. A
    partition that could not be asked for keeps nulls and says why in `log_problem`.
    """

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for cluster, wanted in _by_cluster(batches).items():
            yield _log_offsets(clusters[cluster], wanted)

    def step(commits: DataFrame) -> DataFrame:
        partitions = commits.select(*PARTITION_KEY).distinct().repartition("cluster")
        return commits.join(
            partitions.mapInArrow(read, as_spark(LOG_OFFSETS)), PARTITION_KEY, "left"
        )

    return step


def with_record_lag(offsets: DataFrame) -> DataFrame:
    """Add lag, stable_lag, lost and position by the rule in `planning/lag.py`."""
    return _apply(offsets, with_lag, PARTITION_LAG)


def summed_by_group(partitions: DataFrame) -> DataFrame:
    """Sum partitions up to groups by the rule in `planning/lag.py`."""
    together = partitions.repartition("cluster", "group")
    return _apply(together, lag_by_group, GROUP_LAG).orderBy(F.desc_nulls_last("lag"))


def _apply(
    frame: DataFrame, rule: Callable[[pd.DataFrame], pd.DataFrame], schema: pa.Schema
) -> DataFrame:
    """Run a rule on each Spark partition as one pandas frame; integers stay exact and nullable."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = [batch for batch in batches if batch.num_rows]
        if read:
            given = pa.Table.from_batches(read).to_pandas(types_mapper=nullable)
            result = pa.Table.from_pandas(rule(given), schema=schema, preserve_index=False)
            yield from result.to_batches()

    return frame.mapInArrow(run, as_spark(schema))


def nullable(kind: pa.DataType) -> pd.Int64Dtype | None:
    """Return how pandas should hold an Arrow type: a missing integer must not become a float."""
    return pd.Int64Dtype() if pa.types.is_integer(kind) else None


def _by_cluster(batches: Iterable[pa.RecordBatch]) -> dict[str, list[TopicPartition]]:
    wanted: dict[str, list[TopicPartition]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            partition = TopicPartition(row["topic"], row["partition"])
            wanted.setdefault(row["cluster"], []).append(partition)
    return wanted


def _log_offsets(cluster: Cluster, wanted: list[TopicPartition]) -> pa.RecordBatch:
    try:
        with Connection(cluster) as connection:
            logs, problems = read_log_offsets(connection, wanted)
    except ToolkitError as exc:
        logs, why = {}, dict.fromkeys(wanted, str(exc))
    else:
        why = {TopicPartition(p.topic or "", p.partition or 0): p.why for p in problems}
    rows = [
        {
            "cluster": cluster.name,
            "topic": partition.topic,
            "partition": partition.partition,
            "log_start": logs[partition].log_start if partition in logs else None,
            "log_end": logs[partition].log_end if partition in logs else None,
            "last_stable": logs[partition].last_stable if partition in logs else None,
            "log_problem": why.get(partition),
        }
        for partition in wanted
    ]
    return pa.RecordBatch.from_pylist(rows, schema=LOG_OFFSETS)
