"""Journeys through the notebooks about live groups, from end to end on the sandbox."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner
from runbook_places import Place

from toolkit.cli.notebooks.run import command
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, Group, GroupState, TopicPartition
from toolkit.operate.reconcile_runs import settle
from toolkit.runner.parameters import read_parameters
from toolkit.runner.result import RunResult
from toolkit.runner.run_notebook import run_notebook
from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.seed import POISON, POISON_OFFSET
from toolkit.storage import audit
from toolkit.storage.hold_files import HoldRecord, list_holds, read_hold

pytestmark = pytest.mark.starts("a broker")

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"
SHOWN_COMMAND = re.compile(r"<pre><code>(offsetbook run .*?)</code></pre>", re.DOTALL)
STANDING = {"dry_run": False, "approve": "within limits"}
LIMITS = ["max_groups=1", "max_partitions=3"]

# There is always a record that has been read, but not always one that has not.
BACK_BY_ONE = """\
may_change: true
clusters: all
parameters: {mode: shift-by, value: "-1", live: lossless}
must_give: [groups, topics, reason]
limits: {max_groups: 1, max_partitions: 1, max_records_repeated: 10}
"""


@dataclass(frozen=True)
class Room:
    """Where an operator runs notebooks on a sandbox of their own."""

    cluster: Cluster
    fleet_file: Path
    folder: Path

    def run(self, notebook: str, **parameters: Any) -> RunResult:
        """Run a notebook."""
        (path,) = NOTEBOOKS.glob(f"{notebook}_*.ipynb")
        given = {
            "cluster": self.cluster.name,
            "fleet_file": str(self.fleet_file),
            "state": str(self.folder / "state"),
            **parameters,
        }
        return run_notebook(path, parameters=given, output_dir=self.folder / "runs")

    def run_shown(self, result: RunResult, reason: str) -> dict[str, Any]:
        """Run the command that a report shows, with a reason."""
        (shown,) = SHOWN_COMMAND.findall(report(result))
        words = shlex.split(unescape(shown).replace("reason=...", f"'reason={reason}'"))[2:]
        words += ["--output", "json", "--quiet", "--output-dir", str(self.folder / "runs")]
        done: dict[str, Any] = json.loads(
            CliRunner().invoke(command, words, catch_exceptions=False).stdout
        )
        return done

    def group(self, name: str) -> Group:
        """Return a group as the brokers show it."""
        (group,) = read_snapshot(self.cluster, groups=[name]).groups
        return group

    def committed(self, name: str) -> dict[TopicPartition, int]:
        """Return what a group has committed."""
        commits = read_snapshot(self.cluster, groups=[name]).commits
        return {TopicPartition(c.topic, c.partition): c.offset for c in commits}

    @property
    def requests(self) -> list[tuple[str, str]]:
        """Every change that was begun, and for which reason."""
        log = audit.read(self.folder / "state")
        return [(entry.request, entry.run.reason) for entry in log if entry.event == "intent"]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """Return a room at a seeded cluster, of which the problems are solved here."""
    sandbox, folder = Sandbox(tmp_path_factory.mktemp("sandbox")), tmp_path_factory.mktemp("room")
    try:
        (cluster,) = sandbox.up(["eu"])
        yield Room(cluster, sandbox.fleet_file, folder)
    finally:
        sandbox.down()


def report(result: RunResult) -> str:
    """Return the report of a run as it stands in the file."""
    return (result.folder / "report.html").read_text("utf-8")


def test_a_pause_is_a_dry_run_until_told_otherwise() -> None:
    """As it comes the notebook pauses nothing, and what it pauses is resumed after a while."""
    (path,) = NOTEBOOKS.glob("40_*.ipynb")
    defaults = {p.name: p.default for p in read_parameters(path)}

    safe = {"dry_run": True, "approve": "", "overrides": [], "limits": []}
    assert safe == {name: defaults[name] for name in safe}
    assert defaults["pause_for"]


def test_past_a_poison_record(room: Room, eventually: Callable[..., Any]) -> None:
    """J1: pause the stuck partition, move its offset past the record, resume; the others flow."""
    group, scope = "fraud-check", f"{POISON.topic}:{POISON.partition}"
    assert POISON_OFFSET == room.committed(group)[POISON]

    dry = room.run("40", group=group, topics=[scope])
    assert ("done", {}) == (dry.status, room.group(group).paused)
    for words in ("stops", "repeats", "disturbs", "survives", "alternatives"):
        assert words in report(dry)
    paused = room.run_shown(dry, "a poison record")
    assert ("done", {POISON}) == (paused["status"], {*room.group(group).paused}), paused

    # All partitions have something behind them; none but the stuck one need have something ahead.
    live = room.run("50", groups=[group], topics=[POISON.topic], mode="to-earliest")
    assert ("blocked", True) == (live.status, "is not paused" in report(live))
    moved = room.run(
        "50",
        groups=[group],
        topics=[scope],
        mode="to-offset",
        value=str(POISON_OFFSET + 1),
        overrides=["skips-unread-records"],
        reason="a poison record",
        limits=[*LIMITS, "max_records_skipped=1"],
        **STANDING,
    )
    assert ("done", 1) == (moved.status, moved.counts["changed"]), moved
    assert POISON_OFFSET + 1 == room.committed(group)[POISON]

    before = room.committed(group)
    standing = {"limits": LIMITS, **STANDING}
    resumed = room.run("40", action="resume", group=group, reason="it is past it", **standing)
    assert ("done", {}) == (resumed.status, room.group(group).paused), resumed
    eventually(lambda: all(at > before[p] for p, at in room.committed(group).items()))
    assert ["pause", "reset", "resume"] == [request.split()[0] for request, _ in room.requests]


def test_a_replay_of_a_live_group(room: Room, eventually: Callable[..., Any]) -> None:
    """J2: a live group goes back to yesterday, 10:00, on one topic, and reads on from there."""
    group = "payments"
    topic = min({partition.topic for partition in room.committed(group)})
    members = {member.client_id for member in room.group(group).members}
    yesterday = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d} 10:00Z"
    wanted = {"groups": [group], "topics": [topic], "mode": "to-datetime", "value": yesterday}

    refused = room.run("50", **wanted)
    assert ("blocked", True) == (refused.status, "offsetbook move" in report(refused))
    dry = room.run("50", **wanted, live="lossless")
    assert "done" == dry.status, dry
    before = room.committed(group)
    moved = room.run_shown(dry, "a bug in the reader")

    assert ("done", {}) == (moved["status"], room.group(group).paused), moved
    assert moved["undo"]
    assert ["pause", "move", "resume"] == [words.split()[0] for words, _ in room.requests[-3:]]
    eventually(lambda: room.group(group).state is GroupState.STABLE)
    assert members == {member.client_id for member in room.group(group).members}
    eventually(lambda: all(at >= before[p] for p, at in room.committed(group).items()))
    undo = room.run("70", run=moved["undo"])
    assert ("done", True) == (undo.status, undo.counts["planned"] > 0), undo
    undone = room.run_shown(undo, "the reader is mended")
    assert "done" == undone["status"], undone
    assert ["pause", "move", "resume"] == [words.split()[0] for words, _ in room.requests[-3:]]


def test_a_live_move_of_a_group_without_members_is_a_reset(room: Room) -> None:
    """As with the command: nobody has to be held where nobody reads."""
    group = "nightly-export"
    topic = min({partition.topic for partition in room.committed(group)})

    dry = room.run("50", groups=[group], topics=[topic], mode="to-earliest", live="lossless")

    assert ("done", True) == (dry.status, dry.counts["planned"] > 0), dry
    assert "reset nightly-export" in dry.summary


def kernel_of(process: int) -> psutil.Process | None:
    """Return the kernel of the run that a command has started, once it is there."""
    children = psutil.Process(process).children(recursive=True)
    return next((child for child in children if "ipykernel_launcher" in child.cmdline()), None)


def stop_when(kernel: psutil.Process, is_so: Callable[[], bool]) -> None:
    """
    Stop a kernel in the middle of what it does.

    It runs for a moment at a time and stands still for every look, so that it cannot go past.
    """
    while kernel.suspend() or not is_so():
        kernel.resume()
        time.sleep(0.02)


def holds(state: Path) -> list[HoldRecord]:
    """Return what the hold files say: to ask the broker would keep the kernel back."""
    return [record for record in map(read_hold, list_holds(state)) if record]


@pytest.mark.parametrize("victim", ["runner", "kernel"])
def test_a_runbook_that_is_killed_while_it_holds(
    room: Room, eventually: Callable[..., Any], tmp_path: Path, victim: str
) -> None:
    """What it held is given back when nobody owns it any more, and the next command says so."""
    group, held = "fraud-check", TopicPartition(POISON.topic, (POISON.partition + 1) % 3)
    place = Place(
        tmp_path,
        {"OFFSETBOOK_FLEET": str(room.fleet_file), "OFFSETBOOK_STATE": str(tmp_path / "state")},
    )
    page = place.page(NOTEBOOKS / "50_reset_offsets.ipynb", front=BACK_BY_ONE)
    asked = (f"-pgroups={group}", f"-ptopics={held.topic}:{held.partition}", "-preason=a test")
    eventually(lambda: room.group(group).state is GroupState.STABLE)  # after the test before

    with place.running(page, "--cluster", room.cluster.name, *asked) as process:
        kernel = eventually(lambda: process.poll() is not None or kernel_of(process.pid))
        assert process.poll() is None, process.communicate()[0]
        try:
            stop_when(kernel, lambda: any(hold.held for hold in holds(tmp_path / "state")))
        except psutil.NoSuchProcess:
            pytest.fail(f"the run ended before it held: {process.communicate()[0]}")
        eventually(lambda: {held} == set(room.group(group).paused))
        {"runner": kernel.parent(), "kernel": kernel}[victim].kill()
        with suppress(psutil.NoSuchProcess):  # the kernel itself was killed
            kernel.resume()
        psutil.wait_procs([kernel])
        told = json.loads(process.communicate()[0])["runs"][0]

    assert told["status"] == ("no result" if victim == "runner" else "kernel-died")
    eventually(lambda: not room.group(group).paused)
    before = room.committed(group)[held]
    eventually(lambda: room.committed(group)[held] > before)
    settle(room.cluster, tmp_path / "state")
    assert [] == audit.unfinished(tmp_path / "state")
