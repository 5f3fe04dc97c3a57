"""What of a fleet could not be read, without Spark."""

from __future__ import annotations

import pandas as pd

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
