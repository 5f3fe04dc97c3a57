"""
Runbooks that are cut off, on a real broker: what is left tells the truth, and can be undone.

The notebook is 50_reset_offsets with one cell more, a gate, at which it waits: so a fault comes in
the phase that is meant, and not sometimes in another.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest
from applications import eventually
from nbformat.v4 import new_code_cell
from operators import Operator
from runbook_places import Place

from toolkit.model import TopicPartition
from toolkit.operate.reconcile_runs import reconcile_runs
from toolkit.plan import ChangeStatus, Position
from toolkit.storage import audit
from toolkit.storage.undo_records import list_runs, read_undo_record

# Of sockets that could not connect: see `_left_over`.
pytestmark = [
    pytest.mark.faults("runners, kernels and a broker are killed"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

NOTEBOOK = Path(__file__).parent.parent.parent / "notebooks" / "50_reset_offsets.ipynb"
THERE, BACK = Position(7), Position(0, 0)
GATE = """\
import pathlib, time
gate = pathlib.Path({folder!r})
(gate / "at the gate").touch()
while not (gate / "go on").exists():
    time.sleep(0.05)
"""
FRONT = """\
may_change: true
clusters: all
parameters: {mode: to-earliest, overrides: [keeps-committing]}  # or it waits 6 s
must_give: [groups]
limits: {max_groups: 10, max_partitions: 10, max_records_repeated: 100}
"""


@dataclass(frozen=True)
class Run:
    """A runbook that stands at its gate."""

    process: subprocess.Popen[str]
    place: Place
    runner: psutil.Process
    kernel: psutil.Process

    def end(self) -> tuple[int, dict[str, Any]]:
        """Open the gate, wait for the end, and return exit code and what is told of the run."""
        (self.place.folder / "go on").touch()
        told = json.loads(self.process.communicate()[0])
        return self.process.returncode, told["runs"][0]


@pytest.fixture
def place(operator: Operator, tmp_path: Path) -> Place:
    """Return a place whose fleet is the breakable cluster, with the operator's state folder."""
    fleet = tmp_path / "fleet.yaml"
    address = operator.cluster.bootstrap_servers
    fleet.write_text(f"clusters:\n  breakable:\n    bootstrap.servers: {address}\n")
    there = {"OFFSETBOOK_FLEET": str(fleet), "OFFSETBOOK_STATE": str(operator.state)}
    return Place(tmp_path, there)


@dataclass(frozen=True)
class Scene:
    """Four idle groups at offset 7 that a runbook sends to the start, up to a gate."""

    operator: Operator
    place: Place
    groups: list[str]
    orders: TopicPartition

    @contextmanager
    def before(self, heading: str, *, and_then: str = "") -> Iterator[Run]:
        """Run it as far as before a heading of the notebook; more code may follow the gate."""
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        cells = notebook.cells
        at = next(n for n, cell in enumerate(cells) if cell.source.startswith(f"## {heading}\n"))
        gate = GATE.format(folder=str(self.place.folder))
        cells.insert(at, new_code_cell(gate + and_then, id="gate"))
        nbformat.write(notebook, self.place.folder / "gated.ipynb")
        page = self.place.page(self.place.folder / "gated.ipynb", front=FRONT)
        asked = [f"-pgroups={group}" for group in self.groups]
        with self.place.running(page, *asked) as process:
            eventually((self.place.folder / "at the gate").exists)
            (runner,) = psutil.Process(process.pid).children()
            (kernel,) = (c for c in runner.children() if "ipykernel_launcher" in c.cmdline())
            yield Run(process, self.place, runner, kernel)

    @property
    def runs(self) -> list[str]:
        """The runs that left an undo record."""
        return list_runs(self.operator.state)

    def changed(self) -> int:
        """Check that the audit log agrees with the cluster; return how many groups it changed."""
        reconcile_runs(self.operator.cluster, self.operator.state)
        assert [] == audit.unfinished(self.operator.state)
        done = {
            step.group_id
            for entry in self.operator.log
            for step in entry.steps
            if entry.event != "intent" and step.status is ChangeStatus.DONE
        }
        places = {group: {self.orders: BACK if group in done else THERE} for group in self.groups}
        eventually(
            lambda: self.operator.held(*self.groups) == places
        )  # a new coordinator loads first
        return len(done)

    def undone(self) -> bool:
        """Undo the run, if there was one, and return whether all is as it was."""
        for run_id in self.runs:
            plan = self.operator.undo(read_undo_record(self.operator.state, run_id))
            if plan.steps:
                assert self.operator.apply(plan).is_done
        everything = {group: {self.orders: THERE} for group in self.groups}
        return everything == self.operator.held(*self.groups)


@pytest.fixture
def scene(operator: Operator, place: Place, groups: list[str], orders: TopicPartition) -> Scene:
    """Return the groups, and the place from which the runbook is run."""
    return Scene(operator, place, groups, orders)


@pytest.mark.parametrize(
    ("victim", "heading"), [("runner", "Plan"), ("kernel", "Apply"), ("kernel", "Verify")]
)
def test_killed_in_a_phase(scene: Scene, victim: str, heading: str) -> None:
    """Without a runner there is no result; a dead kernel is named; undo works wherever it was."""
    with scene.before(heading) as run:
        getattr(run, victim).kill()
        psutil.wait_procs([run.kernel])
        code, told = run.end()

    changed = len(scene.groups) if heading == "Verify" else 0
    assert (1, changed) == (code, scene.changed())
    if victim == "runner":
        assert ("no result", []) == (told["status"], scene.place.results)
    else:
        (result,) = scene.place.results
        assert ("kernel-died", 1) == (result["status"], result["exit_code"])
        assert (changed, scene.runs[0] if changed else None) == (
            result["counts"].get("changed", 0),
            result["undo"],
        )
    assert scene.undone()


@pytest.mark.parametrize("victim", ["runner", "kernel"])
def test_killed_while_it_changes(scene: Scene, victim: str) -> None:
    """However far it came, the next command finds out, records it, and takes it back."""
    with scene.before("Apply") as run:
        (scene.place.folder / "go on").touch()
        eventually(lambda: scene.runs)
        getattr(run, victim).kill()
        psutil.wait_procs([run.kernel])
        code, told = run.end()

    assert 1 == code
    assert told["status"] == ("no result" if victim == "runner" else "kernel-died")
    assert scene.changed() in range(len(scene.groups) + 1)
    assert scene.undone()


def test_a_broker_that_is_lost_before_the_change(scene: Scene, breakable: Any) -> None:
    """The run fails, says where, and has changed nothing; so does one that begins without it."""
    with scene.before("Apply") as run:
        breakable.kill()
        code, told = run.end()
    page = scene.place.page(NOTEBOOK, front=FRONT, name="later")
    later, said, _ = scene.place.run(page, f"-pgroups={scene.groups[0]}")
    breakable.start()

    assert (1, "failed") == (code, told["status"]), told
    assert (1, "failed") == (later, said["runs"][0]["status"])
    result = said["runs"][0]["result"]
    assert ({"breakable": None}, "Cluster") == (result["cluster_ids"], result["error"]["step"])
    assert 0 == told["result"]["counts"].get("changed", 0) == scene.changed()
    assert scene.undone()


def test_a_broker_that_is_lost_after_the_change(scene: Scene, breakable: Any) -> None:
    """All was read back before it was lost, and the run is done."""
    with scene.before("Verify") as run:
        breakable.kill()
        code, told = run.end()
    breakable.start()

    assert ("done", 0) == (told["status"], code), told
    assert len(scene.groups) == told["result"]["counts"]["changed"] == scene.changed()
    assert scene.undone()


def test_a_disk_that_is_full_for_the_runner(scene: Scene) -> None:
    """The change that runs is not stopped; no result can be left, and what to undo is told."""
    with scene.before("Apply") as run:
        resource.prlimit(run.runner.pid, resource.RLIMIT_FSIZE, (0, 0))
        code, told = run.end()

    assert len(scene.groups) == scene.changed()
    assert (1, None, []) == (code, told["result"], scene.place.results)
    assert f"undo with 'offsetbook undo {scene.runs[0]}'" in told["said"]
    assert "result.json cannot be written" in told["said"]
    assert scene.undone()


def test_a_disk_that_is_full_for_the_records(scene: Scene) -> None:
    """What cannot be recorded is not done, and the result says so."""
    with scene.before("Apply") as run:
        resource.prlimit(run.kernel.pid, resource.RLIMIT_FSIZE, (0, 0))
        code, told = run.end()

    assert (1, "failed", 0) == (code, told["status"], scene.changed())
    assert "Apply" == told["result"]["error"]["step"]
    assert "cannot be written" in told["said"]


@pytest.mark.parametrize(
    ("heading", "hours", "status"), [("Apply", 3, "blocked"), ("Verify", -24, "done")]
)
def test_a_clock_that_is_set(scene: Scene, heading: str, hours: int, status: str) -> None:
    """A plan that seems old is not applied; what was applied is undone as ever."""
    set_clock = (
        "import datetime, time_machine\n"
        f"there = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours={hours})\n"
        "time_machine.travel(there).start()\n"
    )
    with scene.before(heading, and_then=set_clock) as run:
        code, told = run.end()

    changed = len(scene.groups) if status == "done" else 0
    assert (status, 0 if changed else 3) == (told["status"], code), told["said"]
    assert ("stale-plan" in told["said"]) == (not changed)
    assert changed == scene.changed()
    assert scene.undone()
    assert [] == audit.verify(scene.operator.state)


def test_a_signal_while_it_changes(scene: Scene) -> None:
    """It ends between two groups with an outcome in the audit log: nothing is left to be found."""
    with scene.before("Apply") as run:
        (scene.place.folder / "go on").touch()
        eventually(lambda: scene.runs)
        os.kill(run.process.pid, signal.SIGTERM)
        code, told = run.end()

    assert [] == audit.unfinished(scene.operator.state)
    assert "outcome" in [str(entry.event) for entry in scene.operator.log]
    assert code in {0, 1, 4}, told  # all may have been done by then
    assert scene.changed() in range(len(scene.groups) + 1)
    assert scene.undone()
