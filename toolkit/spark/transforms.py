"""
The pipeline's steps, each a `DataFrame -> DataFrame`.

Rules are not written again here: the functions of `planning` run on Spark's partitions, after
everything is joined and few rows are left.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody knows it

from toolkit.kafka_io.offsets_decode import decode_commits
from toolkit.kafka_io.offsets_groups import decode_groups
from toolkit.planning.expiry import with_expiry
from toolkit.planning.group_facts import group_facts
from toolkit.planning.group_summary import group_summary
from toolkit.planning.lag import with_lag
from toolkit.planning.leftovers import leftovers
from toolkit.planning.status import with_status
from toolkit.planning.status_rules import StatusRules
from toolkit.spark.arrow import (
    as_columns,
    as_frame,
    as_table,
    in_milliseconds,
    on_partitions,
    with_rule,
)
from toolkit.spark.read_rows import FROM_LOG
from toolkit.spark.schemas import (
    COMMITS,
    GROUP_SUMMARY,
    GROUPS,
    LEFTOVERS,
    PARTITIONS,
    as_spark,
    schema,
)

Step = Callable[[DataFrame], DataFrame]
GROUP_KEY = ["cluster", "group"]


def only(name: str) -> Step:
    """Return the step that keeps the rows which have one of the structs of `schemas.READ`."""

    def step(read: DataFrame) -> DataFrame:
        # Named anew, because Spark does not join two parts of one frame by the same columns.
        of = (F.col(column).alias(column) for column in ("cluster", "offsets_partition"))
        return read.where(F.col(name).isNotNull()).select(*of, f"{name}.*")

    return step


def problems_only(rows: DataFrame) -> DataFrame:
    """Keep the rows that say what could not be read: cluster, problem."""
    return rows.where("problem is not null").select("cluster", "problem").distinct()


def log_problems_only(partitions: DataFrame) -> DataFrame:
    """Say for each topic whose log offsets could not be read, why: cluster, problem."""
    about = "concat('log offsets of topic ', topic, ': ', log_problem) as problem"
    return partitions.where("log_problem != ''").selectExpr("cluster", about).distinct()


def decoded_commits(latest: DataFrame) -> DataFrame:
    """Decode the newest record of each commit: `schemas.COMMITS`."""

    def decode(part: pa.Table) -> pa.Table:
        found, _ = decode_commits(part)
        # Read up to the last stable offset, where all of it counts.
        settled = pa.repeat(pa.scalar(value=False), found.num_rows)
        source = pa.repeat(FROM_LOG, found.num_rows)
        return found.append_column("pending", settled).append_column("source", source)

    return _decoded(latest, decode, schema(*COMMITS))


def decoded_groups(latest: DataFrame) -> DataFrame:
    """Put together what the records of each group tell: `schemas.GROUPS`."""
    return _decoded(latest, lambda part: decode_groups(part)[0], schema(*GROUPS))


def _decoded(
    latest: DataFrame, decode: Callable[[pa.Table], pa.Table], wanted: pa.Schema
) -> DataFrame:
    """Decode the rows of each cluster; a group's are all in one partition of the offsets topic."""

    def run(table: pa.Table) -> pa.Table:
        found = []
        for name in pc.unique(table["cluster"]).to_pylist():
            part = table.filter(pc.equal(table["cluster"], name)).drop_columns(["cluster"])
            rows = decode(in_milliseconds(part))
            found.append(
                as_columns(rows.append_column("cluster", pa.repeat(name, len(rows))), wanted)
            )
        return pa.concat_tables(found)

    return on_partitions(latest, run, wanted)


def merged_groups(commits: DataFrame, groups: DataFrame, listed: DataFrame) -> DataFrame:
    """
    Put together what the log and the coordinators tell of every group: `schemas.GROUPS`.

    `commits` name groups of which the log has no record of their own. See `planning.group_facts`.
    """
    named = commits.select(*GROUP_KEY).distinct()
    logged = named.join(groups, GROUP_KEY, "full")

    def merge(known: pa.Table, told: pa.Table) -> pa.Table:
        return as_columns(
            as_table(group_facts(as_frame(known), as_frame(told)), schema(*GROUPS)),
            schema(*GROUPS),
        )

    both = logged.groupBy("cluster").cogroup(listed.groupBy("cluster"))
    return both.applyInArrow(merge, as_spark(schema(*GROUPS)))


def with_groups(groups: DataFrame, listed: DataFrame) -> Step:
    """Return the step that adds to each commit what is known of its group and cluster."""
    reads = F.coalesce(F.array_contains("topics_read", F.col("topic")), F.lit(False))
    subscribed = F.when(F.col("unreadable") != "", None).otherwise(reads)
    facts = groups.withColumnRenamed("subscribed", "topics_read").drop("epoch", "changed_at")
    settings = listed.where("retention_s is not null").select(
        "cluster", "retention_s", "check_interval_s"
    )

    def step(commits: DataFrame) -> DataFrame:
        return (
            commits.join(F.broadcast(facts), GROUP_KEY, "left")
            .withColumn("subscribed", subscribed)
            .join(F.broadcast(settings), "cluster", "left")
        )

    return step


def judged(rules: StatusRules, *, commits_read_at: datetime) -> Step:
    """
    Return the step that adds lag, status and expiry: `schemas.PARTITIONS`.

    The rules run in one pass: moving rows between Spark and Python costs more than they do. Now is
    when the logs of a row's cluster were read; up to `commits_read_at` all commits are known.
    """

    def judge(facts: pd.DataFrame) -> pd.DataFrame:
        found = []
        for read_at, rows in facts.groupby("log_read_at"):
            now = pd.Timestamp(str(read_at)).to_pydatetime()
            known = with_lag(rows).assign(commits_read_at=commits_read_at)
            judged = with_status(known, now=now, rules=rules)
            found.append(with_expiry(judged, now=now))
        return pd.concat(found)

    return lambda facts: with_rule(facts, judge, PARTITIONS)


def summed_by_group(partitions: DataFrame) -> DataFrame:
    """Sum partitions up to groups: `schemas.GROUP_SUMMARY`, the most behind first."""
    together = partitions.repartition(*GROUP_KEY)
    return with_rule(together, group_summary, GROUP_SUMMARY).orderBy(F.desc_nulls_last("lag"))


def leftovers_of(partitions: DataFrame, *, empty_days: float) -> DataFrame:
    """List what nobody needs any more, by the rule of `planning/leftovers.py`."""

    def rule(rows: pd.DataFrame) -> pd.DataFrame:
        now = rows["log_read_at"].max().to_pydatetime()
        return leftovers(rows, now=now, empty_days=empty_days)

    # A group is judged as a whole.
    return with_rule(partitions.repartition(*GROUP_KEY), rule, schema(*LEFTOVERS))
