"""Changes that somebody interrupts at the screen: what is done is known afterwards, and undone."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from applications import Applications, eventually
from desks import Desk
from lab import Lab, Open, loopback_context, open_notebook, running_lab
from playwright.sync_api import Browser, BrowserContext, expect

from toolkit.kafka_io.commits import read_commits
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.writes import Answered, GroupWriter
from toolkit.model import Cluster, Policy, TopicPartition
from toolkit.operate import settle
from toolkit.plan import Position, Status
from toolkit.sandbox.broker import Broker, start_broker
from toolkit.storage import audit
from toolkit.storage.runs import read_undo_record

COUNT = 300  # groups: many enough that somebody can interrupt it
GROUPS = [f"bulk-{number:03}" for number in range(COUNT)]
THERE = 7

House = tuple[Broker, Lab]


@dataclass(frozen=True)
class Screen:
    """A browser in front of a cluster with very many idle groups, and the state folder behind."""

    broker: Broker
    lab: Lab
    context: BrowserContext
    desk: Desk
    fleet_file: Path

    def open(self) -> Open:
        """Open the notebook that resets all groups."""
        where = {"fleet_file": str(self.fleet_file), "state": str(self.desk.state)}
        wanted = {"groups": ["bulk-*"], "mode": "to-earliest", "cluster": "bulk"}
        return open_notebook(self.context, self.lab, self.lab.copy(50, "bulk", **where, **wanted))

    def begin(self, notebook: Open, reason: str) -> None:
        """Approve the reset by hand, and return when a part of it is done."""
        notebook.run_all()
        notebook.approve(reason, str(COUNT))
        notebook.apply.click()
        with Connection(self.desk.cluster) as connection:
            eventually(lambda: 0 == read_commits(connection, GROUPS[:1])[0][0].offset)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Have the broker answer nobody, so that what is begun stays where it is."""
        pid = self.broker.pid or 0
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @property
    def last(self) -> audit.AuditEntry:
        """What the log tells last."""
        return list(audit.read(self.desk.state))[-1]

    def told(self) -> set[Status]:
        """Return what the log tells last of all changes, which is what the cluster shows."""
        last, held = self.desk.log[-1], self.desk.held("bulk-*")
        assert COUNT == len(last.steps)
        changes = [(step.group_id, change) for step in last.steps for change in step.changes]
        for group, change in changes:
            now = held[group][change.partition].offset
            is_there = {Status.DONE: 0, Status.NOT_TRIED: THERE}
            assert is_there[change.status or Status.FAILED] == now, group
        return {change.status or Status.FAILED for _, change in changes}

    def undo(self) -> None:
        """Undo the last run, after which every offset is where it was."""
        done = read_undo_record(self.desk.state, self.last.run.run_id)
        assert self.desk.apply(self.desk.undo(done)).is_done
        held = self.desk.held("bulk-*")
        assert {THERE} == {at.offset for places in held.values() for at in places.values()}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Start a broker that can be frozen, and a JupyterLab."""
    broker = start_broker(tmp_path_factory.mktemp("bulk"))
    try:
        with running_lab(tmp_path_factory.mktemp("lab")) as lab:
            yield broker, lab
    finally:
        broker.stop()


@pytest.fixture(scope="module")
def cluster(house: House, applications_until: Callable[..., Applications]) -> Cluster:
    """Return a cluster on which very many idle groups have read a topic in part."""
    cluster = Cluster("bulk", house[0].address, policy=Policy(max_groups=COUNT))
    with ExitStack() as ending:
        apps = applications_until(cluster, ending)
        partition = TopicPartition(apps.create_topic("orders", records=10), 0)
    with Connection(cluster) as connection:
        writer = GroupWriter(connection)
        writer.look_up(GROUPS)
        for group in GROUPS:
            assert Answered() == writer.commit(group, {partition: Position(THERE)})
    return cluster


@pytest.fixture
def screen(browser: Browser, house: House, cluster: Cluster, tmp_path: Path) -> Iterator[Screen]:
    """Return a browser and a state folder of its own, before the cluster as it was at first."""
    broker, lab = house
    fleet_file = tmp_path / "fleet.yaml"
    fleet_file.write_text(
        f"clusters:\n  bulk:\n    bootstrap.servers: {broker.address}\n"
        f"    limits: {{max_groups: {COUNT}}}\n"
    )
    context = loopback_context(browser, lab)
    yield Screen(broker, lab, context, Desk(cluster, tmp_path / "state"), fleet_file)
    context.close()


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
    """The cancel button stops it between two groups; the panel says so, and how to go on."""
    screen.begin(notebook, "cancelled")
    with screen.frozen():
        notebook.review.get_by_role("button", name="Cancel").click()
        expect(notebook.review).to_contain_text("stopping after what is begun")
        notebook.screenshot("cancelling", of=notebook.review)

    ended = notebook.review.locator(".ob-notice.ob-bad")
    once = re.compile(r"\d groups: not tried: stopped by the cancel button")
    expect(ended).to_contain_text(once, timeout=60_000)
    expect(notebook.review).to_contain_text("partly applied")
    notebook.screenshot("cancelled", of=notebook.review)
    assert {Status.DONE, Status.NOT_TRIED} == screen.told()
    assert "stopped by the cancel button" == screen.last.interrupted
    notebook.run_from("applying.finish()")
    expect(notebook.page.locator(".ob-notice").last).to_contain_text("can be undone")


def is_cut_off_with_its_kernel(screen: Screen, notebook: Open) -> None:
    """After a restart in the middle the next command compares the run with the cluster."""
    screen.begin(notebook, "cut off")
    with screen.frozen():
        notebook.restart()
    assert audit.Event.INTENT is screen.last.event

    (found,) = settle(screen.desk.cluster, screen.desk.state).known
    assert "the run was cut off" == found.outcome.interrupted
    assert {Status.DONE, Status.NOT_TRIED} == screen.told()


def goes_on_without_its_page(screen: Screen, notebook: Open) -> None:
    """What is approved goes on without anybody who looks, to its recorded end."""
    screen.begin(notebook, "left alone")
    with screen.frozen():
        assert audit.Event.INTENT is screen.last.event
        notebook.page.close()

    eventually(lambda: screen.last.event is audit.Event.OUTCOME)
    assert {Status.DONE} == screen.told()
