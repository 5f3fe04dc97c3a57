"""A Spark session, embedded or with a master that the caller names, and how far its job is."""

from __future__ import annotations

import atexit
import os
import pwd
import re
import shlex
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import walk_tb

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException, PythonException
from pyspark.sql import SparkSession

from toolkit.errors import PrerequisiteMissing, ToolkitError, UsageError
from toolkit.spark.class_archive import archive_options
from toolkit.spark.java import java_home, quick_jvm

# A task whose worker dies is tried again, as on a cluster; tasks only read.
EMBEDDED = "local[*,4]"
# Py4JError: of the JVM, and of losing it.
OF_SPARK = PySparkException, Py4JError
WITHOUT_CAUSE = (
    "An error occurred while calling",
    "org.apache.spark.SparkException: Exception thrown in awaitResult",
    "\tat ",
)
LOOK_EVERY_S = 0.5
MASTER = re.compile(r"local(-cluster)?(\[[^]]+\])?|yarn|(spark|k8s)://\S+")

OnStep = Callable[[str], None]


def start_session(
    master: str | None = None, *, jvm_options: Sequence[str] | None = None
) -> SparkSession:
    """
    Return the session to run the pipeline in.

    Under spark-submit its session is used. Without a master an embedded one is started, which
    listens on loopback only; its JVM starts from an archive of its classes if `offsetbook warm-up`
    has made one, or takes `jvm_options` instead. Raises UsageError for what is no master or another
    one than that of this process, and PrerequisiteMissing where there is no Java or no start.
    """
    if master and not MASTER.fullmatch(master):
        raise UsageError(
            f"{master!r} is not a Spark master",
            hint="use local[*], spark://HOST:PORT, yarn or k8s://https://HOST:PORT",
        )
    running = SparkContext._active_spark_context  # noqa: SLF001 - it would be used as it is
    if master and running and running.master != master:
        raise UsageError(
            f"Spark is running with master {running.master} in this process, not with {master}",
            hint="restart the kernel",
        )
    builder = SparkSession.builder.appName("offsetbook fleet")
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    for name, value in WORKER_ENVIRONMENT.items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    # Workers must run this interpreter, whichever python is first on their path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        with job_errors():
            return builder.getOrCreate()
    _check_user()
    os.environ["JAVA_HOME"] = str(java_home())
    if master:
        return _started(builder, {"spark.master": master})
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log = f"-Dlog4j2.configurationFile={LOG_SETTINGS.as_uri()}"
    options = [*quick_jvm(), log, *(archive_options() if jvm_options is None else jvm_options)]
    return _started(
        builder, {**EMBEDDED_SETTINGS, "spark.driver.extraJavaOptions": shlex.join(options)}
    )


def _started(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder = builder.config(name, value)
    log = Path(tempfile.mkdtemp(prefix="offsetbook-spark-"), "spark.log")
    try:
        with _stderr_to(log):
            session = builder.getOrCreate()
    except (*OF_SPARK, OSError) as exc:  # OSError: of the JVM of an earlier session, which is gone
        raise PrerequisiteMissing(
            f"Spark did not start: {_in_a_line(exc)}; its log is {log}",
            hint="check Java: java -version; where Spark ran before, restart the kernel",
        ) from exc
    atexit.register(shutil.rmtree, log.parent, ignore_errors=True)
    return session


@contextmanager
def job_errors() -> Iterator[None]:
    """Turn what Spark raises for a job that fails, or when its JVM is gone, into ToolkitError."""
    try:
        yield
    except OF_SPARK as exc:
        raise _job_error(exc) from exc
    except (AssertionError, OSError, EOFError) as exc:
        # PySpark asserts that what ended a job has a cause, and lets the errors of sockets through.
        modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(exc.__traceback__)]
        is_of_output = modules[-1].endswith(".dataframe")  # what it shows is printed there
        if is_of_output or not any(name.startswith(("pyspark.", "py4j.")) for name in modules):
            raise
        cause = exc.__context__
        raise _job_error(cause if isinstance(cause, OF_SPARK) else exc) from exc


def _job_error(exc: BaseException) -> ToolkitError:
    hint = "" if isinstance(exc, PySparkException) else "see whether Spark ran out of memory"
    return ToolkitError(f"the Spark job failed: {_in_a_line(exc)}", hint=hint)


def _in_a_line(exc: BaseException) -> str:
    """Return what an error says without stack traces: of a Python worker, the worker's error."""
    if isinstance(exc, OSError):
        return f"its Java process does not answer: {exc}"
    lines = [line.strip(" :").removeprefix("Caused by: ") for line in str(exc).splitlines()]
    lines = [one for one in lines if one and not one.startswith(WITHOUT_CAUSE)]
    return lines[-1 if isinstance(exc, PythonException) else 0] if lines else repr(exc)


@contextmanager
def following(session: SparkSession, doing: str, on_step: OnStep) -> Iterator[None]:
    """
    Report what is being done and, as long as the block lasts, how many tasks have finished.

    A session without a status tracker (Spark Connect) reports no tasks.
    """
    ended = threading.Event()
    on_step(doing)

    def watch() -> None:
        with suppress(*OF_SPARK, OSError):  # where Spark is gone, the job itself fails, too
            tracker = session.sparkContext.statusTracker()
            while not ended.wait(LOOK_EVERY_S):
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
                done = sum(stage.numCompletedTasks for stage in stages if stage)
                total = sum(stage.numTasks for stage in stages if stage)
                if total and not ended.is_set():
                    on_step(f"{doing}: {done} of {total} tasks")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _check_user() -> None:
    """Raise PrerequisiteMissing for a user without a name, which Hadoop does not accept."""
    try:
        pwd.getpwuid(os.getuid())
    except KeyError as exc:
        raise PrerequisiteMissing(
            f"Spark does not start for user number {os.getuid()}, which has no name",
            hint="add the user to /etc/passwd with a home directory, or run as another user",
        ) from exc


@contextmanager
def _stderr_to(log: Path) -> Iterator[None]:
    """
    Let a process that starts inside the block write its stderr to a file.

    The JVM prints warnings that its own settings cannot silence; they would be in every
    report. What goes wrong later reaches us as an exception or a problem row, and is in the file.
    """
    sys.stderr.flush()
    own_stderr = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(own_stderr, 2)
        os.close(own_stderr)


WORKER_ENVIRONMENT = {
    "PYTHONSAFEPATH": "1",  # workers import nothing from the working directory
    # Arrow's own allocator, and an arena for each thread, keep a third more than is in use.
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "2",
}
LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
EMBEDDED_SETTINGS = {
    "spark.master": EMBEDDED,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A fleet's survivors are few after deduplication; the default of 200 is all overhead.
    "spark.sql.shuffle.partitions": "8",
}
