"""The review of a plan, without a browser."""

import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from IPython.display import display
from IPython.utils.capture import capture_output
from plans_for_review import outcome_of, plan_for

from toolkit.errors import Blocked, OutcomeNotRecorded, PartlyApplied
from toolkit.plan import (
    Action,
    ChangeStatus,
    Finding,
    Outcome,
    Plan,
    Position,
    Severity,
    StepOutcome,
)
from toolkit.report.next_step_list import ShownStep
from widgets.next_steps import NextSteps
from widgets.plan_review import PlanReview, ReviewDefaults, plan_review

VIEW = "application/vnd.jupyter.widget-view+json"
HOSTILE = "<img src=x onerror=alert(1)>"
SKIPS = Finding("skips-unread-records", Severity.BLOCK, f"5 records of {HOSTILE}", "payments")


class Applied(NamedTuple):
    """What became of a plan, and a button that undoes it."""

    outcome: Outcome
    buttons: NextSteps


@dataclass
class Hand:
    """Applies a plan, and counts how often."""

    plan: Plan
    cancellable: bool = True
    reasons: list[str] = field(default_factory=list)
    overrides: tuple[str, ...] = ()
    go_on: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None

    def apply_by_hand(
        self,
        reason: str,
        *,
        overrides: Collection[str],
        on_step: Callable[[object], None],
        stopped: Callable[[], str],
    ) -> Applied:
        """Wait until the test lets it go on."""
        self.reasons.append(reason)
        self.overrides = (*overrides,)
        assert self.go_on.wait(10)
        if self.error:
            raise self.error
        on_step(stopped())
        undo = ShownStep("Undo run r1", "why", "70_undo", {"run": "r1"}, "run", "Undo")
        buttons = NextSteps([undo], lambda _: Path("70_undo-r1.ipynb"))
        return Applied(outcome_of(self.plan), buttons)


def reviewed(plan: Plan, *findings: Finding, **defaults: Any) -> tuple[PlanReview, Hand]:
    hand = Hand(plan)
    review = plan_review(plan, findings, apply=hand, defaults=ReviewDefaults(**defaults))
    assert review.view
    return review, hand


def fill(review: PlanReview, reason: str = "why", typed: str = "payments") -> None:
    review.reason.set_state({"value": reason})
    review.confirmation_input.set_state({"value": typed})


def approve(review: PlanReview, hand: Hand) -> None:
    """Type and click, and wait until the plan was applied."""
    hand.go_on.set()
    fill(review)
    review.button.click()
    assert review.background.wait(10)


@pytest.mark.parametrize(
    ("reason", "typed"),
    [("", "payments"), ("...", "payments"), ("why", ""), ("why", "Payments"), ("why", "payments ")],
)
def test_nothing_is_applied_without_reason_and_name(plan: Plan, reason: str, typed: str) -> None:
    """A click on the button, which fires though it looks disabled, says what is missing."""
    review, hand = reviewed(plan)
    fill(review, reason, typed)

    review.button.click()

    assert ([], None, None) == (hand.reasons, review.outcome, review.error)
    assert review.button.disabled
    assert "Not applied." in review.message.value


def test_one_approval_is_one_run(plan: Plan) -> None:
    """Clicks while it runs, and afterwards, apply nothing more; the outcome is on the widget."""
    review, hand = reviewed(plan)
    fill(review)
    assert not review.button.disabled

    for _ in range(3):
        review.button.click()
    hand.go_on.set()
    assert review.background.wait(10)
    review.button.click()

    assert ["why"] == hand.reasons
    assert outcome_of(plan) == review.outcome
    assert "1 change made" in review.message.value
    assert review.error is None


def test_clicks_at_the_same_moment(plan: Plan) -> None:
    """Ten threads that click at once apply the plan once."""
    review, hand = reviewed(plan)
    fill(review)
    hand.go_on.set()
    together = threading.Barrier(10)

    def click(_: int) -> None:
        together.wait(10)
        review.approve()

    with ThreadPoolExecutor(10) as pool:
        list(pool.map(click, range(10)))
    assert review.background.wait(10)
    assert ["why"] == hand.reasons


def test_a_refusal_is_shown_in_place_and_uses_the_approval_up(plan: Plan) -> None:
    """What applying raises is on the widget, escaped, and the plan is not tried again."""
    review, hand = reviewed(plan)
    hand.error = Blocked(f"facts moved: {HOSTILE}", hint="make a new plan")

    approve(review, hand)
    review.button.click()

    assert ["why"] == hand.reasons
    assert (None, hand.error) == (review.outcome, review.error)
    assert "make a new plan" in review.background.error_box.value
    assert "<img" not in review.background.error_box.value


@pytest.mark.parametrize(
    ("error", "badge"),
    [
        (Blocked("facts moved"), "not applied"),
        (OutcomeNotRecorded("run R1 finished, disk full"), "applied, not recorded"),
        (PartlyApplied("the change was ended by KeyError"), "may be partly applied"),
        (KeyError("of ours"), "may be partly applied"),
    ],
)
def test_a_failed_apply_may_have_changed_something(
    plan: Plan, error: Exception, badge: str
) -> None:
    """The badge says that nothing was applied only if that is certain."""
    review, hand = reviewed(plan)
    hand.error = error

    approve(review, hand)

    assert f">{badge}</span>" in review.head.value


@pytest.mark.parametrize(
    ("statuses", "badge"),
    [
        ((ChangeStatus.REFUSED, ChangeStatus.NOT_TRIED), "not applied"),
        ((ChangeStatus.DONE, ChangeStatus.REFUSED), "partly applied"),
        ((ChangeStatus.FAILED, ChangeStatus.REFUSED), "partly applied"),
    ],
)
def test_a_refused_change_is_not_applied(
    plan: Plan, statuses: Sequence[ChangeStatus], badge: str
) -> None:
    """It shows "partly" only if something was changed, or may have been."""
    review, _ = reviewed(plan)
    steps = tuple(StepOutcome("payments", Action.COMMIT, status) for status in statuses)

    review.set_trait("outcome", replace(outcome_of(plan), steps=steps))

    assert f">{badge}</span>" in review.static_html()


def test_a_blocked_plan_cannot_be_applied(plan: Plan) -> None:
    """A finding that blocks leaves nothing to type or click; called all the same, it refuses."""
    review, hand = reviewed(plan, SKIPS)
    fill(review)

    review.approve()

    assert [] == hand.reasons
    assert review.button not in review.view.children
    assert "Blocked" in "".join(getattr(child, "value", "") for child in review.view.children)


def test_a_rule_is_passed_over_once_it_is_ticked(plan: Plan) -> None:
    """Until then the button applies nothing, and says what is to be ticked."""
    review, hand = reviewed(plan, SKIPS, offered=["skips-unread-records"], reason="why")
    fill(review)
    review.button.click()

    assert ([], True) == (hand.reasons, review.button.disabled)
    assert "Blocked by skips-unread-records: tick" in review.message.value
    (tick,) = review.ticks.values()
    tick.set_state({"value": True})
    assert not review.button.disabled
    assert "Block overridden" in review.found.value
    approve(review, hand)
    assert (["why"], ("skips-unread-records",)) == (hand.reasons, hand.overrides)


def test_a_rule_without_an_override_blocks(plan: Plan) -> None:
    """There is nothing to tick for it."""
    live = Finding("group-live", Severity.BLOCK, "it has members", "payments")
    review, _ = reviewed(plan, SKIPS, live, offered=["skips-unread-records"])

    assert not review.is_open
    assert not {*review.ticks.values()} & {*review.view.children}


def test_an_overridden_rule_does_not_block(plan: Plan) -> None:
    """The plan can be approved, and the override is shown."""
    review, hand = reviewed(plan, SKIPS, overrides=["skips-unread-records"], reason="why")
    approve(review, hand)

    assert ["why"] == hand.reasons
    assert "Block overridden" in review.static_html()


@pytest.mark.parametrize(
    ("groups", "expected", "typed"),
    [
        pytest.param(["payments", "billing", HOSTILE], "3", "3", id="several groups"),
        pytest.param(["a\u202eb"], "a\u202eb", "a\\u202eb", id="an invisible character"),
    ],
)
def test_the_text_to_type_for_an_approval(groups: list[str], expected: str, typed: str) -> None:
    """For several groups their number; an invisible character is spelt out."""
    review, _ = reviewed(plan_for(*groups))
    assert expected == review.expected_confirmation
    for text in ("payments", typed):
        fill(review, typed=text)
        assert bool(review.missing()) == (text == "payments")


def test_names_are_text_in_both_forms() -> None:
    """A group that is called by HTML, and findings about it, are escaped wherever they stand."""
    review, _ = reviewed(plan_for(HOSTILE), SKIPS, overrides=["skips-unread-records"])
    live = [getattr(widget, "value", "") for widget in (review.head, *review.view.children)]

    for html in (*live[:-1], review.rows.body.value, review.static_html()):
        assert "<img" not in str(html)
    assert "&lt;img src=x onerror=alert(1)&gt;" in review.head.value


def test_a_report_gets_the_static_form_only(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headless there is no widget at all; in JupyterLab it stands beside what is stored of it."""
    review = plan_review(plan, ())
    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")
    assert {"text/html", "text/plain"} == set(review._repr_mimebundle_())
    assert "view" not in vars(review)


@pytest.mark.usefixtures("shell")
def test_a_saved_notebook_has_the_outcome_of_the_plan(plan: Plan) -> None:
    """HTML beside the widget, replaced at every step."""
    review, hand = reviewed(plan)
    with capture_output() as shown:
        display(review)
        fill(review)
        review.approve()
        hand.go_on.set()
        assert review.background.wait(10)

    # No report and no other program shows a widget of which the kernel has ended.
    views = [(o.data["text/plain"], o.metadata) for o in shown.outputs if VIEW in o.data]
    assert [("", {"offsetbook_role": "live-only"})] == views
    stored = [o for o in shown.outputs if 'class="ow-stored"' in o.data.get("text/html", "")]
    assert [False, True, True] == [bool(output.update) for output in stored]
    assert 1 == len({output.transient["display_id"] for output in stored})
    for output, word in zip(
        stored, ("awaiting approval", "applying", "applied</span>"), strict=True
    ):
        assert word in output.data["text/html"]
        assert "orders" in output.data["text/plain"] + output.data["text/html"]


def test_metadata_that_changes_is_seen(plan: Plan) -> None:
    """Also where nothing else does, as where an undo brings it back."""
    (step,) = plan.steps
    change = step.changes[0]._replace(before=Position(7), after=Position(7, None, "done: 9"))
    review = plan_review(replace(plan, steps=(replace(step, changes=(change,)),)), ())

    assert "<td>set</td>" in review.rows.static_html()
