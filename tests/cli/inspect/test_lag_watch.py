"""`lag --watch`: readings one after the other, on a terminal and in a pipe."""

import csv
import io
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from applications import Applications
from hypothesis import given
from hypothesis import strategies as st
from idle_groups import idle_group

from toolkit.cli.watch import next_due
from toolkit.model import Cluster, TopicPartition
from toolkit.sandbox.broker import start_broker

PROGRAM = shutil.which("offsetbook", path=str(Path(sys.executable).parent))


@contextmanager
def watching(fleet: Path, *words: str, **pipes: Any) -> Iterator[subprocess.Popen[str]]:
    assert PROGRAM
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **pipes}
    with subprocess.Popen([PROGRAM, "lag", "--fleet", str(fleet), *words], **settings) as process:
        try:
            yield process
        finally:
            process.kill()


def interrupted(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Press Ctrl-C, and return the exit code and what was still written to stderr."""
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    return process.returncode, said


@pytest.fixture
def group(apps: Applications) -> tuple[str, TopicPartition]:
    name, (place,) = idle_group(apps, 4)
    return name, place


@pytest.fixture
def address(apps: Applications, fleet_of: Callable[..., Path]) -> Path:
    return fleet_of(eu=apps.address)


def test_csv_is_appended_with_the_changes(
    apps: Applications, address: Path, group: tuple[str, TopicPartition]
) -> None:
    """One header, a row for each reading with its time; one connection; Ctrl-C exits with 0."""
    name, place = group
    words = ("--watch", "1s", "--output", "csv", "-g", name)
    with watching(address, *words) as process:
        heading, first = process.stdout.readline(), process.stdout.readline()
        names = next(csv.reader(io.StringIO(heading)))
        connections = sockets(process)

        def row(line: str) -> dict[str, str]:
            return dict(zip(names, next(csv.reader(io.StringIO(line))), strict=True))

        apps.commit(name, {place: 9})
        times, changed = [row(first)["taken_at"]], row(first)
        while changed["lag"] == "6":
            changed = row(process.stdout.readline())
            times.append(changed["taken_at"])
        later = sockets(process)
        code, said = interrupted(process)

    assert ("6", "", "") == tuple(row(first)[n] for n in ("lag", "lag_change", "consumed_per_s"))
    assert ("1", "-5") == (changed["lag"], changed["lag_change"])
    assert float(changed["consumed_per_s"]) > 0
    assert "taken_at" == names[0]
    assert sorted(set(times)) == times
    assert connections == later
    assert (0, "") == (code, said)


def sockets(process: subprocess.Popen[str]) -> set[tuple[Any, ...]]:
    return {(c.laddr, c.raddr) for c in psutil.Process(process.pid).net_connections()}


def test_json_is_an_array_for_each_reading(
    address: Path, group: tuple[str, TopicPartition]
) -> None:
    """A stream of arrays, whose rows have the time of their reading; a table has it above."""
    name, _ = group
    with watching(address, "--watch", "1s", "-o", "json", "--by", "partition", "-g", name) as one:
        arrays = []
        while len(arrays) < 2:
            text = ""
            while not text.endswith("\n]\n"):
                text += one.stdout.readline()
            arrays.append(json.loads(text))
    with watching(address, "--watch", "1s", "-g", name) as other:
        lines = [other.stdout.readline().rstrip() for _ in range(5)]

    assert [[6], [6]] == [[row["lag"] for row in rows] for rows in arrays]
    assert [None, 0] == [rows[0]["lag_change"] for rows in arrays]
    assert arrays[0][0]["taken_at"] < arrays[1][0]["taken_at"]
    assert [True, False, False, False, True] == [
        bool(re.fullmatch(r"[\d-]+ [\d:]+ UTC", line)) for line in lines
    ]
    assert lines[1].split()[:3] == ["cluster", "group", "topics"]


def test_a_terminal_is_drawn_over_and_keeps_the_last_table(
    address: Path, group: tuple[str, TopicPartition]
) -> None:
    """A new size is drawn at once; after Ctrl-C nothing follows the table, and the code is 0."""
    name, _ = group
    ours, theirs = pty.openpty()
    seen = ""

    def read_until(condition: Callable[[], Any]) -> None:
        nonlocal seen
        while not condition():
            seen += os.read(ours, 65536).decode()

    termios.tcsetwinsize(theirs, (20, 180))
    with ExitStack() as ending:
        ending.callback(os.close, ours)
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "", "LINES": ""}
        pipes = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "env": environment}
        process = ending.enter_context(
            watching(address, "--watch", "1h", "-g", name, start_new_session=True, **pipes)
        )
        os.close(theirs)
        read_until(lambda: seen.count("\x1b[J") == 1)
        termios.tcsetwinsize(ours, (20, 45))
        process.send_signal(signal.SIGWINCH)
        read_until(lambda: seen.count("\x1b[J") >= 2)
        process.send_signal(signal.SIGINT)
        code = process.wait()

    _, wide, narrow, *_ = seen.split("\x1b[H")
    assert 0 == code
    for drawn in (wide, narrow):
        assert name in drawn
        assert "every 1 h" in drawn
        assert drawn.endswith("\x1b[J")
    assert (False, True) == ("not shown" in wide, "not shown" in narrow)
    assert "lag_change" in narrow.partition("not shown")[2]  # it is still the first reading


@pytest.mark.starts("a broker")
def test_a_broker_that_is_away_is_reported_and_waited_for(
    tmp_path: Path, fleet_of: Callable[..., Path], applications: Callable[..., Applications]
) -> None:
    """While no broker answers each reading says so, and the next good one is written."""
    broker = start_broker(tmp_path / "broker")
    try:
        name, _ = idle_group(applications(Cluster("eu", broker.address)), 1, records=3)
        fleet = fleet_of(eu=broker.address)
        with watching(fleet, "--watch", "1s", "-g", name, "-o", "csv") as process:
            process.stdout.readline()
            assert f"eu,{name}" in process.stdout.readline()
            broker.stop()
            said = ""
            while "error: " not in said:
                said = process.stderr.readline()
                assert said, "the watch ended"
            assert broker.address == start_broker(tmp_path / "broker").address
            last = ""
            while ",2,0," not in last:
                last = process.stdout.readline()
                assert last, "the watch ended"
            code, _ = interrupted(process)
    finally:
        broker.stop()

    assert "cluster eu" in said
    assert 0 == code


def test_a_fleet_file_that_is_being_saved_does_not_end_it(
    address: Path, group: tuple[str, TopicPartition]
) -> None:
    """While half of the file is there each reading says so, and the next good one is written."""
    name, _ = group
    whole = address.read_text("utf-8")
    with watching(address, "--watch", "1s", "-g", name, "-o", "csv") as process:
        process.stdout.readline()
        assert f"eu,{name}" in process.stdout.readline()
        address.write_text("clusters:\n", "utf-8")
        said = process.stderr.readline()
        address.write_text(whole, "utf-8")
        row = process.stdout.readline()
        code, _ = interrupted(process)

    assert "error: fleet file" in said
    assert f"eu,{name}" in row
    assert 0 == code


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**5))
def test_readings_stay_on_their_beat(due: int, late_s: int, interval_s: int) -> None:
    """The next reading is at most an interval away, and whole intervals after the one before."""
    following = next_due(due, due + late_s, interval_s)
    steps, rest = divmod(following - due, interval_s)

    assert (True, 0) == (steps >= 1, rest)
    assert 0 <= following - (due + late_s) <= interval_s
