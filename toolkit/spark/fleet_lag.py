"""
Everything about the committed offsets of a fleet, in one Spark job.

Lag in offsets and in seconds, status, expiry, leftovers and activity of every group of every
cluster; with a history, also what happened between the runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from toolkit.errors import ClusterUnreachable, StateFileError, ToolkitError
from toolkit.model import Cluster
from toolkit.planning.lag.group_summary import FleetFrames
from toolkit.planning.lag.lag import most_behind_first
from toolkit.spark.arrow import as_frame, unpack_all, unpacked
from toolkit.spark.fleet_options import FleetOptions
from toolkit.spark.history import STATE_TABLE, History, HistoryRun, NewFile, RunFiles
from toolkit.spark.judge import EvaluationRules, judged
from toolkit.spark.read_state import NO_STATE, load_state
from toolkit.spark.read_tasks import read_offsets
from toolkit.spark.schemas import PROBLEMS, RESULTS
from toolkit.spark.spark_session import OnStep, following, job_errors, start_session
from toolkit.storage.fleet_file import choose_clusters, load_fleet

OPTIONS = FleetOptions()
DOING = "reading offsets topics and judging commits"


@dataclass(frozen=True)
class FleetLag:
    """
    Results of one fleet read, as DataFrames with documented columns.

    `partitions`: a row for each committed offset (columns: `schemas.PARTITIONS`). `groups`: a row
    for each group (`schemas.GROUP_SUMMARY`), the most behind first. `activity`: what each group
    wrote lately (`schemas.GROUP_ACTIVITY`). `leftovers`: offsets that nobody needs
    (`schemas.LEFTOVERS`). `problems`: cluster, problem. All are unpacked from `packed`
    (`schemas.JUDGED`). `history_problems` says what of the history is not used or not written.
    """

    clusters: tuple[str, ...]
    taken_at: datetime
    packed: DataFrame
    history_problems: Sequence[tuple[str, str]] = ()

    @property
    def partitions(self) -> DataFrame:
        return unpacked(self.packed, "partitions", RESULTS["partitions"])

    @property
    def groups(self) -> DataFrame:
        """A row for each group, ordered in one task: of a whole fleet there are not too many."""
        groups = unpacked(self.packed, "groups", RESULTS["groups"])
        return groups.coalesce(1).sortWithinPartitions(F.desc_nulls_last("lag"), "cluster", "group")

    @property
    def activity(self) -> DataFrame:
        return unpacked(self.packed, "activity", RESULTS["activity"])

    @property
    def leftovers(self) -> DataFrame:
        return unpacked(self.packed, "leftovers", RESULTS["leftovers"])

    @cached_property
    def problems(self) -> DataFrame:
        """A row for each read error; there are few."""
        packed = self.packed.select("problems").toArrow()
        return self.packed.sparkSession.createDataFrame(self.problem_rows(packed))

    def to_pandas(self) -> FleetFrames:
        """
        Collect all frames at once; integers stay exact and nullable (Int64).

        Raises ClusterUnreachable where not one of the clusters could be read.
        """
        packed = self.packed.toArrow()
        found = {
            name: as_frame(unpack_all(packed, name, of), is_last_use=True)
            for name, of in RESULTS.items()
        }
        found["groups"] = most_behind_first(found["groups"], "cluster", "group")
        found["problems"] = as_frame(self.problem_rows(packed))
        frames = FleetFrames(**found)
        pa.default_memory_pool().release_unused()  # else the next run starts with what this needed
        if frames.partitions.empty and set(self.clusters) <= set(frames.problems["cluster"]):
            raise ClusterUnreachable(
                f"no cluster of {', '.join(self.clusters)} could be read: "
                f"{frames.problems['problem'].iloc[0]}"
            )
        return frames

    def problem_rows(self, packed: pa.Table) -> pa.Table:
        """Return each problem of collected rows once: several tasks may have seen it."""
        rows = unpack_all(packed, "problems", PROBLEMS).to_pylist()
        once = dict.fromkeys([*self.history_problems, *(tuple(row.values()) for row in rows)])
        unique = [dict(zip(PROBLEMS.names, row, strict=True)) for row in once]
        return pa.Table.from_pylist(unique, schema=PROBLEMS)


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

    It is one query of two stages: read the offsets topics, then bring the commits of each cluster
    up to now, read from its brokers and judge. It runs on the first access to a result, which is
    cached until the `with` block ends, because a second read would mix two moments. `on_step` gets
    the current step as text.
    """
    by_name = {cluster.name: cluster for cluster in clusters}
    with job_errors(), following(session, DOING, on_step):
        history = History(options.history) if options.history else None
        state = load_state(history, by_name) if history and not options.full else NO_STATE
        taken_at = datetime.now(UTC)
        run = history.begin(options.run_id, taken_at) if history else None
        reading = read_offsets(session, by_name.values(), state.stored)
        store = (history.root, run) if history and run else None
        since = taken_at - timedelta(seconds=options.activity_s)
        hour = since.replace(minute=0, second=0, microsecond=0)  # activity is counted by the hour
        rules = EvaluationRules(options.rules, taken_at, options.unused_group_days, hour, store)
        packed = judged(reading, by_name, rules)
        packed.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            result = FleetLag(tuple(by_name), taken_at, packed, sorted(state.not_used.items()))
            if history and run and (why := _store(history, run, result, state.over)):
                result = replace(result, history_problems=[*result.history_problems, ("", why)])
            yield result
        finally:
            packed.unpersist()


def _store(history: History, run: HistoryRun, result: FleetLag, over: Sequence[str]) -> str:
    """
    Commit what tasks have written, with the problems, and clean up after runs before.

    Returns what of this failed, "" if nothing: the results are there all the same.
    """
    rows = result.packed.select("files", "problems").toArrow()
    new = [NewFile(**one) for files in rows["files"].to_pylist() for one in files or ()]
    problems = RunFiles(history.root, run)
    try:
        problems.add("problems", result.problem_rows(rows))
        if not history.publish(run, [*new, *problems.close()], over):
            return f"the results are not in the history: it has a run {run.run_id!r} already"
    except StateFileError as exc:
        return f"it is not confirmed that the results are in the history: {exc}"
    try:
        history.vacuum(STATE_TABLE)
    except StateFileError as exc:
        return f"the results are in the history, but old state was not removed: {exc}"
    return ""


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


def _say(words: str) -> None:
    if not words.endswith("tasks"):  # in a log, stages are enough
        sys.stderr.write(f"{words}\n")


if __name__ == "__main__":
    sys.exit(main())
