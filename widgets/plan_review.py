"""Plan review widget: changes, findings and interactive approval."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Literal, NamedTuple, Protocol

import ipywidgets
import pandas as pd
from traitlets import Any

from toolkit.errors import OutcomeNotRecorded, PartlyApplied, ToolkitError
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted
from toolkit.plan import Action, ChangeStatus, Finding, Outcome, Plan
from toolkit.plan.approvals import is_reason
from toolkit.planning.frames.plan_frames import (
    outcome_frame,
    outcome_reasons,
    review_frame,
    summary,
)
from toolkit.planning.guardrails.registry import blocking
from toolkit.report.safe_names import sentence, visible
from widgets.background import FAILED, RUNNING, BackgroundRun, RunningJob
from widgets.filter_table import FilterTable
from widgets.live_or_static import LiveOrStatic, NoticeTone, in_html, notice, sheet, table
from widgets.next_steps import NextSteps

DELETING_ACTIONS = frozenset({Action.DELETE_OFFSETS, Action.DELETE_GROUP})
USED = "The approval is used up. Run the notebook from the top to create a new plan."
NEXT = "The cells below show verification, audit record and undo."
SHOWN_FINDINGS, SHOWN_FAILURES = 12, 50


class AppliedChange(Protocol):
    """What became of the plan."""

    @property
    def outcome(self) -> Outcome | None:
        """The result of each step."""

    @property
    def buttons(self) -> NextSteps | None:
        """What to do afterwards."""


class ApplyAction(Protocol):
    """Applies the reviewed plan, for a reason; it can be stopped between two steps."""

    @property
    def cancellable(self) -> bool:
        """Whether it can be stopped between two steps."""

    def apply_by_hand(
        self,
        reason: str,
        *,
        overrides: Collection[str],
        on_step: Callable[[object], None],
        stopped: Callable[[], str],
    ) -> AppliedChange:
        """Apply it, and stop between two steps once `stopped` says why."""


class ReviewDefaults(NamedTuple):
    """The reason and the overrides that the parameters already give, and those to tick here."""

    reason: str = ""
    overrides: Sequence[str] = ()
    offered: Sequence[str] = ()
    reason_is: Literal["required", "optional"] = "required"


def plan_review(
    plan: Plan,
    findings: Sequence[Finding],
    *,
    apply: ApplyAction | None = None,
    defaults: ReviewDefaults = ReviewDefaults(),  # noqa: B008 - it is frozen
    changes: pd.DataFrame | None = None,
) -> PlanReview:
    """
    Return the review of a plan, which applies it once it is approved by hand.

    `changes` is the plan's `review_frame`, with the times of records where they are known. Without
    `apply` there is nothing to approve here: the parameters have decided.
    """
    shown = review_frame(plan) if changes is None else changes
    return PlanReview(plan, tuple(findings), apply, defaults, shown)


class PlanReview(LiveOrStatic):
    """
    A plan to look at, approve and apply.

    `outcome` is what became of it; None until then. The approval is typed: the name of the group,
    or how many groups there are. It is good for one run, whatever is clicked how often.
    """

    outcome = Any(None, allow_none=True, read_only=True)

    def __init__(
        self,
        plan: Plan,
        findings: tuple[Finding, ...],
        apply: ApplyAction | None,
        defaults: ReviewDefaults,
        changes: pd.DataFrame,
    ) -> None:
        super().__init__()
        self.plan, self.findings, self.apply, self.defaults = plan, findings, apply, defaults
        self.ticks = {rule: _tick(rule) for rule in (defaults.offered if apply else ())}
        self.rows = FilterTable(_informative_columns(changes), caption="Every change")
        # One approval, one run: taken in Python, because a button that looks disabled still fires.
        self._token = threading.Semaphore(1)
        self._at_status = threading.Lock()
        self.outdated = ""  # why it cannot be applied any more
        self.background = BackgroundRun("Applying", cancellable=bool(apply and apply.cancellable))

    @property
    def expected_confirmation(self) -> str:
        """The text to type: the name of the group, or the number of groups."""
        groups = self.plan.group_ids
        return shown_name(groups[0]) if len(groups) == 1 else str(len(groups))

    @property
    def is_open(self) -> bool:
        lasting = blocking(self.findings, [*self.defaults.overrides, *self.ticks], plan=self.plan)
        return bool(self.plan.steps and self.apply and not lasting)

    @property
    def overrides(self) -> tuple[str, ...]:
        return tuple(rule for rule, tick in self.ticks.items() if tick.value)

    @property
    def blocked_by(self) -> tuple[Finding, ...]:
        """What blocks it, after the overrides of the parameters and those that are ticked."""
        return blocking(self.findings, [*self.defaults.overrides, *self.overrides], plan=self.plan)

    @cached_property
    def reason(self) -> ipywidgets.Text:
        return _line(
            "Reason", f"{self.defaults.reason_is}, recorded in the audit log", self.defaults.reason
        )

    @cached_property
    def confirmation_input(self) -> ipywidgets.Text:
        one = len(self.plan.group_ids) == 1
        return _line("Group id" if one else "Number of groups", "type to approve")

    @cached_property
    def button(self) -> ipywidgets.Button:
        away = any(step.action in DELETING_ACTIONS for step in self.plan.steps)
        button = ipywidgets.Button(
            description=f"Apply to cluster {visible(self.plan.cluster)}",
            button_style="danger" if away else "primary",
            disabled=True,
        )
        button.add_class("ow-apply")
        button.on_click(self.guarded(self.approve))
        return button

    found = cached_property(lambda self: ipywidgets.HTML(_findings_html(self)))
    message = cached_property(lambda _: ipywidgets.HTML())
    follow_ups = cached_property(lambda _: ipywidgets.VBox())
    head = cached_property(lambda self: ipywidgets.HTML(_head_html(self)))

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        changes = (self.rows.view,) if len(self.rows.frame) else ()
        seen = (self.head, *changes, self.found)
        if not self.is_open:
            return seen
        confirmation = ipywidgets.HTML(_confirmation_html(self))
        confirmation.add_class("ow-line")
        for box in (self.reason, self.confirmation_input):
            box.observe(self.guarded(self.show_missing), "value")
        for tick in self.ticks.values():
            tick.observe(self.guarded(self._show_ticked), "value")
        self.show_missing()
        act = ipywidgets.HBox([self.button, self.background.view])
        act.add_class("ow-bar")
        inputs = (*self.ticks.values(), confirmation, self.reason, self.confirmation_input, act)
        return (*seen, *inputs, self.message, self.follow_ups)

    def missing(self) -> str:
        """Return what keeps the plan from being applied now; "" where nothing does."""
        if not self.is_open:
            return "Nothing to approve."
        if self.outdated:
            return f"Out of date: {self.outdated}. Run all cells from the top."
        if rules := sorted({finding.rule for finding in self.blocked_by}):
            return f"Blocked by {', '.join(rules)}: tick what you override."
        if self.defaults.reason_is == "required" and not is_reason(self.reason.value):
            return "Enter a reason."
        return self._missing_name()

    def _missing_name(self) -> str:
        one = len(self.plan.group_ids) == 1
        if not self.confirmation_input.value:
            return f"Type the {'group id' if one else 'number of groups'}."
        # An invisible character cannot be typed.
        if self.confirmation_input.value not in {
            self.expected_confirmation,
            visible(self.expected_confirmation),
        }:
            return f"The {'group id' if one else 'number'} does not match."
        return ""

    def show_missing(self) -> None:
        missing = self.missing()
        self.button.disabled = bool(missing)
        self.message.value = f'<p class="ow-soft" role="status">{missing}</p>' if missing else ""

    def _show_ticked(self) -> None:
        self.found.value = _findings_html(self)
        self._show_status()
        self.show_missing()

    def approve(self) -> None:
        """Apply the plan in the background, if nothing is missing and it was not applied before."""
        if missing := self.missing():
            self.message.value = notice(f"Not applied. {missing}")
            return
        if not self._token.acquire(blocking=False):
            return  # a second click: the work of the first one continues
        self._close()
        self.background.start(self._work, then=self._show_outcome)
        self._show_status()

    def supersede(self, why: str) -> None:
        """Show that the plan is out of date and why, and disable the approval."""
        if not self.is_open or not self._token.acquire(blocking=False):
            return  # it was applied
        self.outdated = why
        self._close()
        self.message.value = notice(self.missing(), tone=NoticeTone.WARN)
        self._show_status()

    def _close(self) -> None:
        for control in (self.button, self.reason, self.confirmation_input, *self.ticks.values()):
            control.disabled = True

    def _show_status(self) -> None:
        with self._at_status:  # the last status stays
            self.head.value = _head_html(self)
            self.store()

    def _work(self, job: RunningJob) -> AppliedChange | None:
        if self.apply is None:
            return None
        done: list[object] = []

        def count(step: object) -> None:
            done.append(step)
            job.report(done=len(done), total=len(self.plan.steps))

        return self.apply.apply_by_hand(
            self.reason.value.strip(),
            overrides=self.overrides,
            on_step=count,
            stopped=job.stopped,
        )

    def _show_outcome(self) -> None:
        self.error = self.background.error
        applied: AppliedChange | None = self.background.result
        self.set_trait("outcome", applied and applied.outcome)
        self._show_status()
        if applied and self.outcome is not None:
            self.message.value = _outcome_html(self.outcome)
            if buttons := applied.buttons:
                self.follow_ups.children = [buttons.view]
        else:
            self.message.value = f'<p class="ow-soft">{USED}</p>'

    def static_html(self) -> str:
        """Return the review folded away: in a report its parts are above already."""
        tone, word = _status_badge(self)
        title = f"Plan review: {in_html(self.plan.request)}"
        rows = self.rows.static_html() if len(self.rows.frame) else ""
        return (
            f'{sheet()}<details class="ow-static"><summary>{title} '
            f'<span class="ow-badge ow-{tone}">{word}</span></summary>'
            f"{_summary_html(self)}{_findings_html(self)}{rows}</details>"
        )

    def text_form(self) -> str:
        return f"Plan review: {visible(self.plan.request)}: {summary(self.plan)}"


def _tick(rule: str) -> ipywidgets.Checkbox:
    return ipywidgets.Checkbox(
        value=False,
        description=f"Override {rule} (recorded in the audit log)",
        indent=False,
        layout={"width": "36rem"},
    )


def _line(description: str, placeholder: str, value: str = "") -> ipywidgets.Text:
    return ipywidgets.Text(
        value=value,
        description=description,
        placeholder=placeholder,
        style={"description_width": "9rem"},
        layout={"width": "36rem"},
    )


def _informative_columns(changes: pd.DataFrame) -> pd.DataFrame:
    """Return the changes without the group where there is one."""
    names = ("group", "topic", "partition", "before", "after", "distance", "time_distance")
    shown = changes[[column for column in (*names, "metadata", "why") if column in changes]]
    return shown.drop(columns="group") if len(shown["group"].unique()) == 1 else shown


def _head_html(review: PlanReview) -> str:
    tone, word = _status_badge(review)
    return (
        f'<div class="ow-head"><span class="ow-title">{in_html(sentence(review.plan.request))}'
        f'</span><span class="ow-badge ow-{tone}">{word}</span></div>{_summary_html(review)}'
    )


def _summary_html(review: PlanReview) -> str:
    plan = review.plan
    return (
        f"<p>{in_html(sentence(summary(plan)))}, on cluster <b>{in_html(plan.cluster)}</b>. "
        f'<span class="ow-soft">Fingerprint {plan.fingerprint}</span></p>'
    )


def _findings_html(review: PlanReview) -> str:
    blockers = set(review.blocked_by)
    ordered = sorted(review.findings, key=lambda f: (f not in blockers, not f.blocks))
    if not ordered:
        return '<p class="ow-soft">No findings.</p>'
    one = len(review.plan.group_ids) == 1
    shown = ordered[:SHOWN_FINDINGS]
    items = [_finding(f, is_blocking=f in blockers, tells_group=not one) for f in shown]
    more = len(ordered) - len(items)
    rest = f'<li class="ow-note">{more:,} more: see the Findings table above</li>' if more else ""
    return f'<ul class="ow-findings">{"".join(items)}{rest}</ul>'


def _confirmation_html(review: PlanReview) -> str:
    groups = review.plan.group_ids
    what = "type the group id" if len(groups) == 1 else "type the number of groups to change"
    shown = f' <span class="ow-key">{in_html(review.expected_confirmation)}</span>'
    return f"<p><b>To approve</b>, enter a reason and {what}:{shown}</p>"


def _status_badge(review: PlanReview) -> tuple[str, str]:
    """Return the status of the plan: a tone and a few words."""
    if (outcome := review.outcome) is not None:
        word = "partly applied" if outcome.changed_anything else "not applied"
        return ("good", "applied") if outcome.is_done else ("block", word)
    if review.background.state in {RUNNING, FAILED}:
        return _work_badge(review.background)
    if review.outdated:
        return "block", "out of date"
    if review.blocked_by:
        return "block", "blocked"
    if not review.plan.steps:
        return "good", "no changes"
    by_hand = review.apply is not None
    return ("passed", "awaiting approval") if by_hand else ("good", "approved by parameters")


def _work_badge(work: BackgroundRun) -> tuple[str, str]:
    error = work.error
    if work.state == RUNNING:
        return "note", "applying"
    if isinstance(error, OutcomeNotRecorded):
        return "block", "applied, not recorded"
    if isinstance(error, ToolkitError) and error.exit_code != PartlyApplied.exit_code:
        return "block", "not applied"
    return "block", "may be partly applied"


def _finding(finding: Finding, *, is_blocking: bool, tells_group: bool) -> str:
    kind = "block" if is_blocking else "passed" if finding.blocks else "note"
    word = {"block": "Blocked", "passed": "Block overridden", "note": "Note"}[kind]
    group = None if finding.group_id is None else shown_name(finding.group_id)
    about = [group if tells_group else None, finding.topic, finding.partition]
    place = in_html(" ".join(str(part) for part in about if part is not None))
    where = f' <span class="ow-soft">{place}</span>' if place else ""
    return (
        f'<li class="ow-{kind}"><b>{word} · {in_html(finding.rule)}</b>{where}<br>'
        f"{in_html(finding.why)}</li>"
    )


def _outcome_html(outcome: Outcome) -> str:
    """Return how it ended, in words, and every change that was not done."""
    title = f"{counted(outcome.counts.total(), 'change')} made, read back from the cluster"
    if not outcome.is_done:
        title = outcome.verified_summary
    whys = outcome_reasons(outcome)[:SHOWN_FAILURES]
    lines = [*whys, f"Run {outcome.run_id}. {NEXT}"]
    if not any(outcome.interrupted in why for why in whys):
        lines.insert(0, outcome.interrupted)
    tone = NoticeTone.GOOD if outcome.is_done else NoticeTone.BAD
    html = notice(title, lines, tone=tone)
    frame = outcome_frame(outcome)
    failed = frame[frame["status"] != str(ChangeStatus.DONE)].head(SHOWN_FAILURES)
    if failed.empty:
        return html
    return f'{html}<div class="ow-rows">{table(failed, caption="Changes not done")}</div>'
