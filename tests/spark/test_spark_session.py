"""The Spark session that the fleet job runs in."""

import os
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors.exceptions.captured import _convert_exception
from pyspark.sql import SparkSession

from toolkit.errors import ToolkitError, UsageError
from toolkit.spark.spark_session import job_errors, start_session


def test_workers_import_nothing_from_the_working_directory(session: SparkSession) -> None:
    """Python's workers are started in the folder where the caller stands, which is not trusted."""

    def import_path(_: int) -> tuple[bool, bool]:
        import sys  # noqa: PLC0415 - in the worker

        return bool(sys.flags.safe_path), "" in sys.path

    assert [(True, False)] == session.sparkContext.parallelize([0], 1).map(import_path).collect()


def test_another_master_is_refused_while_spark_runs(session: SparkSession) -> None:
    """Spark would stay where it is; the same master, and none, are no other."""
    with pytest.raises(UsageError, match=r"running with master local.* not with spark://h:7077"):
        start_session("spark://h:7077")
    assert start_session(session.sparkContext.master) is start_session() is session


def in_workers(session: SparkSession, *, die: bool) -> None:
    """Run a job whose workers end, or raise."""

    def work(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if die:
            os._exit(1)
        raise LookupError("in a worker")

    session.range(1).mapInArrow(work, "id long").toArrow()


@pytest.mark.parametrize(
    ("die", "why"),
    [(True, "Job aborted due to .* worker exited"), (False, "LookupError: in a worker")],
)
def test_a_failed_job_is_one_line(session: SparkSession, *, die: bool, why: str) -> None:
    """The line has the cause, and no stack trace."""
    with (
        pytest.raises(ToolkitError, match=f"the Spark job failed: .*{why}") as raised,
        job_errors(),
    ):
        in_workers(session, die=die)

    assert "Try: see whether" in str(raised.value) if die else "Try" not in str(raised.value)
    assert "at org.apache.spark" not in str(raised.value)


def fail_without_cause() -> None:
    """Do as PySpark does where a job is cancelled."""
    try:
        raise Py4JNetworkError("Answer from Java side is empty")
    except Py4JError:
        _convert_exception(None)


def test_a_dead_jvm_is_reported() -> None:
    """PySpark asserts that a failure has a cause; other assertions are not hidden."""
    lost = "the Spark job failed: Answer from Java side is empty"
    with pytest.raises(ToolkitError, match=lost), job_errors():
        raise Py4JNetworkError("Answer from Java side is empty")
    with pytest.raises(ToolkitError, match=lost), job_errors():
        fail_without_cause()
    with pytest.raises(AssertionError, match="of a caller"), job_errors():
        raise AssertionError("of a caller")


def test_a_closed_pipe_is_no_lost_jvm(
    session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PySpark prints the rows that it shows."""
    out, into = os.pipe()
    os.close(out)
    with os.fdopen(into, "w", buffering=1) as closed:
        monkeypatch.setattr("sys.stdout", closed)
        with pytest.raises(BrokenPipeError), job_errors():
            session.range(3).show()
        monkeypatch.undo()
        with suppress(BrokenPipeError):
            closed.close()
