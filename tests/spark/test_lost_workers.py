"""A worker that dies in either stage costs the job time, and no row."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

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
            number = kill_workers_in(session, stage, job)
            frames = job.result()
        rows = frames.partitions[frames.partitions["group"].isin(groups)]
        assert [9 - number % 10 for number in range(20)] == list(
            rows.set_index("group")["lag"].loc[groups]
        )
        assert frames.problems.empty
        if (found := session.sparkContext.statusTracker().getStageInfo(number)) and (
            found.numFailedTasks
        ):
            return
    pytest.fail(f"in {TRIES} runs no worker was at work when it was to be killed")


def kill_workers_in(session: SparkSession, stage: int, job: Future[object]) -> int:
    """Kill all Python workers in a stage of a job; return the number that Spark gave the stage."""
    tracker, seen = session.sparkContext.statusTracker(), list[int]()
    while not job.done():
        seen += [number for number in tracker.getActiveStageIds() if number not in seen]
        if len(seen) > stage and (workers := python_workers()):
            for worker in workers:
                with suppress(psutil.NoSuchProcess):
                    worker.kill()
            return seen[stage]
        time.sleep(0.005)
    return -1


def python_workers() -> list[psutil.Process]:
    """Return the workers of the embedded Spark: children of its daemon."""
    found = []
    for child in psutil.Process(SparkContext._gateway.proc.pid).children():
        with suppress(psutil.Error):  # it has just ended
            found += child.children() if "pyspark.daemon" in child.cmdline() else []
    return found
