"""Plan review widget: changes, findings and interactive approval."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import ipywidgets
import pandas as pd
from traitlets import Any

from toolkit.plan import Action, Finding, Outcome, Plan
from toolkit.plan.approvals import is_reason
from toolkit.planning.frames.review_frame import review_frame, summary
from toolkit.planning.guardrails.registry import blocking
from toolkit.report.names import visible
from widgets.background import BackgroundRun, RunningJob
from widgets.fragments import notice
from widgets.live_or_static import LiveOrStatic
from widgets.outcome import outcome_html
from widgets.review_html import findings_html, head_html, static_review, wanted_html
from widgets.rows import Rows

TAKING_AWAY = frozenset({Action.DELETE_OFFSETS, Action.DELETE_GROUP})
USED = "This plan was already applied. Run the notebook from the top to create a new plan."


class Apply(Protocol):
    """Applies the plan that is looked at, for a reason; it can be stopped between two steps."""

    @property
    def cancellable(self) -> bool:
        """Whether it can be stopped between two steps."""

    def __call__(
        self, reason: str, *, on_step: Callable[[object], None], stopped: Callable[[], str]
    ) -> Outcome | None:
        """Return what became of it."""


class Asked(NamedTuple):
    """What the parameters say already: why, and past which rules."""

    reason: str = ""
    overrides: Sequence[str] = ()


def plan_review(
    plan: Plan,
    findings: Sequence[Finding],
    *,
    apply: Apply | None = None,
    asked: Asked = Asked(),  # noqa: B008 - it is frozen
    changes: pd.DataFrame | None = None,
) -> PlanReview:
    """
    Return the review of a plan, which applies it once it is approved by hand.

    `changes` is the plan's `review_frame`, with the times of records where they are known. Without
    `apply` there is nothing to approve here: the parameters have decided.
    """
    shown = review_frame(plan) if changes is None else changes
    return PlanReview(plan, tuple(findings), apply, asked, shown)


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
        apply: Apply | None,
        asked: Asked,
        changes: pd.DataFrame,
    ) -> None:
        """Take the plan, what was found about it, and what applies it."""
        super().__init__()
        self.plan, self.findings, self.apply, self.asked = plan, findings, apply, asked
        self.blocked_by = blocking(findings, asked.overrides)
        self.rows = Rows(_telling(changes), caption="Every change")
        # One approval, one run: taken in Python, because a button that looks disabled still fires.
        self._token = threading.Semaphore(1)
        self.background = BackgroundRun("Applying", cancellable=bool(apply and apply.cancellable))

    @property
    def wanted(self) -> str:
        """What has to be typed: the name of the group, or the number of groups."""
        groups = self.plan.group_ids
        return groups[0] if len(groups) == 1 else str(len(groups))

    @property
    def is_open(self) -> bool:
        """Whether it is to be approved here."""
        return bool(self.plan.steps and self.apply and not self.blocked_by)

    @cached_property
    def reason(self) -> ipywidgets.Text:
        """Why; for the audit log."""
        return _line("Reason", "why, for the audit log", self.asked.reason)

    @cached_property
    def typed(self) -> ipywidgets.Text:
        """What was typed in place of a signature."""
        one = len(self.plan.group_ids) == 1
        return _line("Name of the group" if one else "Number of groups", "type it to approve")

    @cached_property
    def button(self) -> ipywidgets.Button:
        """Applies the plan."""
        away = any(step.action in TAKING_AWAY for step in self.plan.steps)
        button = ipywidgets.Button(
            description=f"Apply on {visible(self.plan.cluster)}",
            button_style="danger" if away else "primary",
            disabled=True,
        )
        button.add_class("ow-apply")
        button.on_click(self.guarded(self.click))
        return button

    @cached_property
    def said(self) -> ipywidgets.HTML:
        """What is still missing, and afterwards what became of it."""
        return ipywidgets.HTML()

    @cached_property
    def head(self) -> ipywidgets.HTML:
        """What the plan is, and how it stands."""
        return ipywidgets.HTML(head_html(self))

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        """Return the plan, what speaks against it, and the approval."""
        findings = ipywidgets.HTML(findings_html(self))
        changes = (self.rows.view,) if len(self.rows.frame) else ()
        seen = (self.head, *changes, findings)
        if not self.is_open:
            return seen
        wanted = ipywidgets.HTML(wanted_html(self))
        wanted.add_class("ow-line")
        for box in (self.reason, self.typed):
            box.observe(self.guarded(self.look), "value")
        self.look()
        act = ipywidgets.HBox([self.button, self.background.view])
        act.add_class("ow-bar")
        return (*seen, wanted, self.reason, self.typed, act, self.said)

    def missing(self) -> str:
        """Return what keeps the plan from being applied now; "" where nothing does."""
        if not self.is_open:
            return "Nothing to approve."
        if not is_reason(self.reason.value):
            return "Enter a reason."
        one = len(self.plan.group_ids) == 1
        if not self.typed.value:
            return f"Type the {'name of the group' if one else 'number of groups'}."
        # Nobody can type what is invisible.
        if self.typed.value not in {self.wanted, visible(self.wanted)}:
            return f"This is not the {'name of the group' if one else 'number of groups'}."
        return ""

    def look(self) -> None:
        """Say what is still missing."""
        missing = self.missing()
        self.button.disabled = bool(missing)
        self.said.value = f'<p class="ow-soft" role="status">{missing}</p>' if missing else ""

    def click(self) -> None:
        """Apply the plan in the background, if everything is there and nobody has before."""
        if missing := self.missing():
            self.said.value = notice(f"Not applied. {missing}")
            return
        if not self._token.acquire(blocking=False):
            return  # a second click of the same hand: what the first one began goes on
        for control in (self.button, self.reason, self.typed):
            control.disabled = True
        self.background.start(self._work, then=self._tell)
        self.head.value = head_html(self)

    def _work(self, job: RunningJob) -> Outcome | None:
        """Apply it and count the steps."""
        if self.apply is None:
            return None
        done: list[object] = []

        def count(step: object) -> None:
            done.append(step)
            job.say(done=len(done), total=len(self.plan.steps))

        return self.apply(self.reason.value.strip(), on_step=count, stopped=job.stopped)

    def _tell(self) -> None:
        """Show what became of it."""
        self.error = self.background.error
        self.set_trait("outcome", self.background.result)
        self.head.value = head_html(self)
        if self.outcome is not None:
            self.said.value = outcome_html(self.outcome)
        else:
            self.said.value = f'<p class="ow-soft">{USED}</p>'

    def static_html(self) -> str:
        """Return the review folded away: in a report its parts stand above already."""
        return static_review(self)

    def in_words(self) -> str:
        """Return what it is about."""
        return f"Review of {visible(self.plan.request)}: {summary(self.plan)}"


def _line(description: str, placeholder: str, value: str = "") -> ipywidgets.Text:
    return ipywidgets.Text(
        value=value,
        description=description,
        placeholder=placeholder,
        style={"description_width": "9rem"},
        layout={"width": "36rem"},
    )


def _telling(changes: pd.DataFrame) -> pd.DataFrame:
    """Return the changes without columns that say nothing, or the same in every row."""
    wanted = ("group", "topic", "partition", "before", "after", "distance", "time_distance", "why")
    shown = changes[[column for column in wanted if column in changes]]
    empty = [c for c in shown if shown[c].isna().all() or (shown[c].astype("str") == "").all()]
    same = ["group"] if len(shown["group"].unique()) == 1 else []
    return shown.drop(columns={*empty, *same} - {"before", "after"})
