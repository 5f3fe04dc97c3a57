"""What a notebook tells the program that runs it of a change."""

import pytest
from guardrail_cases import ORDERS, plan, step

from toolkit.plan import (
    Action,
    Change,
    ChangeStatus,
    ConclusionStatus,
    Outcome,
    Position,
    Result,
    StepOutcome,
)
from toolkit.report.conclusion import applied_conclusion, unapplied_conclusion
from toolkit.runner.past_runs import _changed

PLAN = plan(step(Change(ORDERS, Position(2), Position(7))))


@pytest.mark.parametrize(
    ("status", "counts", "undo", "shown"),
    [
        (ChangeStatus.DONE, (1, 0), "a-run", "1; undo a-run"),
        (ChangeStatus.NOT_CONFIRMED, (1, 0), "a-run", "1; undo a-run"),
        (ChangeStatus.FAILED, (1, 0), "a-run", "1; undo a-run"),
        (ChangeStatus.REFUSED, (0, 1), None, "nothing"),
        (ChangeStatus.NOT_TRIED, (0, 0), None, "nothing"),
    ],
)
def test_a_possible_change_counts_as_a_change(
    status: ChangeStatus, counts: tuple[int, int], undo: str | None, shown: str
) -> None:
    """A change that failed after its request is not reported as refused."""
    result = Result(ORDERS, status)
    ended = StepOutcome("g", Action.COMMIT, status, "", (result,))
    outcome = Outcome("a-run", PLAN.fingerprint, PLAN.made_at, PLAN.made_at, (ended,))

    told = applied_conclusion(PLAN, outcome, findings=0, ending=ConclusionStatus.DONE)

    assert (counts, undo) == ((told.counts["changed"], told.counts["refused"]), told.undo)
    assert (undo is not None) is ("read back" in told.summary)
    run = {"counts": told.counts, "undo": told.undo, "parameters": {"dry_run": False}}
    assert shown == _changed({**run, "status": "partly-applied"})


def test_a_plan_that_was_not_applied_changed_nothing() -> None:
    """Even if it ended incomplete, which alone would leave that open."""
    told = unapplied_conclusion(
        PLAN, "a dry run", findings=0, ending=ConclusionStatus.INCOMPLETE, wants_approval=False
    )

    run = {"counts": told.counts, "undo": None, "parameters": {"dry_run": False}}
    assert "nothing" == _changed({**run, "status": "incomplete"})
