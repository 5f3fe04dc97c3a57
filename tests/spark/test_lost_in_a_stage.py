"""What dies in either stage costs the job time, or a cluster its rows, and a problem says so."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest
from applications import Applications
from brokers import kill, restart, until_ready
from pyspark import SparkContext
from pyspark.sql import SparkSession

from toolkit.model import Cluster, TopicPartition
from toolkit.planning.lag.group_summary import FleetFrames
from toolkit.sandbox.broker import Broker, start_broker
from toolkit.spark.fleet_lag import fleet_lag

pytestmark = pytest.mark.slow("many Spark jobs")

STAGES = pytest.mark.parametrize("stage", [0, 1], ids=["reading", "judging"])
TRIES = 10
GROUPS = 20


class Groups(NamedTuple):
    """Groups on a partition of nine records, and the lag that each has."""

    cluster: Cluster
    lag: dict[str, int]

    def found(self, frames: FleetFrames) -> dict[str, int]:
        """Return the lag of those that were found, where it is known."""
        rows = frames.partitions[frames.partitions["group"].isin(self.lag)].dropna(subset="lag")
        return {str(group): int(lag) for group, lag in zip(rows["group"], rows["lag"], strict=True)}


def committed(apps: Applications) -> Groups:
    place = TopicPartition(apps.create_topic(apps.name("orders"), records=9), 0)
    lag = {apps.name("payments"): number % 10 for number in range(GROUPS)}
    for group, unread in lag.items():
        apps.commit(group, {place: 9 - unread})
    return Groups(apps.cluster, lag)


@STAGES
def test_a_worker_that_is_killed(
    session: SparkSession, exclusive_apps: Applications, stage: int
) -> None:
    """The task is done again by another worker, and all rows are there once."""
    groups = committed(exclusive_apps)

    def kill_workers() -> None:
        for worker in python_workers():
            with suppress(psutil.NoSuchProcess):
                worker.kill()

    for _ in range(TRIES):
        frames, number = run_and(kill_workers, session, stage, groups)
        assert groups.lag == groups.found(frames)
        assert frames.problems.empty
        if (found := session.sparkContext.statusTracker().getStageInfo(number)) and (
            found.numFailedTasks
        ):
            return
    pytest.fail(f"in {TRIES} runs no worker was at work when it was to be killed")


@pytest.fixture
def other(
    tmp_path: Path, applications: Callable[[Cluster], Applications]
) -> Iterator[tuple[Broker, Groups]]:
    """Return the broker of a cluster of its own, and the groups of that."""
    broker = start_broker(tmp_path / "other")
    until_ready(broker.address)
    try:
        yield broker, committed(applications(Cluster("other", broker.address, timeout_s=3)))
    finally:
        broker.stop()


@STAGES
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("lost_sockets")
def test_a_broker_that_stops(
    session: SparkSession, exclusive_apps: Applications, other: tuple[Broker, Groups], stage: int
) -> None:
    """The other cluster is as it was; of its own rows each is right, or a problem says why not."""
    broker, lost = other
    kept = committed(exclusive_apps)
    for _ in range(TRIES):
        frames, number = run_and(lambda: kill(broker), session, stage, kept, lost)
        assert kept.lag == kept.found(frames)
        found = lost.found(frames)
        assert found.items() <= lost.lag.items()
        assert {"other"} >= set(frames.problems["cluster"])
        if number >= 0 and found != lost.lag:
            assert not frames.problems.empty
            return
        if broker.pid is None:
            broker.stop()  # reaps the process that was killed
            restart(broker)
            until_ready(broker.address)
    pytest.fail(f"in {TRIES} runs the broker was not asked any more when it was stopped")


def run_and(
    lose: Callable[[], None],
    session: SparkSession,
    stage: int,
    *groups: Groups,
) -> tuple[FleetFrames, int]:
    """Lose something in a stage of a job; return what the job finds, and the stage's number."""

    def run() -> FleetFrames:
        with fleet_lag(session, [one.cluster for one in groups]) as result:
            return result.to_pandas()

    with ThreadPoolExecutor() as pool:
        job = pool.submit(run)
        number = in_stage(stage, job, session)
        if number >= 0:
            lose()
        return job.result(), number


def in_stage(stage: int, job: Future[object], session: SparkSession) -> int:
    """Wait until workers are at work in a stage; return the number that Spark gave it, or -1."""
    tracker, seen = session.sparkContext.statusTracker(), list[int]()
    while not job.done():
        seen += [number for number in tracker.getActiveStageIds() if number not in seen]
        if len(seen) > stage and python_workers():
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
