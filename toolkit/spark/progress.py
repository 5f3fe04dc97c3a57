"""How far a Spark job has come, in words, while its caller waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession

from toolkit.spark.spark_session import OF_SPARK

LOOK_EVERY_S = 0.5

OnStep = Callable[[str], None]


@contextmanager
def following(session: SparkSession, on_step: OnStep) -> Iterator[OnStep]:
    """
    Return a function that reports the current step; finished tasks are reported as well.

    After the block, nothing is reported. A session without a status tracker (Spark Connect) reports
    no tasks.
    """
    doing, ended = [""], threading.Event()

    def step(words: str) -> None:
        doing[0] = words
        on_step(words)

    def watch() -> None:
        with suppress(*OF_SPARK, OSError):  # where Spark is gone, the job itself fails, too
            tracker = session.sparkContext.statusTracker()
            while not ended.wait(LOOK_EVERY_S):
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
                done = sum(stage.numCompletedTasks for stage in stages if stage)
                total = sum(stage.numTasks for stage in stages if stage)
                if total and doing[0] and not ended.is_set():
                    on_step(f"{doing[0]}: {done} of {total} tasks")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield step
    finally:
        ended.set()
        watcher.join()
