"""
Everything about the committed offsets of a fleet, in one Spark job.

Lag in records and in seconds, status, expiry, leftovers and activity of every group of every
cluster; with a history, also what happened between the runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from toolkit.errors import ClusterUnreachable, ToolkitError
from toolkit.model import Cluster
from toolkit.planning.status_rules import StatusRules
from toolkit.planning.trend import look_back_s
from toolkit.spark.arrow import as_frame
from toolkit.spark.cluster_facts import listed_groups
from toolkit.spark.fleet_history import TABLES, FleetHistory
from toolkit.spark.group_activity import Window, activity_in
from toolkit.spark.log_facts import with_log_facts
from toolkit.spark.progress import OnStep, following
from toolkit.spark.schemas import PROBLEMS, as_spark
from toolkit.spark.session import start_session
from toolkit.spark.sources import OffsetsSource, clusters_option, points_option
from toolkit.spark.transforms import (
    decoded_commits,
    decoded_groups,
    judged,
    leftovers_of,
    log_problems_only,
    merged_groups,
    only,
    problems_only,
    summed_by_group,
    with_groups,
)
from toolkit.storage.fleet_file import choose_clusters, load_fleet


@dataclass(frozen=True)
class FleetOptions:
    """
    How a fleet is looked at.

    `rules` say what the status words mean, and how far back is looked (`window_s`). `empty_days`:
    groups that have been empty for longer are leftovers. `activity_s`: over how long is counted
    what groups write. `history`: a folder or URL where results
    are kept, and from where the next run goes on reading; a run of the same `run_id` is kept once.
    `full` reads everything all the same.
    """

    rules: StatusRules = field(default_factory=StatusRules)
    empty_days: float = 30
    activity_s: float = 3600
    history: str | None = None
    run_id: str = ""
    full: bool = False


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
    The result: frames over one reading of the fleet.

    `partitions`: a row for each committed offset (columns: `schemas.PARTITIONS`). `groups`: a row
    for each group (`schemas.GROUP_SUMMARY`). `activity`: what each group wrote lately
    (`schemas.GROUP_ACTIVITY`). `leftovers`: offsets that nobody needs (`schemas.LEFTOVERS`).
    `problems`: cluster, problem. `read_to`: how far each offsets topic was read
    (`schemas.READ_TO`).
    """

    clusters: tuple[str, ...]
    taken_at: datetime
    partitions: DataFrame
    groups: DataFrame
    activity: DataFrame
    leftovers: DataFrame
    problems: DataFrame
    read_to: DataFrame

    def to_pandas(self) -> FleetFrames:
        """
        Collect the frames; integers stay exact and nullable (Int64).

        Raises ClusterUnreachable where not one of the clusters could be read.
        """
        frames = FleetFrames(
            *(as_frame(getattr(self, name).toArrow()) for name in FleetFrames._fields)
        )
        if frames.partitions.empty and set(self.clusters) == set(frames.problems["cluster"]):
            raise ClusterUnreachable(
                f"no cluster of {', '.join(self.clusters)} could be read: "
                f"{frames.problems['problem'].iloc[0]}"
            )
        return frames


class _Kept:
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
    options: FleetOptions = FleetOptions(),
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
    keep = _Kept()
    try:
        with following(session, on_step) as step:
            past = FleetHistory(session, options.history, [*by_name], full=options.full)
            job = _Job(session, by_name, options, past, datetime.now(UTC))
            step("reading offsets topics")
            read = keep(job.read())
            read.count()
            latest = past.merged(read.transform(only("latest")), read.transform(only("read_to")))
            if options.history:
                latest = keep(latest)  # merging takes longer than reading what is new
            step("asking brokers")
            listed = keep(listed_groups(session, by_name))
            commits = keep(_commits(read, latest))
            groups = keep(merged_groups(commits, _groups(read, latest), listed))
            partitions = keep(job.judged(commits, groups, listed))
            partitions.count()
            step("summing up")
            result = FleetLag(
                clusters=tuple(by_name),
                taken_at=job.taken_at,
                partitions=partitions,
                groups=keep(partitions.transform(summed_by_group)),
                activity=keep(job.activity(read, commits, groups, listed)),
                leftovers=keep(leftovers_of(partitions, empty_days=options.empty_days)),
                problems=keep(job.problems(read, listed, partitions)),
                read_to=read.transform(only("read_to")),
            )
            if options.history:
                step("writing the history")
                frames = {name: getattr(result, name) for name in TABLES}
                past.save(options.run_id, job.taken_at, frames, latest)
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
        """Return what is in the offsets topics: `schemas.READ`."""
        source = self.session.read.format(OffsetsSource.name())
        source = source.option("points", points_option(self.past.state.points))
        return source.option("clusters", clusters_option(self.clusters.values())).load()

    def judged(self, commits: DataFrame, groups: DataFrame, listed: DataFrame) -> DataFrame:
        """Add to commits what brokers tell, and judge them: `schemas.PARTITIONS`."""
        rules = self.options.rules
        log_facts = with_log_facts(
            self.clusters,
            look_back_s=look_back_s(rules),
            with_past_ends=self.past.with_past_ends(self.taken_at),
        )
        facts = commits.transform(log_facts).transform(with_groups(groups, listed))
        return facts.transform(judged(rules, commits_read_at=self.taken_at))

    def activity(
        self, read: DataFrame, commits: DataFrame, groups: DataFrame, listed: DataFrame
    ) -> DataFrame:
        """Count what groups wrote lately: `schemas.GROUP_ACTIVITY`."""
        since = self.taken_at - timedelta(seconds=self.options.activity_s)
        window = Window(_hour(since), self.taken_at, self.past.read_on)
        removals = read.transform(only("removal"))
        step = activity_in(window, removals=removals, commits=commits, groups=groups, listed=listed)
        return read.transform(only("activity")).transform(step)

    def problems(self, read: DataFrame, listed: DataFrame, partitions: DataFrame) -> DataFrame:
        """Say what could not be read: `schemas.PROBLEMS`."""
        not_used = self.session.createDataFrame(self.past.problems, as_spark(PROBLEMS))
        found = [frame.transform(problems_only) for frame in (read, listed)]
        every = [not_used, *found, partitions.transform(log_problems_only)]
        return reduce(DataFrame.union, every).distinct()


def _hour(at: datetime) -> datetime:
    """Return when its clock hour began: activity is counted by the hour."""
    return at.replace(minute=0, second=0, microsecond=0)


def _commits(read: DataFrame, latest: DataFrame) -> DataFrame:
    by_admin = read.transform(only("commit")).drop("offsets_partition")
    return latest.transform(decoded_commits).unionByName(by_admin)


def _groups(read: DataFrame, latest: DataFrame) -> DataFrame:
    by_admin = read.transform(only("admin_group")).drop("offsets_partition")
    return latest.transform(decoded_groups).unionByName(by_admin)


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the job from a shell or spark-submit: print groups, write Parquet if asked.

    Returns 0, or 4 where something could not be read, or an error's exit code.
    """
    parser = argparse.ArgumentParser(prog="fleet_lag", description=__doc__)
    parser.add_argument("--fleet", type=Path, help="the fleet file (default: looked for)")
    parser.add_argument("--cluster", action="append", default=[], help="only this one; repeatable")
    parser.add_argument("--output", help="folder or URL for Parquet; must not exist yet")
    parser.add_argument("--history", help="folder or URL where results are kept, run by run")
    parser.add_argument("--run-id", default="", help="name of this run in the history")
    parser.add_argument("--full", action="store_true", help="read everything, not only what is new")
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
