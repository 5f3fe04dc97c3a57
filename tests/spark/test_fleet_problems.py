"""What of a fleet could not be read, without Spark."""

import pandas as pd
import pytest
from fleet_tasks import tasks_of

from toolkit.model import Cluster
from toolkit.model.snapshot import NO_PARTITION, NO_TOPIC
from toolkit.spark.judge import log_problems


def test_a_topic_that_is_gone_is_no_read_error() -> None:
    """An offset outlives its topic for a moment; that is a finding, and the run is complete."""
    rows = {"none": "", "gone": NO_TOPIC, "fewer": NO_PARTITION, "headless": "it has no leader"}
    partitions = pd.DataFrame(
        {"cluster": "eu", "topic": list(rows), "log_problem": list(rows.values())}
    )

    assert ["log offsets of topic headless: it has no leader"] == [
        *log_problems(partitions)["problem"]
    ]


def test_a_surprise_with_one_cluster_is_a_problem_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever goes wrong when the work is divided, the other clusters are read."""

    def fail(_: Cluster) -> None:
        raise LookupError("of one cluster")

    monkeypatch.setattr("toolkit.spark.read_tasks.Connection", fail)
    (task,) = tasks_of(Cluster("eu", "127.0.0.1:1"))

    assert ["reading failed: LookupError: of one cluster"] == [
        row["problem"] for row in task.rows()
    ]
