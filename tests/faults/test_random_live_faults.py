"""
Live groups on three brokers, while random things break: no paused record is delivered, none lost.

Who pauses and moves comes through proxies, the applications past them. Seeds: `test_random_faults`.
"""

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from applications import eventually
from brokers import UNCLOSED_SOCKETS
from consumer_processes.analysis import delivered_during, first_after
from fault_runs import FaultRun, Work, make_a_test_of_each_seed, note
from faulty_proxy import Trouble
from holding import Holding, kill_keepers, until_ended
from live_groups import COMMITS_SOON, EACH_PROTOCOL, LiveGroup, together
from operators import Operator
from three_brokers import ThreeBrokers

from toolkit.errors import ToolkitError
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.doctor.cluster_checks import check_cluster
from toolkit.kafka_io.client.shared_connections import close_all
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter
from toolkit.operate.keeper_handle import has_live_keeper
from toolkit.operate.move import move
from toolkit.plan import Action, ChangeStatus, Outcome, StepOutcome
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import MoveRequest, plan_move
from toolkit.planning.changes.targets import ToOffset
from toolkit.storage.hold_files import HoldStatus, read_hold

pytestmark = [pytest.mark.faults("random faults"), UNCLOSED_SOCKETS]

BOUND_S = 180  # a capture waits for members, and a move for 35 s of their commits
FIRST_READ_S = 30  # in which a healthy group reads everything again
RATE = 2


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "run" in metafunc.fixturenames:
        make_a_test_of_each_seed(metafunc, live=True)


@pytest.fixture(scope="module")
def live_groups(
    here: ThreeBrokers, _live_groups: Callable[..., LiveGroup]
) -> Callable[[str], LiveGroup]:
    """Return a function that returns the live group of a kind, which all runs share."""

    def group(kind: str) -> LiveGroup:
        live = _live_groups(here.direct, kind, replicas=((1, 2, 3),), per_second=RATE)
        reads_everything(live)
        return live

    return group


def reads_everything(live: LiveGroup) -> None:
    """
    Wait until every partition is delivered; a consumer that has lost one for good is replaced.

    librdkafka asks for the committed offset of what it is assigned once only: where the
    coordinator is lost just then, the partition is never read (confluentinc/librdkafka#5586).
    """
    applications, since = live.applications, time.time()

    def are_read() -> bool:
        recent = [one for one in applications.deliveries() if one.at > since]
        return {*live.places} <= {one.place for one in recent}

    eventually(lambda: are_read() or time.time() > since + FIRST_READ_S)
    if not are_read():
        for name in ("a", "b"):
            if name in applications.running:
                applications.stop(name)
            applications.start(name, **COMMITS_SOON)
    live.until_at_rest()


@dataclass
class Ending:
    """What was said of a change: its outcome, or the error with which it ended."""

    outcome: Outcome | None
    error: str
    took_s: float

    @property
    def is_done(self) -> bool:
        return self.outcome is not None and self.outcome.is_done

    @property
    def words(self) -> str:
        """What became of it, for the table."""
        if self.outcome is None:
            return "an error"
        if self.is_done:
            return "done"
        statuses = {step.status for step in self.outcome.steps}
        return "not confirmed" if ChangeStatus.NOT_CONFIRMED in statuses else "in part"


def ask(plan: Callable[[], PlannedChange]) -> Ending:
    """Plan and apply, as every front end does."""
    began = time.monotonic()
    try:
        change = plan()
        decided = change.decide(dry_run=False, approve=change.fingerprint, reason="a test")
        done = decided.apply()
    except ToolkitError as exc:
        return Ending(None, str(exc), time.monotonic() - began)
    if done.outcome is None:
        return Ending(None, decided.blocked_by or "nothing to do", time.monotonic() - began)
    return Ending(done.outcome, "", time.monotonic() - began)


def test_a_seed(
    run: FaultRun,
    here: ThreeBrokers,
    live_groups: Callable[[str], LiveGroup],
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    """Reports are true; afterwards the group reads everything, and no record is missing."""
    live = live_groups(run.live_kind)
    began = time.time()
    with until_ended(live, tmp_path) as past:  # an operator past the proxies
        held = Holding(Operator(here.cluster, past.operator.state), live)
        act = pause if run.work is Work.PAUSE else move_live
        ending = act(run, here, held, past)
        eventually(lambda: frozenset() == past.paused)
        reads_everything(live)
        held.live.applications.until_nothing_is_missing(held.live.places, since=began)
        assert held.operator.log or not ending.outcome  # which verifies the log
    note(pytestconfig, run, ending.words, ending.took_s)


def test_all_brokers_are_restarted_one_after_the_other(
    here: ThreeBrokers, live_groups: Callable[[str], LiveGroup], tmp_path: Path
) -> None:
    """A hold moves from coordinator to coordinator, and no paused record is delivered."""
    with ExitStack() as ending:
        all_held = [
            ending.enter_context(until_ended(live_groups(kind), tmp_path)) for kind in EACH_PROTOCOL
        ]
        began = time.time()
        together(Holding.pause, all_held)
        here.restart_each()
        for held in all_held:
            assert eventually(lambda held=held: held.places == held.paused)
            assert [] == held.leaked(), held.evidence
            assert "held" == held.record.words
        together(Holding.resume_in_place, all_held)
        for held in all_held:
            reads_everything(held.live)
            held.live.applications.until_nothing_is_missing(held.live.places, since=began)


def test_keepers_are_killed_with_a_broker(
    here: ThreeBrokers, live_groups: Callable[[str], LiveGroup], tmp_path: Path
) -> None:
    """Without the state folder, from elsewhere, it is shown what is still held, and resumed."""
    began, live = time.time(), live_groups(EACH_PROTOCOL[0])
    with until_ended(live, tmp_path) as held:
        held.pause()
        coordinator = held.group.coordinator_id
        assert coordinator
        here.kill(coordinator - 1)
        kill_keepers(held.path)
        elsewhere = held.elsewhere()

        assert eventually(lambda: held.places == elsewhere.paused)
        (row,) = (one for one in check_cluster(here.direct) if one.check == "paused partitions")
        assert ("ok", f"2 partitions of {live.group}") == (row.status, row.finding)
        paused = elsewhere.operator.session.paused().rows
        assert ["a test"] * 2 == [*paused["reason"]]
        assert [] == held.leaked()
        ending = ask(lambda: elsewhere.operator.session.resume(live.group))
        assert ending.is_done, ending
        assert frozenset() == elsewhere.paused
        here.heal()
        reads_everything(live)
        held.live.applications.until_nothing_is_missing(held.live.places, since=began)


def test_a_move_whose_response_is_lost(
    here: ThreeBrokers,
    live_groups: Callable[[str], LiveGroup],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is resumed all the same; its result is reported, and seen in what is read."""
    live, write = live_groups(EACH_PROTOCOL[0]), GroupWriter.move

    def write_and_lose(writer: GroupWriter, *asked: Any) -> Any:
        answer = write(writer, *asked)
        for proxy in here.proxies.values():
            proxy.begin(Trouble.SWALLOWS)
        return answer

    def heal_after(step: StepOutcome) -> None:
        if step.action is Action.MOVE:
            for proxy in here.proxies.values():
                proxy.heal()

    monkeypatch.setattr(GroupWriter, "move", write_and_lose)
    with until_ended(live, tmp_path) as past:
        held = Holding(Operator(here.cluster, past.operator.state), live)
        eventually(lambda: min(held.committed().values()) > 5)
        began = time.time()
        request = MoveRequest(ToOffset(3), live.group, (f"{live.topics[0]}:1,4",))
        planned = plan_move(held.operator.facts(live.group, topics=live.topics), request)
        approval = Approval(planned.plan.fingerprint, "a test")
        outcome = move(
            planned, here.cluster, approval, state=held.operator.state, on_step=heal_after
        ).outcome
        close_all()
        assert "no answer" in outcome.interrupted
        eventually(lambda: frozenset() == past.paused)
        reads_everything(live)
        log = live.applications.deliveries()
        back = {one.place for one in log if one.at > began and one.offset == 3}
        assert held.places == back & held.places
        results = [r for s in outcome.steps if s.action is Action.MOVE for r in s.results]
        assert held.places == {one.partition for one in results}
        assert {one.status for one in results} <= {ChangeStatus.DONE, ChangeStatus.NOT_CONFIRMED}


def pause(run: FaultRun, here: ThreeBrokers, held: Holding, past: Holding) -> Ending:
    """What is said to be held is not delivered until it is resumed, or the hold is said to end."""
    scope = f"{held.live.topics[0]}:1,4"
    session = held.operator.session
    with run.faults_at(here):
        ending = ask(lambda: session.pause(held.live.group, [scope]))
        held.confirmed = time.time()
    assert ending.took_s < BOUND_S, (run, ending)
    close_all()
    record = read_hold(past.path)
    if ending.is_done:
        assert record, run
        if record.status is HoldStatus.HELD:  # else it is told why it ended
            assert eventually(lambda: past.places == past.paused or has_ended(past)), run
        if not has_ended(past):
            assert [] == held.leaked(), (run, past.evidence)
    resume(held, past)
    return ending


def has_ended(past: Holding) -> bool:
    """Whether the keeper has said that it holds nothing any more."""
    return past.record.status is HoldStatus.ENDED


def resume(held: Holding, past: Holding) -> None:
    """Resume whatever is held: once everything works again, that is done."""
    if not past.paused and not has_live_keeper(past.path):
        return
    # Again, where it is refused because the group rebalances.
    eventually(
        lambda: (
            ask(lambda: held.operator.session.resume(held.live.group)).is_done or not past.paused
        )
    )
    eventually(lambda: not has_live_keeper(past.path))


def move_live(run: FaultRun, here: ThreeBrokers, held: Holding, past: Holding) -> Ending:
    """What is said to be moved is read from there; what is said not to be moved is not."""
    scope, target = f"{held.live.topics[0]}:1,4", 3
    session = held.operator.session
    began = time.time()
    with run.faults_at(here):
        ending = ask(lambda: session.move(held.live.group, to=ToOffset(target), topics=[scope]))
    assert ending.took_s < BOUND_S, (run, ending)
    close_all()
    resume(held, past)
    reads_everything(held.live)
    log = held.live.applications.deliveries()
    again = {
        one.place
        for one in delivered_during(log, held.places, began, time.time())
        if one.offset == target
    }
    moves = [
        result
        for step in (ending.outcome.steps if ending.outcome else ())
        for result in step.results
        if step.action == "move"
    ]
    for result in moves:
        if result.status is ChangeStatus.DONE:
            assert result.partition in again, (run, ending)
        if result.status in {ChangeStatus.REFUSED, ChangeStatus.NOT_TRIED}:
            assert result.partition not in again, (run, ending)
    if ending.outcome is None:
        assert not again, (run, ending)
    assert all(first_after(log, place, began) for place in held.live.places)
    return ending
