"""What a move releases in the end, without a broker: what it has paused, and is seen to hold."""

from dataclasses import replace
from pathlib import Path

import pytest
from facts import NOON
from held import classic, facts, holder, reader

from toolkit.errors import BrokerRefused, Interrupted, OutcomeNotRecorded, PartlyApplied
from toolkit.model import (
    Cluster,
    Group,
    GroupState,
    HoldNote,
    Problem,
    Snapshot,
    TopicPartition,
    Unread,
)
from toolkit.operate.apply import AppliedPlan
from toolkit.operate.move import _Mover
from toolkit.operate.reconcile_runs import InterruptedRun
from toolkit.plan import Action, ChangeStatus, Outcome, Plan, Result, StepOutcome
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import MoveRequest, PlannedMove, plan_move
from toolkit.planning.changes.targets import ToOffset
from toolkit.storage.audit import RunInfo, intent_entry
from toolkit.storage.state_folder import Operator

PLACE = TopicPartition("orders", 1)
READER = classic(reader("a"))


class Mover(_Mover):
    """A move that has paused a partition, and sees the group as it is told."""

    sees: Snapshot
    ends: tuple[tuple[Outcome, Snapshot], ...] = ()  # of what is applied, and what is seen then

    def facts(self, planned: PlannedMove) -> Snapshot:  # noqa: ARG002 - it is told
        return self.sees

    def apply(self, part: Plan) -> AppliedPlan:
        assert self.ends, part
        (outcome, self.sees), *rest = self.ends
        self.ends = (*rest,)
        self.outcomes.append(outcome)
        return AppliedPlan(outcome, [])


@pytest.fixture
def planned() -> PlannedMove:
    return plan_move(facts(READER), MoveRequest(ToOffset(5), "g", ("orders:1",)))


@pytest.fixture
def mover(planned: PlannedMove, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mover:
    """Return a move that does not wait."""
    monkeypatch.setattr("toolkit.operate.move.SEEN_WITHIN_S", 0)
    approval = Approval(planned.plan.fingerprint, "a test")
    mover = Mover(planned.plan, Cluster("eu", "localhost:1"), approval, tmp_path, lambda _: None)
    mover.held = frozenset({PLACE})
    return mover


def seen(*groups: Group, problem: Problem | None = None) -> Snapshot:
    return replace(facts(READER), groups=groups, problems=(problem,) if problem else ())


@pytest.mark.parametrize(
    "sees",
    [
        seen(
            replace(READER, state=GroupState.PREPARING_REBALANCE),
            problem=Problem(Unread.HELD_PARTITIONS, "the group is rebalancing", "g"),
        ),
        seen(),
    ],
    ids=["a rebalance", "the group is not listed"],
)
def test_partitions_that_cannot_be_read_count_as_paused(
    mover: Mover, planned: PlannedMove, sees: Snapshot
) -> None:
    """A move does not continue as if its partitions were read again."""
    mover.sees = sees

    with pytest.raises(BrokerRefused, match="what is paused cannot be seen"):
        mover.release(planned)
    assert {PLACE} == mover.held


def test_partitions_paused_by_another_operator_stay_paused(
    mover: Mover, planned: PlannedMove
) -> None:
    """The move has nothing left to release."""
    mover.sees = seen(classic(reader("a"), holder(1, name="bob's")))

    mover.release(planned)

    assert frozenset() == mover.held


OWN = HoldNote(Operator.here().who, Operator.here().host)
HELD = seen(classic(reader("a"), holder(1, note=OWN)))


def resumed(status: ChangeStatus, interrupted: str = "") -> Outcome:
    step = StepOutcome("g", Action.RELEASE, status, interrupted, (Result(PLACE, status),))
    return Outcome("run", "f", NOON, NOON, (step,), interrupted)


STOPPED = resumed(ChangeStatus.NOT_TRIED, "stopped by SIGINT")


@pytest.mark.parametrize(
    "ends",
    [
        ((STOPPED, HELD), (resumed(ChangeStatus.DONE), seen(READER))),
        ((STOPPED, seen(READER)),),
    ],
    ids=["it is resumed again", "it was resumed all the same"],
)
def test_a_stopped_resume_is_reported_by_its_result(
    mover: Mover, planned: PlannedMove, ends: tuple[tuple[Outcome, Snapshot], ...]
) -> None:
    """After Ctrl-C in a move, resumed partitions are not reported as paused."""
    mover.sees, mover.ends = HELD, ends

    mover.release(planned)

    (outcome,) = mover.outcomes
    assert (True, "") == (outcome.is_done, outcome.interrupted)
    assert (frozenset(), set()) == (mover.held, mover.unheld)


def test_resumed_partitions_are_not_released(mover: Mover, planned: PlannedMove) -> None:
    """Another operator has resumed them."""
    mover.sees = seen(READER)

    mover.release(planned)

    assert frozenset() == mover.held


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (None, "while the offsets were moved: whether they were is not known"),
        (ChangeStatus.DONE, "in run run: 1 done"),
    ],
)
def test_a_cut_off_move_is_not_reported_as_unmoved(
    mover: Mover, planned: PlannedMove, found: ChangeStatus | None, told: str
) -> None:
    """A second Ctrl-C ends a part at once; its result is known if the resume has found it."""
    mover.exact = planned.plan
    if found:
        run = RunInfo("run", "ana", "desk", "why", ())
        done = Outcome("run", "f", NOON, NOON, (replace_action(resumed(found).steps[0]),))
        mover.interrupted.append(InterruptedRun(intent_entry(planned.plan, run, NOON), done))

    error = mover.stopped()

    assert isinstance(error, PartlyApplied)
    assert told in error.problem


def replace_action(step: StepOutcome) -> StepOutcome:
    return replace(step, action=Action.MOVE)


def test_a_failed_resume_does_not_hide_an_earlier_error(mover: Mover, planned: PlannedMove) -> None:
    """The user has to know that the offsets are moved, and not recorded."""
    mover.sees = seen(problem=Problem(Unread.GROUPS, "no answer"))

    mover.release_at_last(planned, OutcomeNotRecorded("moved; the disk is full"))

    with pytest.raises(BrokerRefused):
        mover.release_at_last(planned, None)


def test_a_pause_that_ended_early_is_noticed_at_the_resume(
    mover: Mover, planned: PlannedMove
) -> None:
    """The application may have continued in place: no commit proves that it did not."""
    other = TopicPartition("orders", 2)
    mover.held = frozenset({PLACE, other})
    mover.sees = HELD

    assert mover.plan_release(planned)

    assert {other} == mover.unheld


@pytest.mark.parametrize(
    ("held", "told"),
    [
        (frozenset(), "nothing was moved, and what it paused is resumed"),
        (frozenset({PLACE}), "nothing was moved, but what it paused was not seen to be resumed"),
    ],
)
def test_a_stopped_move_reports_what_is_known_of_its_pause(
    mover: Mover, held: frozenset[TopicPartition], told: str
) -> None:
    """If the resume has failed as well, the keeper is ended, and its end was not seen."""
    mover.held = held

    error = mover.stopped()

    assert isinstance(error, Interrupted)
    assert told in error.problem


def test_partitions_of_another_operator_are_not_reported_as_resumed(
    mover: Mover, planned: PlannedMove
) -> None:
    """The resume was stopped, and another operator holds the partition by then."""
    mover.sees, mover.ends = HELD, ((STOPPED, seen(classic(reader("a"), holder(1)))),)

    mover.release(planned)

    assert [ChangeStatus.NOT_TRIED] == [step.status for step in mover.outcomes[0].steps]
