"""Changes that somebody interrupts at the screen: what is done is known afterwards, and undone."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from applications import Applications, eventually
from lab import Lab, Open, open_notebook
from operators import Operator
from playwright.sync_api import BrowserContext, expect

from toolkit.model import Cluster, Policy, TopicPartition
from toolkit.operate.reconcile_runs import reconcile_runs
from toolkit.plan import ChangeStatus
from toolkit.storage import audit
from toolkit.storage.undo_records import read_undo_record

pytestmark = pytest.mark.browser("JupyterLab")

# Groups; they are written in batches of 1, 2, 4, ..., and no batch is interrupted between two.
COUNT, BEFORE_THE_GATE, AT_THE_GATE = 120, 31, 32
THERE = 7
# Has the kernel wait in the middle of the change, so that it is interrupted there for sure.
GATE = """
import time
from functools import wraps
from pathlib import Path
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter
gate, commit = Path({gate!r}), GroupWriter.commit_together
commit = getattr(commit, "__wrapped__", commit)
@wraps(commit)
def commit_behind_gate(writer, wanted):
    if {group!r} in wanted:
        (gate / "reached").touch()
        while not (gate / "open").exists():
            time.sleep(0.05)
    return commit(writer, wanted)
GroupWriter.commit_together = commit_behind_gate"""


@dataclass(frozen=True)
class Bulk:
    """A cluster on which very many idle groups have read a topic in part."""

    cluster: Cluster
    groups: tuple[str, ...]

    @property
    def pattern(self) -> str:
        """What all their names match, and no other."""
        return f"{self.groups[0].rpartition('-')[0]}-*"


@dataclass(frozen=True)
class Screen:
    """A browser in front of that cluster, the state folder behind, and a gate in the change."""

    bulk: Bulk
    lab: Lab
    context: BrowserContext
    operator: Operator
    folder: Path

    def open(self) -> Open:
        """Open the notebook that resets all groups."""
        fleet_file = self.folder / "fleet.yaml"
        fleet_file.write_text(
            f"clusters:\n  bulk:\n"
            f"    bootstrap.servers: {self.operator.cluster.bootstrap_servers}\n"
            f"    limits: {{max_groups: {COUNT}}}\n"
        )
        where = {"fleet_file": str(fleet_file), "state": str(self.operator.state)}
        wanted = {"groups": [self.bulk.pattern], "mode": "to-earliest", "cluster": "bulk"}
        code = GATE.format(gate=str(self.folder), group=self.bulk.groups[BEFORE_THE_GATE])
        name = self.lab.copy(50, "bulk", code=code, **where, **wanted)
        return open_notebook(self.context, self.lab, name)

    @contextmanager
    def in_the_middle(self, notebook: Open, reason: str) -> Iterator[None]:
        """Approve the reset by hand, and act while it waits at the gate, which opens then."""
        reached, opened = self.folder / "reached", self.folder / "open"
        for file in (reached, opened):
            file.unlink(missing_ok=True)
        notebook.run_all()
        notebook.approve(reason, str(COUNT))
        notebook.apply.click()
        eventually(reached.exists)
        yield
        opened.touch()

    @property
    def last(self) -> audit.AuditEntry:
        return list(audit.read(self.operator.state))[-1]

    def told(self) -> Counter[ChangeStatus]:
        """Count what the log tells last of all changes, which is what the cluster shows."""
        last, held = self.operator.log[-1], self.operator.held(self.bulk.pattern)
        assert COUNT == len(last.steps)
        changes = [(step.group_id, change) for step in last.steps for change in step.changes]
        for group, change in changes:
            now = held[group][change.partition].offset
            is_there = {ChangeStatus.DONE: 0, ChangeStatus.NOT_TRIED: THERE}
            assert is_there[change.status or ChangeStatus.FAILED] == now, group
        return Counter(change.status or ChangeStatus.FAILED for _, change in changes)

    def undo(self) -> None:
        """Undo the last run, after which every offset is where it was."""
        done = read_undo_record(self.operator.state, self.last.run.run_id)
        assert self.operator.apply(self.operator.undo(done)).is_done
        held = self.operator.held(self.bulk.pattern)
        assert {THERE} == {at.offset for places in held.values() for at in places.values()}


@pytest.fixture(scope="module")
def bulk(bare_cluster: Cluster, unique_name: Callable[[str], str]) -> Bulk:
    """Return a cluster on which very many idle groups have read a topic in part."""
    cluster = replace(bare_cluster, name="bulk", policy=Policy(max_groups=COUNT))
    with ExitStack() as ending:
        apps = Applications(cluster, unique_name, ending)
        partition = TopicPartition(apps.create_topic(apps.name("orders"), records=10), 0)
    name = unique_name("bulk")
    groups = tuple(f"{name}-{number:03}" for number in range(COUNT))
    Operator(cluster, Path()).commit_together(groups, {partition: THERE})
    return Bulk(cluster, groups)


@pytest.fixture
def screen(notebooks: BrowserContext, lab: Lab, bulk: Bulk, tmp_path: Path) -> Screen:
    """Return a browser and a state folder of its own, before the cluster as it was at first."""
    return Screen(bulk, lab, notebooks, Operator(bulk.cluster, tmp_path / "state"), tmp_path)


def test_a_change_is_interrupted_and_undone(screen: Screen) -> None:
    """Cancelled, cut off with its kernel, left alone: what is done is known, and is undone."""
    notebook = screen.open()
    is_cancelled(screen, notebook)
    screen.undo()
    is_cut_off_with_its_kernel(screen, notebook)
    screen.undo()
    goes_on_without_its_page(screen, notebook)
    screen.undo()


def is_cancelled(screen: Screen, notebook: Open) -> None:
    """The cancel button stops it between two batches; the panel says so, and how to go on."""
    with screen.in_the_middle(notebook, "cancelled"):
        notebook.review.get_by_role("button", name="Cancel").click()
        expect(notebook.review).to_contain_text("stopping after the current step")
        notebook.screenshot("cancelling", of=notebook.review)

    ended = notebook.review.locator(".ob-notice.ob-bad")
    done = BEFORE_THE_GATE + AT_THE_GATE
    left = COUNT - done
    expect(ended).to_contain_text(f"{left} groups: not tried: cancelled by the user")
    expect(notebook.review).to_contain_text("partly applied")
    notebook.screenshot("cancelled", of=notebook.review)
    assert {ChangeStatus.DONE: done, ChangeStatus.NOT_TRIED: left} == screen.told()
    assert "cancelled by the user" == screen.last.interrupted
    notebook.run_from("decision.apply()")
    expect(notebook.page.locator(".ob-notice").last).to_contain_text("can be undone")


def is_cut_off_with_its_kernel(screen: Screen, notebook: Open) -> None:
    """After a restart in the middle the next command compares the run with the cluster."""
    with screen.in_the_middle(notebook, "cut off"):
        notebook.restart()
    assert audit.Event.INTENT is screen.last.event

    (found,) = reconcile_runs(screen.operator.cluster, screen.operator.state).known
    assert "the run was interrupted" == found.outcome.interrupted
    left = COUNT - BEFORE_THE_GATE
    assert {ChangeStatus.DONE: BEFORE_THE_GATE, ChangeStatus.NOT_TRIED: left} == screen.told()


def goes_on_without_its_page(screen: Screen, notebook: Open) -> None:
    """What is approved goes on without anybody who looks, to its recorded end."""
    with screen.in_the_middle(notebook, "left alone"):
        assert audit.Event.INTENT is screen.last.event
        notebook.page.close()

    eventually(lambda: screen.last.event is audit.Event.OUTCOME)
    assert {ChangeStatus.DONE: COUNT} == screen.told()
    # Whoever opens it again and runs its cells is told where it begins.
    again = open_notebook(screen.context, screen.lab, "bulk.ipynb")
    again.run_all()
    told = again.page.locator(".ob-notice").first
    expect(told).to_contain_text(f"Your latest change on bulk: {COUNT} done")
    expect(told).to_contain_text(f"Run {screen.last.run.run_id}")
    again.screenshot("latest_change")
