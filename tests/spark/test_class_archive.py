"""Spark's JVM starts from an archive of its classes, where somebody has had one made."""

import os
import subprocess
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest
from applications import Applications
from main_program import call_main

from toolkit.model import TopicPartition
from toolkit.spark import class_archive
from toolkit.spark.java import java_version

FLEET_LAG = "from toolkit.cli import main; main()"
# Prints the archives that the JVM has mapped into its memory, and runs something.
MAPPED = """
import psutil
from pyspark import SparkContext
from toolkit.spark.spark_session import start_session

assert start_session().range(3).count() == 3
maps = psutil.Process(SparkContext._gateway.proc.pid).memory_maps()
print([one.path for one in maps if "spark-classes" in one.path])
"""


@pytest.mark.slow("several JVMs")
def test_spark_starts_from_an_archive_that_was_made_on_request(
    apps: Applications, tmp_path: Path
) -> None:
    """It is made once; a table is all that comes to stdout; a damaged one is not used."""
    group = apps.name("payments")
    apps.commit(group, {TopicPartition(apps.create_topic(apps.name("orders"), records=3), 0): 1})
    cache = {"XDG_CACHE_HOME": str(tmp_path)}

    def run(program: str, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments],
            env={**os.environ, **cache},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return done.stdout

    table = ("fleet-lag", "--cluster", apps.address, "--group", group, "--output", "csv")
    made, again = (call_main(["warm-up"], folder=tmp_path, **cache) for _ in range(2))
    (archive,) = tmp_path.glob("offsetbook/*.jsa")
    head, row = run(FLEET_LAG, *table).splitlines()
    mapped = run(MAPPED)
    archive.chmod(0o644)
    archive.write_bytes(b"damaged" + archive.read_bytes()[7:])

    assert (0, 0) == (made.returncode, again.returncode)
    assert f"{archive}: " in made.stdout
    assert f"{archive} is there already\n" == again.stdout
    assert head.startswith("cluster,group,")
    assert group in row
    assert str(archive) in mapped
    assert "[]\n" == run(MAPPED)


def test_an_archive_fits_the_image_that_it_was_made_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Image layers keep whole seconds, and a container may have Java options of its own."""
    jar = tmp_path / "pyspark" / "jars" / "spark-core.jar"
    jar.parent.mkdir(parents=True)
    jar.touch()
    origin = str(tmp_path / "pyspark" / "__init__.py")
    monkeypatch.setattr(
        class_archive, "find_spec", lambda name: ModuleSpec(name, None, origin=origin)
    )
    java_version.cache_clear()
    os.utime(jar, ns=(0, 1_750_000_000_123_456_789))
    built = class_archive.archive_file(in_environment=True)

    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1")
    java_version.cache_clear()
    os.utime(jar, ns=(0, 1_750_000_000_000_000_000))
    pulled = class_archive.archive_file(in_environment=True)
    os.utime(jar, ns=(0, 1_750_000_001_000_000_000))

    assert built == pulled
    assert built != class_archive.archive_file(in_environment=True)
