"""
Everything about the committed offsets of a fleet, in one Spark job.

Lag in offsets and in seconds, status, expiry, leftovers and activity of every group of every
cluster; with a history, also what happened between the runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from toolkit.errors import ClusterUnreachable, ToolkitError
from toolkit.model import Cluster
from toolkit.planning.lag.trend import look_back_s
from toolkit.spark.arrow import as_frame
from toolkit.spark.blocks import EvaluationRules
from toolkit.spark.cluster_facts import cluster_facts
from toolkit.spark.fleet_options import FleetOptions
from toolkit.spark.history.fleet_history import TABLES, FleetHistory
from toolkit.spark.log_facts import ask_brokers
from toolkit.spark.packed_tables import collect_packed
from toolkit.spark.progress import OnStep, following
from toolkit.spark.schemas import RESULTS
from toolkit.spark.sources import read_offsets
from toolkit.spark.spark_session import start_session
from toolkit.spark.transforms import (
    add_decoded_commits,
    add_evaluation,
    all_problems,
    most_behind_first,
    read_to,
    select_results,
)
from toolkit.storage.fleet_file import choose_clusters, load_fleet

TASKS_A_CLUSTER = 4
OPTIONS = FleetOptions()


class FleetFrames(NamedTuple):
    """The result as pandas frames, with the columns of `FleetLag`."""

    partitions: pd.DataFrame
    groups: pd.DataFrame
    activity: pd.DataFrame
    leftovers: pd.DataFrame
    problems: pd.DataFrame


@dataclass(frozen=True)
class FleetLag:
    """
    Result frames of one fleet read.

    `partitions`: a row for each committed offset (columns: `schemas.PARTITIONS`). `groups`: a row
    for each group (`schemas.GROUP_SUMMARY`). `activity`: what each group wrote lately
    (`schemas.GROUP_ACTIVITY`). `leftovers`: offsets that nobody needs (`schemas.LEFTOVERS`).
    `problems`: cluster, problem. `read_to`: how far each offsets topic was read
    (`schemas.READ_TO`). `blocks`: what the first four are unpacked from
    (`schemas.EVALUATED_BLOCKS`).
    """

    clusters: tuple[str, ...]
    taken_at: datetime
    partitions: DataFrame
    groups: DataFrame
    activity: DataFrame
    leftovers: DataFrame
    problems: DataFrame
    read_to: DataFrame
    blocks: DataFrame

    def collect(self, name: str) -> pd.DataFrame:
        """
        Collect one of the frames; integers stay exact and nullable (Int64).

        Faster than from its DataFrame, because no rows of Spark are made of it.
        """
        if name == "problems":
            return as_frame(self.problems.toArrow())
        frame = as_frame(collect_packed(self.blocks, name, RESULTS[name]))
        if name == "groups":
            frame = frame.sort_values("lag", ascending=False, kind="stable", ignore_index=True)
        return frame

    def to_pandas(self) -> FleetFrames:
        """
        Collect all frames.

        Raises ClusterUnreachable where not one of the clusters could be read.
        """
        frames = FleetFrames(*map(self.collect, FleetFrames._fields))
        if frames.partitions.empty and set(self.clusters) == set(frames.problems["cluster"]):
            raise ClusterUnreachable(
                f"no cluster of {', '.join(self.clusters)} could be read: "
                f"{frames.problems['problem'].iloc[0]}"
            )
        return frames


class _CachedFrames:
    """Frames that are computed once and let go together."""

    def __init__(self) -> None:
        self.frames: list[DataFrame] = []

    def __call__(self, frame: DataFrame) -> DataFrame:
        self.frames.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return frame

    def let_go(self) -> None:
        for frame in reversed(self.frames):
            frame.unpersist()


@contextmanager
def fleet_lag(
    session: SparkSession,
    clusters: Sequence[Cluster],
    options: FleetOptions = OPTIONS,
    *,
    on_step: OnStep = lambda _: None,
) -> Iterator[FleetLag]:
    """
    Look at every group that has committed offsets, in the given clusters.

    What was read is kept for as long as the `with` block lasts, because a second reading would mix
    two moments. Commits are read first, then groups and log ends, so that no lag is ever negative
    because of the order. `on_step` is told in words what is being done.
    """
    by_name = {cluster.name: cluster for cluster in clusters}
    keep = _CachedFrames()
    try:
        with following(session, on_step) as step:
            past = FleetHistory(session, options.history, [*by_name], full=options.full)
            job = _Job(session, by_name, options, past, datetime.now(UTC))
            step("reading offsets topics")
            read = keep(job.read())
            read.count()
            merged = past.merged(read)
            if options.history:
                merged = keep(merged)  # merging takes longer than reading what is new
            step("querying brokers")
            tasks = TASKS_A_CLUSTER * len(by_name)
            blocks = keep(merged.transform(add_decoded_commits(tasks, by_name)))
            facts = keep(cluster_facts(session, by_name))
            log_facts = keep(job.log_facts(blocks))
            log_facts.count()
            step("judging")
            told = keep(job.evaluated(blocks, log_facts, facts))
            told.count()
            result = job.result(
                told, read, all_problems(session, past.problems, [read, facts], told)
            )
            if options.history:
                step("writing the history")
                frames = {name: getattr(result, name) for name in TABLES}
                past.save(options.run_id, job.taken_at, frames, merged)
        yield result
    finally:
        keep.let_go()


@dataclass(frozen=True)
class _Job:
    """One look at a fleet, in parts."""

    session: SparkSession
    clusters: Mapping[str, Cluster]
    options: FleetOptions
    past: FleetHistory
    taken_at: datetime

    def read(self) -> DataFrame:
        """Return what is in the offsets topics: `schemas.SOURCE_BLOCKS`."""
        return read_offsets(self.session, self.clusters.values(), self.past.state.points)

    def log_facts(self, blocks: DataFrame) -> DataFrame:
        """Return what brokers tell of the positions in blocks: `schemas.BLOCKS_WITH_LOG_FACTS`."""
        return ask_brokers(
            blocks,
            self.clusters,
            look_back_s=look_back_s(self.options.rules),
            past_ends=self.past.past_ends(self.taken_at),
        )

    def evaluated(self, blocks: DataFrame, log_facts: DataFrame, facts: DataFrame) -> DataFrame:
        """Judge what is in blocks: `schemas.EVALUATED_BLOCKS`."""
        since = self.taken_at - timedelta(seconds=self.options.activity_s)
        judging = EvaluationRules(
            self.options.rules,
            self.taken_at,
            self.options.unused_group_days,
            _hour(since),
            self.past.read_on,
        )
        return blocks.transform(add_evaluation(judging, log_facts=log_facts, cluster_facts=facts))

    def result(self, told: DataFrame, read: DataFrame, problems: DataFrame) -> FleetLag:
        """Return what is found out about blocks, by what it is about."""
        return FleetLag(
            clusters=tuple(self.clusters),
            taken_at=self.taken_at,
            partitions=told.transform(select_results("partitions")),
            groups=told.transform(select_results("groups")).transform(most_behind_first),
            activity=told.transform(select_results("activity")),
            leftovers=told.transform(select_results("leftovers")),
            problems=problems,
            read_to=read.transform(read_to),
            blocks=told,
        )


def _hour(at: datetime) -> datetime:
    """Return when its clock hour began: activity is counted by the hour."""
    return at.replace(minute=0, second=0, microsecond=0)


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the job from a shell or spark-submit: print groups, write Parquet if asked.

    Returns 0, or 4 where something could not be read, or an error's exit code.
    """
    parser = argparse.ArgumentParser(prog="fleet_lag", description=__doc__)
    parser.add_argument("--fleet", type=Path, help="fleet file (default: searched for)")
    parser.add_argument("--cluster", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--output", help="directory or URL for Parquet; must not exist yet")
    parser.add_argument("--history", help="directory or URL of the stored results")
    parser.add_argument("--run-id", default="", help="name of this run in the history")
    parser.add_argument("--full", action="store_true", help="read everything, not only new records")
    parser.add_argument("--master", help="Spark master (default: spark-submit's, or embedded)")
    given = parser.parse_args(arguments)
    options = FleetOptions(history=given.history, run_id=given.run_id, full=given.full)
    try:
        clusters = choose_clusters(load_fleet(given.fleet), given.cluster)
        session = start_session(given.master)
        with fleet_lag(session, clusters, options, on_step=_say) as result:
            result.groups.show(50, truncate=False)
            result.problems.show(50, truncate=False)
            if given.output:
                for name in FleetFrames._fields:
                    # Spark's own mode "errorifexists": a report that exists is never written over.
                    getattr(result, name).write.parquet(f"{given.output}/{name}")
            return 4 if result.problems.count() else 0
    except ToolkitError as exc:
        sys.stderr.write(f"{exc}\n")
        return exc.exit_code
    except PySparkException as exc:
        sys.stderr.write(f"the Spark job failed: {exc}\n")
        return 1


def _say(words: str) -> None:
    if not words.endswith("tasks"):  # in a log, stages are enough
        sys.stderr.write(f"{words}\n")


if __name__ == "__main__":
    sys.exit(main())
