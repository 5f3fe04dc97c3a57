"""Journeys through the notebooks about live groups, from end to end on the sandbox."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest
from applications import Applications, eventually
from operators import Operator, once_at_rest
from repeating import in_a_thread
from runbook_places import Place
from workspaces import NOTEBOOKS, Workspace, shown_command

from toolkit.errors import UsageError
from toolkit.journeys.change.container_command import OF_A_CONTAINER
from toolkit.model import Cluster, Group, GroupState, TopicPartition
from toolkit.operate.reconcile_runs import reconcile_runs
from toolkit.report.display import capture_outputs
from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.seed import POISON, POISON_OFFSET
from toolkit.storage import audit
from toolkit.storage.fleet_file import load_fleet
from toolkit.storage.hold_files import HoldRecord, list_holds, read_hold

pytestmark = [pytest.mark.live("consumers run"), pytest.mark.starts("a broker")]

DONE, BLOCKED = ("done", 0), ("blocked", 3)
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


class LiveRoom(Workspace):
    """Where an operator runs notebooks on a sandbox of their own."""

    def seen(self, name: str) -> Group:
        (group,) = self.operator.look(name).groups
        return group

    def committed(self, name: str) -> dict[TopicPartition, int]:
        return {partition: at.offset for partition, at in self.operator.held(name)[name].items()}

    @property
    def requests(self) -> list[str]:
        """Every change that was begun."""
        return [e.request.split()[0] for e in self.operator.log if e.event == "intent"]


@pytest.fixture(scope="module")
def workspace(
    tmp_path_factory: pytest.TempPathFactory,
    own_sandbox: Sandbox,
    applications_until: Callable[[Cluster, ExitStack], Applications],
) -> Iterator[LiveRoom]:
    """Return a workspace at a seeded cluster, of which the problems are solved here."""
    folder, cluster = tmp_path_factory.mktemp("workspace"), load_fleet(own_sandbox.fleet_file)["eu"]
    with ExitStack() as ending:
        apps = applications_until(cluster, ending)
        yield LiveRoom(Operator(cluster, folder / "state"), apps, folder)


def test_past_a_poison_record(
    workspace: LiveRoom,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """J1: pause the stuck partition, move its offset past the record, resume; the others flow."""
    group, scope = "fraud-check", f"{POISON.topic}:{POISON.partition}"
    assert POISON_OFFSET == workspace.committed(group)[POISON]

    dry = workspace.cells("40", groups=[group], topics=[scope])
    assert (DONE, {}) == (dry.ended, workspace.seen(group).paused)
    for words in ("stops", "repeats", "disturbs", "survives", "alternatives"):
        assert words in dry.shown
    # A run that is the command of a container would leave a keeper behind that ends with it.
    with monkeypatch.context() as patched:
        patched.setenv(OF_A_CONTAINER, "1")
        change = workspace.operator.session.pause(group, [scope])
        with pytest.raises(UsageError, match="the container, and the keeper in it, would end"):
            change.decide().apply_by_hand("x")
    assert workspace.seen(group).paused == {}
    # Cancelled while it begins, it has paused nothing, and nobody has refused it.
    asked = iter([""])  # at the first question it goes on
    pause = once_at_rest(lambda: workspace.operator.session.pause(group, [scope])).decide()
    with capture_outputs() as shown:
        cancelled = in_a_thread(
            lambda: pause.apply_by_hand("x", stopped=lambda: next(asked, "cancelled by the user"))
        )
        cancelled._ipython_display_()
        cancelled.conclude()
    assert ({"not tried"}, {}) == ({*cancelled.results["status"]}, workspace.seen(group).paused)
    said = [words in str(shown) for words in ("Partitions are paused", "Cancelled by the user")]
    assert [False, True] == said

    eventually(lambda: workspace.seen(group).state is GroupState.STABLE)
    paused = workspace.invoke(shown_command(dry.shown), "a poison record")
    assert ("done", {POISON}) == (paused["status"], {*workspace.seen(group).paused}), paused

    # All partitions have something behind them; none but the stuck one need have something ahead.
    live = workspace.cells("50", groups=[group], topics=[POISON.topic], mode="to-earliest")
    assert (BLOCKED, True) == (live.ended, "is not paused" in live.shown)
    moved = workspace.cells(
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
    assert (DONE, 1) == (moved.ended, moved.conclusion.counts["changed"]), moved
    assert POISON_OFFSET + 1 == workspace.committed(group)[POISON]

    before = workspace.committed(group)
    standing = {"limits": LIMITS, **STANDING}
    resumed = workspace.cells(
        "40", action="resume", groups=[group], reason="it is past it", **standing
    )
    assert (DONE, {}) == (resumed.ended, workspace.seen(group).paused), resumed
    eventually(lambda: all(at > before[p] for p, at in workspace.committed(group).items()))
    assert ["pause", "pause", "reset", "resume"] == workspace.requests

    # The skip was made while the partition was paused, and is undone while the group is live.
    undo = workspace.cells("70", run=moved.conclusion.undo)
    assert (DONE, 1) == (undo.ended, undo.conclusion.counts["planned"]), undo
    assert f"Move {group}" in undo.conclusion.summary or f"move {group}" in undo.conclusion.summary
    undone = workspace.approve(shown_command(undo.shown), "it can be processed after all")
    # The application is at the record again, and commits nothing that would confirm it.
    assert ("partly-applied", 4) == undone.ended
    assert "1 not confirmed" in undone.conclusion.summary
    assert POISON_OFFSET == workspace.committed(group)[POISON]
    assert ["pause", "move", "resume"] == workspace.requests[-3:]


def test_a_replay_of_a_live_group(workspace: LiveRoom) -> None:
    """J2: a live group goes back to yesterday, 10:00, on one topic, and reads on from there."""
    group = "payments"
    topic = min({partition.topic for partition in workspace.committed(group)})
    members = {member.client_id for member in workspace.seen(group).members}
    yesterday = f"{datetime.now(UTC) - timedelta(days=1):%Y-%m-%d} 10:00Z"
    wanted = {"groups": [group], "topics": [topic], "mode": "to-datetime", "value": yesterday}

    refused = workspace.cells("50", **wanted)
    assert (BLOCKED, True) == (refused.ended, "offsetbook move" in refused.shown)
    dry = workspace.cells("50", **wanted, live="lossless")
    assert DONE == dry.ended, dry
    before = workspace.committed(group)
    moved = workspace.approve(shown_command(dry.shown), "a bug in the reader")

    assert (DONE, {}) == (moved.ended, workspace.seen(group).paused), moved
    assert moved.conclusion.undo
    assert ["pause", "move", "resume"] == workspace.requests[-3:]
    eventually(lambda: workspace.seen(group).state is GroupState.STABLE)
    assert members == {member.client_id for member in workspace.seen(group).members}
    eventually(lambda: all(at >= before[p] for p, at in workspace.committed(group).items()))
    undo = workspace.cells("70", run=moved.conclusion.undo)
    assert (DONE, True) == (undo.ended, undo.conclusion.counts["planned"] > 0), undo
    undone = workspace.approve(shown_command(undo.shown), "the reader is mended")
    assert DONE == undone.ended, undone
    assert ["pause", "move", "resume"] == workspace.requests[-3:]


def test_a_live_move_of_a_group_without_members_is_a_reset(workspace: LiveRoom) -> None:
    """As with the command: without members nothing has to be held."""
    group = "nightly-export"
    topic = min({partition.topic for partition in workspace.committed(group)})

    dry = workspace.cells("50", groups=[group], topics=[topic], mode="to-earliest", live="lossless")

    assert (DONE, True) == (dry.ended, dry.conclusion.counts["planned"] > 0), dry
    assert "reset nightly-export" in dry.conclusion.summary


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
    workspace: LiveRoom, tmp_path: Path, victim: str
) -> None:
    """Its partitions are released when nothing keeps them, and the next command reports it."""
    group, held = "fraud-check", TopicPartition(POISON.topic, (POISON.partition + 1) % 3)
    place = Place(
        tmp_path,
        {
            "OFFSETBOOK_FLEET": str(workspace.fleet_file),
            "OFFSETBOOK_STATE": str(tmp_path / "state"),
        },
    )
    page = place.page(NOTEBOOKS / "50_reset_offsets.ipynb", front=BACK_BY_ONE)
    asked = (f"-pgroups={group}", f"-ptopics={held.topic}:{held.partition}", "-preason=a test")
    eventually(lambda: workspace.seen(group).state is GroupState.STABLE)  # after the test before

    with place.running(page, "--cluster", "test", *asked) as process:
        kernel = eventually(lambda: process.poll() is not None or kernel_of(process.pid))
        assert process.poll() is None, process.communicate()[0]
        try:
            stop_when(kernel, lambda: any(hold.held for hold in holds(tmp_path / "state")))
        except psutil.NoSuchProcess:
            pytest.fail(f"the run ended before it held: {process.communicate()[0]}")
        eventually(lambda: {held} == set(workspace.seen(group).paused))
        {"runner": kernel.parent(), "kernel": kernel}[victim].kill()
        with suppress(psutil.NoSuchProcess):  # the kernel itself was killed
            kernel.resume()
        psutil.wait_procs([kernel])
        told = json.loads(process.communicate()[0])["runs"][0]

    assert told["status"] == ("no result" if victim == "runner" else "kernel-died")
    eventually(lambda: not workspace.seen(group).paused)
    before = workspace.committed(group)[held]
    eventually(lambda: workspace.committed(group)[held] > before)
    reconcile_runs(workspace.operator.cluster, tmp_path / "state")
    assert [] == audit.unfinished(tmp_path / "state")
