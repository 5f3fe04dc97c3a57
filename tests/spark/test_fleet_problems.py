"""What of a fleet could not be read, without Spark."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from fleet_tasks import tasks_of
from offsets_records import AT_MS, chunk_with, commit_key, commit_value, log_of, plain
from py4j.protocol import Py4JNetworkError
from stored_runs import store

from toolkit.errors import ToolkitError
from toolkit.kafka_io.offsets_topic.commit_records import CommitKey, CommitValue
from toolkit.kafka_io.offsets_topic.latest_records import empty_latest, latest_of
from toolkit.model import Cluster, LogOffsets
from toolkit.model.snapshot import NO_PARTITION, NO_TOPIC
from toolkit.spark import fleet_lag as job
from toolkit.spark.arrow import pack
from toolkit.spark.catch_up import _LogNow, _up_to, read_newest
from toolkit.spark.fleet_options import FleetOptions
from toolkit.spark.history import History
from toolkit.spark.judge import log_problems
from toolkit.spark.read_state import OffsetsTopicNow
from toolkit.spark.read_tasks import LogTask
from toolkit.spark.schemas import JUDGED


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


def test_a_surprise_with_one_partition_is_left_to_admin(monkeypatch: pytest.MonkeyPatch) -> None:
    """In both stages; the other partitions of the cluster are read."""

    def fail(*_: object, **__: object) -> None:
        raise LookupError("of one partition")

    for module in ("read_tasks", "catch_up"):
        monkeypatch.setattr(f"toolkit.spark.{module}.read_offsets_log", fail)
    eu, log = Cluster("eu", "127.0.0.1:1"), LogOffsets(0, 9, 9)
    topic = OffsetsTopicNow(datetime.now(UTC), "id", 50, 1)
    (row,) = LogTask(eu, topic, 7, log, 0).rows()
    later = _up_to(log, eu, _LogNow(7, 50, empty_latest(), None), 0)

    why = "reading failed: LookupError: of one partition"
    assert (7, why) == (row["offsets_partition"], row["by_admin"]) == (later.number, later.unread)


class Judged:
    """What is found out about a cluster, without Spark."""

    def persist(self, *_: object) -> None: ...

    def unpersist(self) -> None: ...

    def select(self, *_: str) -> Judged:
        return self

    def toArrow(self) -> pa.Table:  # noqa: N802 - as Spark calls it
        return pa.Table.from_pylist([{"cluster": "eu"}], schema=JUDGED)


def without_spark(patch: pytest.MonkeyPatch, judged: Callable[..., Judged]) -> None:
    """Have the job judge without Spark."""
    patch.setattr(job, "following", lambda *_: nullcontext())
    patch.setattr(job, "read_offsets", lambda *_: None)
    patch.setattr(job, "judged", judged)


def test_a_job_that_fails_is_an_error_of_the_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it fails only when its caller looks at a result."""
    without_spark(monkeypatch, lambda *_: Judged())
    failed = pytest.raises(ToolkitError, match="the Spark job failed: Answer from Java")
    with failed, job.fleet_lag(None, []):
        raise Py4JNetworkError("Answer from Java side is empty")


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        ("", "the results are not in the history: it has a run 'nightly' already"),
        ("runs", "it is not confirmed that the results are in the history"),
        ("state", "the results are in the history, but old state was not removed"),
    ],
)
def test_a_run_that_cannot_be_stored_has_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str, told: str
) -> None:
    """Whatever happens to the history while the fleet is read, a problem says so."""
    if not damaged:
        store(History(str(tmp_path)), "nightly", datetime.now(UTC), {})

    def judged(*_: object) -> Judged:
        for log in tmp_path.glob(f"{damaged or None}/_delta_log/*.json"):
            log.write_text("damaged")
        return Judged()

    without_spark(monkeypatch, judged)
    options = FleetOptions(history=str(tmp_path), run_id="nightly")
    with job.fleet_lag(None, [], options) as result:
        (problem,) = result.problem_rows(Judged().toArrow()).to_pylist()

    assert problem["cluster"] == ""
    assert told in problem["problem"]


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("lost_sockets")
def test_unparsable_records_are_reported_by_every_run() -> None:
    """Also if an earlier run has read them: an offset does not count as absent."""
    value = commit_value(3, CommitValue(5, None, "", AT_MS))
    no_topic = b"\0\1" + plain("payments") + b"\0\x09short"
    records = ((commit_key(CommitKey("newer", "t", 0)), b"\0\x09"), (no_topic, value), (b"", value))
    latest = pack(latest_of(chunk_with(log_of(*records))))
    stored = {"offsets_partition": 7, "partitions": 50, "latest": latest, "read_to": None}
    nowhere = Cluster("eu", "127.0.0.1:1", timeout_s=1)
    newest = read_newest(nowhere, [{**stored, "by_admin": None}])

    told = [why for why in newest.problems if "could not be parsed" in why]
    assert 3 == len(told), newest.problems
    assert {"1 record of partition 7 of the offsets topic"} == {one[:44] for one in told}
