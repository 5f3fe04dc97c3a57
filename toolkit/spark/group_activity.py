"""The step that counts what groups wrote lately, from what was read of the offsets topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody knows it

from toolkit.planning.activity import activity_by_group, with_removal_kinds
from toolkit.spark.arrow import as_frame, as_table
from toolkit.spark.schemas import GROUP_ACTIVITY, as_spark, schema

GROUP_KEY = ["cluster", "group"]


@dataclass(frozen=True)
class Window:
    """
    Which time is counted: back to `since` or, in clusters that were read on, to where that began.

    `read_on` is by cluster; what was written before is in the history of an earlier run.
    """

    since: datetime
    now: datetime
    read_on: Mapping[str, datetime]

    def begin(self, cluster: str) -> datetime:
        """Return where the window of a cluster begins."""
        return max(self.since, self.read_on.get(cluster, self.since))


def activity_in(
    window: Window,
    *,
    removals: DataFrame,
    commits: DataFrame,
    groups: DataFrame,
    listed: DataFrame,
) -> Callable[[DataFrame], DataFrame]:
    """
    Return the step from activity by the hour to `schemas.GROUP_ACTIVITY`.

    By the rules of `planning/activity.py`, a cluster at a time. `listed` has the settings by which
    is told why offsets were removed, `commits` how many partitions a group has, and `groups` what
    kind of group it is where that was read by an earlier run.
    """
    known = "retention_s is not null or check_interval_s is not null"
    settings = listed.where(known).select("cluster", "retention_s", "check_interval_s")
    gone = removals.join(F.broadcast(settings), "cluster", "left")
    if window.read_on:
        gone = gone.transform(_with_kinds_known_before(groups, [*window.read_on]))
    counts = commits.groupBy(*GROUP_KEY).agg(F.count("*").alias("committed_partitions"))

    def rule(written: pa.Table, removed: pa.Table) -> pa.Table:
        return as_table(_summed(as_frame(written), as_frame(removed), window), WANTED)

    def step(activity: DataFrame) -> DataFrame:
        wrote = activity.join(counts, GROUP_KEY, "left")
        both = wrote.groupBy("cluster").cogroup(gone.groupBy("cluster"))
        return both.applyInArrow(rule, as_spark(WANTED))

    return step


WANTED = schema(*GROUP_ACTIVITY)


def _with_kinds_known_before(
    groups: DataFrame, read_on: Sequence[str]
) -> Callable[[DataFrame], DataFrame]:
    """
    Return the step that fills in the kind of groups whose records an earlier run has read.

    A group of which nothing is known is then not simple: why its offsets went cannot be told.
    """
    known = groups.select(
        *GROUP_KEY, F.col("type").alias("known_kind"), F.col("empty_since").alias("known_since")
    )
    untold = F.col("group_kind").isNull() & F.col("cluster").isin(*read_on)
    is_own = F.col("known_kind").isin("classic", "consumer", "streams")

    def step(removals: DataFrame) -> DataFrame:
        told = removals.join(known, GROUP_KEY, "left")
        return told.withColumns(
            {
                "committed": F.when(untold & F.col("known_kind").isNull(), None).otherwise(
                    F.col("committed")
                ),
                "empty_since": F.when(untold & is_own, F.col("known_since")).otherwise(
                    F.col("empty_since")
                ),
                "group_kind": F.when(untold & is_own, F.col("known_kind")).otherwise(
                    F.col("group_kind")
                ),
            }
        ).drop("known_kind", "known_since")

    return step


def _summed(written: pd.DataFrame, removed: pd.DataFrame, window: Window) -> pd.DataFrame:
    """Sum up one cluster."""
    kinds = with_removal_kinds(
        removed, retention_s=removed["retention_s"], check_interval_s=removed["check_interval_s"]
    )
    groups = written.drop_duplicates(GROUP_KEY)
    times = groups["committed_partitions"].fillna(0).astype("int64")
    partitions = groups.loc[groups.index.repeat(times), GROUP_KEY]
    cluster = str((written if len(written) else removed)["cluster"].iloc[0])
    return activity_by_group(
        written, kinds, since=window.begin(cluster), now=window.now, commits=partitions
    )
