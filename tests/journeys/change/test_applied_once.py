"""A plan is applied once: by the parameters that approve it, or by hand."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from applications import Applications
from idle_groups import idle_group
from operators import Operator
from repeating import in_a_thread

from toolkit.errors import Blocked, ClusterUnreachable, PartlyApplied, UsageError
from toolkit.journeys.change import change_outcome
from toolkit.journeys.change.change_outcome import ChangeOutcome
from toolkit.journeys.change.decision import BY_HAND, Decision
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.reset import target
from toolkit.model import TopicPartition
from toolkit.plan import Action, ChangeStatus, Outcome, Result, StepOutcome
from toolkit.report.display import capture_outputs
from toolkit.storage.conclusion_file import FILE_VARIABLE
from toolkit.storage.plan_files import read_plan


@pytest.fixture
def change(operator: Operator, apps: Applications) -> PlannedChange:
    group, _ = idle_group(apps, 7)
    return operator.session.reset([group], to=target("to-offset", "0"))


def decided(change: PlannedChange, **given: Any) -> Decision:
    # A group that committed a moment ago is else watched for some seconds.
    return change.decide(**{"overrides": ["keeps-committing"], **given})


def approved(change: PlannedChange) -> Decision:
    """Return the plan as its fingerprint among the parameters approves it."""
    return decided(change, dry_run=False, approve=change.fingerprint, reason="why")


def offsets(operator: Operator, change: PlannedChange) -> set[int]:
    held = operator.held(*change.plan.group_ids)
    return {position.offset for positions in held.values() for position in positions.values()}


def test_by_hand_it_is_applied_once(operator: Operator, change: PlannedChange) -> None:
    """The record is as always, the cells below get the outcome, and a second hand is refused."""
    decision, steps = decided(change), list[Any]()

    outcome = decision.apply_by_hand("a replay", on_step=steps.append).outcome

    assert outcome.is_done
    assert (change.plan.group_ids, {0}) == ((steps[0].group_id,), offsets(operator, change))
    assert ["a replay", "a replay"] == [entry.run.reason for entry in operator.log]
    assert outcome is decision.apply().outcome
    with pytest.raises(UsageError, match="already applied"):
        decision.apply_by_hand("again")
    assert 2 == len(operator.log)


def test_a_blocked_plan_is_applied_with_the_override_that_is_ticked(
    operator: Operator, change: PlannedChange
) -> None:
    """The hand passes over what it was offered, which the audit log has; then nothing blocks."""
    ends = operator.session.reset(change.plan.group_ids, to=target("to-offset", "9"))
    decision = decided(ends)
    assert ("skips-unread-records",) == decision.overrides_offered

    outcome = decision.apply_by_hand("why", overrides=["skips-unread-records"]).outcome

    assert (True, {9}) == (outcome.is_done, offsets(operator, change))
    assert ("keeps-committing", "skips-unread-records") == operator.log[0].run.overrides
    assert (outcome, ()) == (decision.apply().outcome, decision.blocked_by)


def test_an_approval_by_parameters_is_applied_once(
    operator: Operator, change: PlannedChange
) -> None:
    """With the fingerprint among the parameters it is applied, once."""
    decision = approved(change)
    with pytest.raises(UsageError):
        decision.apply_by_hand("by hand")

    outcome = decision.apply().outcome

    assert outcome.is_done
    assert outcome is decision.apply().outcome
    assert 2 == len(operator.log)


def test_a_failed_apply_fails_again(operator: Operator, change: PlannedChange) -> None:
    """What was refused, and may be half done, is never shown as nothing applied."""
    decision = approved(change)
    (group,) = change.plan.group_ids
    operator.commit(group, dict.fromkeys(operator.held(group)[group], 8))

    for _ in range(2):
        with pytest.raises(Blocked, match="facts-moved"):
            decision.apply()

    assert {8} == offsets(operator, change)


def test_an_interrupted_apply_is_not_one_that_did_not_begin(
    operator: Operator, change: PlannedChange
) -> None:
    """The offset is changed; a cell that runs again says that this is not known, and stops."""
    decision = approved(change)

    def interrupt(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decision.apply(on_step=interrupt)

    with pytest.raises(PartlyApplied, match="KeyboardInterrupt: what was done by then is not"):
        decision.apply()
    assert {0} == offsets(operator, change)


def test_an_applied_change_that_cannot_be_displayed_is_applied(
    operator: Operator, change: PlannedChange, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is in place of the display, and the change is done."""
    decision = decided(change)
    decision.apply()._ipython_display_()
    unread = ClusterUnreachable("nobody answered")

    def fail(_: object) -> None:
        raise unread

    monkeypatch.setattr(change_outcome.cards, "show_record", fail)

    assert decision.apply_by_hand("a replay").outcome.is_done
    assert (BY_HAND, {0}) == (decision.message, offsets(operator, change))


def test_a_failed_manual_approval_is_no_dry_run(
    operator: Operator, change: PlannedChange, capsys: pytest.CaptureFixture[str]
) -> None:
    """The displays above and below the card have the reason instead."""
    decision = decided(change)
    decision._ipython_display_()
    outcome = decision.apply()
    outcome._ipython_display_()
    outcome.conclude()
    before = capsys.readouterr().out
    assert all(words in before for words in ("Dry run", "Nothing was applied", "Fingerprint"))
    (group,) = change.plan.group_ids
    operator.commit(group, dict.fromkeys(operator.held(group)[group], 8))

    with pytest.raises(Blocked, match="facts-moved"):
        decision.apply_by_hand("why")

    after = capsys.readouterr().out
    # As HTML and as text.
    assert (3, 6) == (after.count("'text/html'"), after.count("facts-moved"))
    assert 3 == before.count("'text/html'")
    assert not any(w in after for w in ("Dry run", "Nothing was applied", "Fingerprint"))


def test_a_resume_leaves_nothing_to_undo(change: PlannedChange) -> None:
    """It changes no offset, which is not the same as changing nothing."""
    step = StepOutcome("payments", Action.RELEASE, ChangeStatus.DONE)
    now = datetime.now(UTC)
    outcome = ChangeOutcome(change, "approved", outcome=Outcome("run", "f", now, now, (step,)))

    with capture_outputs() as shown:
        outcome._ipython_display_()

    told = " ".join(str(data["text/plain"]) for data in shown)
    assert "No committed offset was changed, so there is nothing to undo." in told
    assert "Nothing was changed" not in told


@pytest.mark.parametrize(("released", "is_held"), [([0], True), ([0, 1], False), ([], True)])
def test_after_a_live_move_nothing_is_held(
    change: PlannedChange, released: list[int], *, is_held: bool
) -> None:
    """It pauses, moves and resumes: the next step is undo, not resume."""

    def step(action: Action, *numbers: int) -> StepOutcome:
        results = (Result(TopicPartition("orders", n), ChangeStatus.DONE) for n in numbers)
        return StepOutcome("payments", action, ChangeStatus.DONE, results=tuple(results))

    now = datetime.now(UTC)
    steps = (step(Action.HOLD, 0, 1), step(Action.MOVE, 0, 1), step(Action.RELEASE, *released))
    outcome = ChangeOutcome(change, "approved", outcome=Outcome("run", "f", now, now, steps))

    assert is_held == outcome.is_held


def test_it_is_stopped_between_two_steps(operator: Operator, change: PlannedChange) -> None:
    """The worker thread starts no further step, and the record says why."""
    decision = decided(change)

    outcome = in_a_thread(
        lambda: decision.apply_by_hand("why", stopped=lambda: "stopped by a button")
    ).outcome

    with capture_outputs() as shown:
        decision.apply().conclude()  # nothing has failed
    assert "Stopped by a button. " in str(shown)
    assert "stopped by a button" == outcome.interrupted
    assert {ChangeStatus.NOT_TRIED} == {step.status for step in outcome.steps}
    assert {7} == offsets(operator, change)
    assert "stopped by a button" == operator.log[-1].interrupted


def test_the_runner_gets_the_plan_and_the_outcome_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operator: Operator, change: PlannedChange
) -> None:
    """A run that is stopped right after its apply has reported its changes and the undo."""
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "conclusion.json"))

    outcome = approved(change).apply()

    told = json.loads((tmp_path / "conclusion.json").read_text())
    counts = {"findings": 0, "planned": 1, "changed": 1, "refused": 0}
    assert (outcome.run_id, counts) == (told["undo"], told["counts"])
    assert ({0}, change.plan) == (offsets(operator, change), read_plan(tmp_path / "plan.json"))


def test_without_a_runner_nothing_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: PlannedChange
) -> None:
    """In JupyterLab, and for a Python caller, no plan file appears."""
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)

    assert decided(change).plan_file is None
    assert [] == list(tmp_path.glob("*.json"))
