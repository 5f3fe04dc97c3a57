"""A worker that dies in either stage costs the job time, and no row."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pandas as pd
import psutil
import pytest
from applications import Applications
from pyspark import SparkContext
from pyspark.sql import SparkSession

from toolkit.model import TopicPartition
from toolkit.spark.fleet_lag import FleetFrames, fleet_lag

pytestmark = pytest.mark.slow("many Spark jobs")

TRIES = 10


@pytest.mark.parametrize("stage", [0, 1], ids=["reading", "judging"])
def test_a_worker_that_is_killed(
    session: SparkSession, exclusive_apps: Applications, stage: int
) -> None:
    """The task is done again by another worker, and all rows are there once."""
    apps = exclusive_apps
    place = TopicPartition(apps.create_topic(apps.name("orders"), records=9), 0)
    groups = [apps.name("payments") for _ in range(20)]
    for number, group in enumerate(groups):
        apps.commit(group, {place: number % 10})

    def run() -> FleetFrames:
        with fleet_lag(session, [apps.cluster]) as result:
            return result.to_pandas()

    for _ in range(TRIES):
        with ThreadPoolExecutor() as pool:
            job = pool.submit(run)
            was_killed = kill_workers_of(session, stage)
            frames = job.result()
        rows = frames.partitions[frames.partitions["group"].isin(groups)]
        found = rows.set_index("group")["lag"].loc[groups]
        expected = [9 - number % 10 for number in range(20)]
        pd.testing.assert_series_equal(
            found, pd.Series(expected, found.index, dtype="Int64", name="lag")
        )
        assert frames.problems.empty
        if was_killed:
            return
    pytest.fail(f"in {TRIES} runs no worker was at work when it was to be killed")


def kill_workers_of(session: SparkSession, stage: int) -> bool:
    """Kill the Python workers in a stage of the next job; return whether a task failed of it."""
    tracker, seen = session.sparkContext.statusTracker(), list[int]()
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        for number in tracker.getActiveStageIds():
            if number not in seen:
                seen.append(number)
        if len(seen) > stage and (info := tracker.getStageInfo(seen[stage])):
            if info.numActiveTasks and (workers := python_workers()):
                for worker in workers:
                    with suppress(psutil.NoSuchProcess):
                        worker.kill()
                failed = time.monotonic() + 5
                while time.monotonic() < failed:
                    if tracker.getStageInfo(seen[stage]).numFailedTasks:
                        return True
                    time.sleep(0.01)
                return False
        time.sleep(0.005)
    return False


def python_workers() -> list[psutil.Process]:
    """Return the workers of the embedded Spark: children of its daemon."""
    jvm = psutil.Process(SparkContext._gateway.proc.pid)
    daemons = [one for one in jvm.children() if "pyspark.daemon" in one.cmdline()]
    return [worker for daemon in daemons for worker in daemon.children()]
