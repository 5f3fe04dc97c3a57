"""The job on a Spark cluster of several processes: the same numbers, and no secret in sight."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import psutil
import pytest
from applications import Applications
from secured import Secured
from spark_cluster import SPARK, SparkCluster, quick_java, start_spark_cluster
from stored_runs import stored

import toolkit
from toolkit.model import Cluster, TopicPartition
from toolkit.spark import fleet_lag
from toolkit.spark.arrow import as_frame
from toolkit.spark.history import History
from toolkit.spark.java import java_home

pytestmark = pytest.mark.slow("a Spark cluster")

PASSWORD = "right"  # noqa: S105 - of the test's own broker
FACTS = [
    *("cluster", "group", "topic", "partition", "committed", "log_start", "log_end", "lag"),
    *("lost", "position", "type", "state", "expires_at", "expiry_rule"),
]
ROOT = Path(toolkit.__file__).parent.parent


@pytest.fixture
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """Return a cluster whose workers have the password in their environment."""
    environment = {**quick_java(), "FLEET_PASSWORD": PASSWORD}
    with start_spark_cluster(tmp_path_factory.mktemp("spark-cluster"), environment) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def python_of_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python with our libraries but without this project, as on a cluster of others."""
    directory = tmp_path_factory.mktemp("python")
    venv.create(directory, with_pip=False, symlinks=True)
    here = Path(sysconfig.get_paths(vars={"base": str(directory)})["purelib"])
    # A path in such a file is not searched for further files, one of which leads to this project.
    (here / "libraries.pth").write_text(sysconfig.get_paths()["purelib"])
    python = directory / "bin" / "python"
    absent = subprocess.run([python, "-c", "import pyspark, toolkit"], check=False, cwd=directory)
    assert absent.returncode == 1
    return python


class FleetFiles(NamedTuple):
    """The same cluster, with its password from a file and from the environment."""

    near: Path
    far: Path


@pytest.fixture
def fleet(
    secured: Secured, applications: Callable[[Cluster], Applications], tmp_path: Path
) -> FleetFiles:
    """Return fleet files of a cluster with a password, on which some groups have committed."""
    apps = applications(secured.plain)
    topic = apps.create_topic(apps.name("spark-cluster"), partitions=3, records=20)
    for number in range(12):
        apps.commit(apps.name("spark-cluster"), {TopicPartition(topic, number % 3): number})
    entry = {"bootstrap.servers": secured.sasl.bootstrap_servers, **secured.sasl.settings}
    files = FleetFiles(tmp_path / "near.yaml", tmp_path / "far.yaml")
    files.near.write_text(json.dumps({"clusters": {"secured": entry}}))
    entry["sasl.password"] = "${env:FLEET_PASSWORD}"
    files.far.write_text(json.dumps({"clusters": {"secured": entry}}))
    return files


@pytest.mark.usefixtures("session")
def test_a_cluster_of_processes_finds_the_same(
    spark_cluster: SparkCluster,
    python_of_workers: Path,
    fleet: FleetFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Master and workers, with the package sent along, find what one process finds, and store it.

    The password reaches them from their own environment: it is in no command line, in no log and
    in nothing that Spark's pages show, which are made from its event log.
    """
    monkeypatch.setenv("FLEET_PASSWORD", PASSWORD)
    package = shutil.make_archive(str(tmp_path / "offsetbook"), "zip", ROOT, "toolkit")
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
    }
    command = [
        *(str(SPARK / "bin" / "spark-submit"), "--master", spark_cluster.master),
        *("--py-files", package),
        *(part for item in settings.items() for part in ("--conf", "=".join(item))),
        *(str(fleet_lag.__file__), "--fleet", str(fleet.far)),
        *("--output", str(tmp_path / "far"), "--history", str(tmp_path / "history")),
    ]
    said, shown = _run(command, python_of_workers, tmp_path / "submit.log")
    here = ["--fleet", str(fleet.near), "--output", str(tmp_path / "near")]
    assert 0 == fleet_lag.main(here)

    far, near = (_rows(pd.read_parquet(tmp_path / name / "partitions")) for name in ("far", "near"))
    assert len(near) >= 12
    pd.testing.assert_frame_equal(near, far)
    kept = _rows(as_frame(stored(History(str(tmp_path / "history")), "partitions")))
    pd.testing.assert_frame_equal(near, kept, check_dtype=False)
    logs = [said, shown, *(p.read_text() for p in _files(spark_cluster.folder, events))]
    assert len(logs) > 6
    assert any("SparkListenerSQLExecutionStart" in log for log in logs)
    assert not any(f'"{PASSWORD}"' in log or f"={PASSWORD}" in log for log in logs)


def _run(command: list[str], python: Path, log: Path) -> tuple[str, str]:
    """Run a command; return what it said, and the command lines of all processes meanwhile."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(SPARK),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **quick_java(),
    }
    shown = set()
    with log.open("wb") as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=said)
        while process.poll() is None:
            for one in psutil.process_iter(["cmdline"]):
                shown.add("\0".join(one.info["cmdline"] or []))
            time.sleep(0.5)
    assert process.returncode == 0, log.read_text()
    return log.read_text(), "\n".join(shown)


def _rows(partitions: pd.DataFrame) -> pd.DataFrame:
    frame = partitions[FACTS]
    frame = frame[frame["group"].str.startswith("spark-cluster")]
    return frame.sort_values(FACTS[:4]).reset_index(drop=True)


def _files(*folders: Path) -> list[Path]:
    found = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [path for path in found if path.suffix in {"", ".log"} or "events" in path.parts]
