"""What cannot be written does not undo a change, and does not hide that it was made."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from applications import Applications
from operators import Operator

from toolkit.model import TopicPartition
from toolkit.plan import Position
from toolkit.planning.changes.targets import ToOffset

COMMAND = (sys.executable, "-c", "from toolkit.cli import main; main()")


@pytest.fixture
def change(
    operator: Operator, apps: Applications, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, TopicPartition, list[str]]:
    """Return a group that latin-1 cannot write, its partition, and the words of a reset to 3."""
    group = apps.name("\u6d88\u8d39\u8005 \U0001f600")
    place = TopicPartition(apps.create_topic(apps.name("orders"), records=9), 0)
    operator.commit(group, {place: 7})
    approve = operator.session.reset([group], to=ToOffset(3)).fingerprint
    words = ["reset", "--group", group, "--to-offset", "3", "--approve", approve]
    monkeypatch.setenv("OFFSETBOOK_STATE", str(operator.state))
    where = ["--cluster", operator.cluster.bootstrap_servers]
    return group, place, [*words, "--reason", "a test", *where]


def run(
    words: list[str], stdout: int = subprocess.PIPE, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command as a shell does."""
    return subprocess.run(
        [*COMMAND, *words],
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
        check=False,
    )


@pytest.mark.parametrize("output", ["table", "json", "csv"])
def test_an_encoding_that_lacks_a_name(
    operator: Operator, change: tuple[str, TopicPartition, list[str]], output: str
) -> None:
    """JSON has escapes, CSV is UTF-8, people see a sign; the run is named, the exit code is 0."""
    group, place, words = change
    done = run([*words, "--output", output], PYTHONIOENCODING="latin-1")

    assert 0 == done.returncode, done.stderr
    assert b"offsetbook undo" in done.stderr
    assert {group: {place: Position(3, 0)}} == operator.held(group)
    if output == "json":
        assert [group] == [row["group"] for row in json.loads(done.stdout.decode("ascii"))]
    if output == "csv":
        rows = csv.DictReader(io.StringIO(done.stdout.decode("utf-8")))
        assert [group] == [row["group"] for row in rows]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a full disk is a file of Linux")
def test_a_disk_that_is_full(
    operator: Operator, change: tuple[str, TopicPartition, list[str]]
) -> None:
    """The change is made, stderr says that the result was not written, and the exit code is 0."""
    group, place, words = change
    with Path("/dev/full").open("wb") as full:
        done = run([*words, "--output", "csv"], stdout=full.fileno())

    assert 0 == done.returncode, done.stderr
    assert b"the result could not be written: No space left on device" in done.stderr
    assert b"offsetbook undo" in done.stderr
    assert {group: {place: Position(3, 0)}} == operator.held(group)
