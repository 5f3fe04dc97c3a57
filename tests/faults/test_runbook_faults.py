"""
Runbooks that are cut off, on a real broker: what is left tells the truth, and can be undone.

The notebook is 50_reset_offsets with one cell more, a gate, at which it waits: so a fault comes in
the phase that is meant, and not sometimes in another.
"""

import json
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import psutil
import pytest
from applications import eventually
from brokers import UNCLOSED_SOCKETS
from nbformat.v4 import new_code_cell
from payment_groups import AT_0, AT_7, PaymentGroups
from runbook_places import Place

from toolkit.operate.reconcile_runs import reconcile_runs
from toolkit.plan import ChangeStatus
from toolkit.storage import audit
from toolkit.storage.undo_records import list_runs, read_undo_record

pytestmark = [pytest.mark.faults("runners, kernels and a broker are killed"), UNCLOSED_SOCKETS]

NOTEBOOK = Path(__file__).parent.parent.parent / "notebooks" / "50_reset_offsets.ipynb"
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

    def open_gate(self) -> None:
        (self.place.folder / "go on").touch()

    def end(self) -> tuple[int, dict[str, Any]]:
        self.open_gate()
        (row,) = json.loads(self.process.communicate()[0])["runs"]
        return self.process.returncode, row


Fault = Callable[[Run, Any], object]


@dataclass(frozen=True)
class Scene:
    """Four idle groups at offset 7 that a runbook sends to the start, up to a gate."""

    payments: PaymentGroups
    place: Place

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
        groups = [f"-pgroups={group}" for group in self.payments.names]
        with self.place.running(page, *groups) as process:
            eventually((self.place.folder / "at the gate").exists)
            (runner,) = psutil.Process(process.pid).children()
            (kernel,) = (c for c in runner.children() if "ipykernel_launcher" in c.cmdline())
            yield Run(process, self.place, runner, kernel)

    @property
    def runs(self) -> list[str]:
        """The runs that left an undo record."""
        return list_runs(self.payments.operator.state)

    def changed(self) -> int:
        """Check that the audit log agrees with the cluster; return how many groups it changed."""
        operator, names = self.payments.operator, self.payments.names
        reconcile_runs(operator.cluster, operator.state)
        assert [] == audit.unfinished(operator.state)
        done = {
            step.group_id
            for entry in operator.log
            for step in entry.steps
            if entry.event != "intent" and step.status is ChangeStatus.DONE
        }
        expected = self.payments.at(*(AT_0 if name in done else AT_7 for name in names))
        eventually(lambda: expected == self.payments.held)  # a new coordinator loads first
        return len(done)

    def undone(self) -> bool:
        """Undo the run, if there was one, and return whether all is as it was."""
        operator = self.payments.operator
        for run_id in self.runs:
            plan = operator.undo(read_undo_record(operator.state, run_id))
            if plan.steps:
                assert operator.apply(plan).is_done
        return self.payments.at(AT_7) == self.payments.held


@pytest.fixture
def scene(payments: PaymentGroups, tmp_path: Path) -> Scene:
    """Return the groups, and a place whose fleet is their cluster, with the same state folder."""
    operator, fleet = payments.operator, tmp_path / "fleet.yaml"
    address = operator.cluster.bootstrap_servers
    fleet.write_text(f"clusters:\n  breakable:\n    bootstrap.servers: {address}\n")
    there = {"OFFSETBOOK_FLEET": str(fleet), "OFFSETBOOK_STATE": str(operator.state)}
    return Scene(payments, Place(tmp_path, there))


def kill(victim: str) -> Fault:
    """Return how the runner or the kernel is killed; the kernel ends with its runner."""

    def act(run: Run, _: Any) -> None:
        getattr(run, victim).kill()
        psutil.wait_procs([run.kernel])

    return act


def kill_broker(_: Run, breakable: Any) -> None:
    breakable.kill()


def fill_disk(victim: str) -> Fault:
    """Return how no file of the runner or of the kernel may grow any more."""
    return lambda run, _: resource.prlimit(getattr(run, victim).pid, resource.RLIMIT_FSIZE, (0, 0))


class Case(NamedTuple):
    """What happens before a heading of the notebook, and how the run ends."""

    heading: str
    code: int
    status: str
    fault: Fault = lambda *_: None
    hours: int = 0  # which the clock of the kernel is set forward
    changed: int = 0
    words: str = ""


CASES = {
    "runner killed": Case("Plan", 1, "no result", kill("runner")),
    "kernel killed before": Case("Apply", 1, "kernel-died", kill("kernel")),
    "kernel killed after": Case("Verify", 1, "kernel-died", kill("kernel"), changed=4),
    "broker lost before": Case("Apply", 1, "failed", kill_broker),
    # All was read back before.
    "broker lost after": Case("Verify", 0, "done", kill_broker, changed=4),
    # The change that runs is not stopped.
    "no room for the result": Case(
        *("Apply", 1, "no result", fill_disk("runner")), changed=4, words="result.json cannot be"
    ),
    "no room for the records": Case(
        *("Apply", 1, "failed", fill_disk("kernel")), words="cannot be written"
    ),
    "plan that seems old": Case("Apply", 3, "blocked", hours=3, words="stale-plan"),
    "clock set back": Case("Verify", 0, "done", hours=-24, changed=4),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_that_is_cut_off(scene: Scene, breakable: Any, case: Case) -> None:
    """The result says what was changed, or there is none; undo works wherever it was."""
    set_clock = (
        "import datetime, time_machine\n"
        f"there = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours={case.hours})\n"
        "time_machine.travel(there).start()\n"
    )
    with scene.before(case.heading, and_then=set_clock if case.hours else "") as run:
        case.fault(run, breakable)
        code, row = run.end()
    breakable.start()

    assert (case.code, case.status) == (code, row["status"]), row
    assert case.words in row["said"]
    assert case.changed == scene.changed()
    undo = scene.runs[0] if case.changed else None
    if case.status == "no result":
        assert (None, []) == (row["result"], scene.place.results)
        assert not undo or f"undo: offsetbook undo {undo}" in row["said"]
    else:
        (result,) = scene.place.results
        assert (case.code, case.status) == (result["exit_code"], result["status"])
        assert (case.changed, undo) == (result["counts"].get("changed", 0), result["undo"])
        assert case.status != "failed" or "Apply" == result["error"]["step"]
    assert scene.undone()
    assert [] == audit.verify(scene.payments.operator.state)


def test_a_run_without_its_broker(scene: Scene, breakable: Any) -> None:
    """It fails when it connects, and says so."""
    page = scene.place.page(NOTEBOOK, front=FRONT)
    breakable.kill()
    code, listed, _ = scene.place.run(page, f"-pgroups={scene.payments.names[0]}")
    breakable.start()

    assert (1, "failed") == (code, listed["runs"][0]["status"])
    result = listed["runs"][0]["result"]
    assert ({"breakable": None}, "Cluster") == (result["cluster_ids"], result["error"]["step"])


def test_a_signal_while_it_changes(scene: Scene) -> None:
    """It ends between two groups with an outcome in the audit log: nothing has to be reconciled."""
    with scene.before("Apply") as run:
        run.open_gate()
        eventually(lambda: scene.runs)
        os.kill(run.process.pid, signal.SIGTERM)
        code, row = run.end()

    assert [] == audit.unfinished(scene.payments.operator.state)
    assert "outcome" in scene.payments.events
    assert code in {0, 1, 4}, row  # all may have been done by then
    assert scene.changed() in range(len(scene.payments.names) + 1)
    assert scene.undone()
