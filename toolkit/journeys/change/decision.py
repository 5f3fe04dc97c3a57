"""Whether a planned change is applied, and if not, why; and applying it, once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.errors import OutOfDate, PartlyApplied, ToolkitError, UsageError
from toolkit.journeys.change.approval_parameters import ApprovalParameters
from toolkit.journeys.change.change_outcome import ChangeOutcome
from toolkit.journeys.change.checked_plan import CheckedPlan
from toolkit.journeys.change.container_command import check_keeper_outlives
from toolkit.operate.deferred_signals import stop_requested_by
from toolkit.plan import ConclusionStatus, Finding, Intent, Plan
from toolkit.plan.approvals import Approval
from toolkit.planning.guardrails.registry import (
    FINAL,
    alternatives,
    blocking,
    check_overrides,
)
from toolkit.report import change_cards as cards
from toolkit.report.live_output import LiveOutputs
from toolkit.report.notices import show_error
from toolkit.report.plan_inputs import PlanInputs
from toolkit.report.progress_line import progress_line
from toolkit.report.run_command import NotebookCall, run_command
from toolkit.report.safe_names import sentence
from toolkit.storage.conclusion_file import run_folder
from toolkit.storage.plan_files import write_plan

if TYPE_CHECKING:
    from toolkit.operate.apply_steps import OnStep

BY_HAND = "approved by hand"


@dataclass(kw_only=True, eq=False, repr=False)
class Decision:
    """
    A planned change with the approval to apply it or, without one, why it is not applied.

    It is applied once: by `apply` if the parameters approve it, or by `apply_by_hand` if an
    approval is all that is missing. A second call returns the outcome of the first.
    """

    change: CheckedPlan
    message: str
    parameters: ApprovalParameters = field(default_factory=ApprovalParameters)
    ending: ConclusionStatus = ConclusionStatus.DONE
    approval: Approval | None = None
    wants_approval: bool = False
    blocked_by: tuple[str, ...] = ()  # names of rules
    plan_file: Path | None = None  # the plan, saved in the folder of a headless run
    inputs: PlanInputs = field(init=False)
    _is_taken: bool = field(default=False, init=False)
    _at_work: threading.Lock = field(default_factory=threading.Lock, init=False)
    _shown: LiveOutputs = field(default_factory=LiveOutputs, init=False)

    def __post_init__(self) -> None:
        self.inputs = PlanInputs(self.change.access.notebook_parameters)

    @property
    def outdated(self) -> str:
        """Why this cannot be applied any more; "" if it can, or was applied."""
        return "" if self._is_taken else self.change.inputs.outdated or self.inputs.outdated

    @property
    def plan(self) -> Plan:
        """What is decided on."""
        return self.change.plan

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the guard rails found."""
        return self.change.findings

    @property
    def overrides_offered(self) -> tuple[str, ...]:
        """The rules to override in order to apply the plan; none if that is not possible."""
        is_final = not self.plan.steps or FINAL & {*self.blocked_by}
        return () if is_final else self.blocked_by

    @property
    def can_be_approved(self) -> bool:
        """Whether a person can approve it on the card, perhaps with overrides."""
        return self.wants_approval or bool(self.overrides_offered)

    @property
    def cancellable(self) -> bool:
        """Whether it can be stopped between two steps; a move resumes by itself what it holds."""
        return self.change.live is None

    @property
    def alternatives(self) -> tuple[str, ...]:
        """Other ways to the same result, for rules that cannot be overridden."""
        return alternatives(self.blocked_by)

    @property
    def command(self) -> str:
        """The command that applies exactly this plan by its notebook; "" if it has none."""
        given = self.parameters
        approval = {
            "dry_run": False,
            "approve": self.plan.fingerprint,
            "reason": given.reason or "...",
            "overrides": given.overrides,
        }
        call, cell_parameters = self.change.call, self.change.access.notebook_parameters
        if cell_parameters and cell_parameters.notebook == call.notebook:
            call = replace(call, parameters={**cell_parameters.edited, **call.parameters})
        if self.plan_file and call.takes_plan_file:
            # A saved plan stays the same while the log grows.
            call = NotebookCall(call.notebook, {"plan_file": str(self.plan_file)})
        return run_command(call, {**self.change.access.where, **approval})

    def apply(self, *, on_step: OnStep = lambda _: None, attached: bool = False) -> ChangeOutcome:
        """
        Apply the plan if it is approved, and return the outcome.

        Waits for a change that was started by hand. Holds continue in the background; `attached`
        holds end with this process until the caller detaches them. Raises what `apply_plan` raises,
        again at each further call: what a failed run changed is in the error and in the audit log;
        and UsageError, with nothing changed, for a hold that would end with its container.
        """
        with self._at_work, self.change.access.connections.in_use():
            if self._outcome.failed:
                raise self._outcome.failed
            self._check_current()
            if self.approval is not None and not self._is_taken:
                with progress_line("applying the plan"):
                    self._carry_out(self.approval, on_step, attached=attached)
            return self._outcome

    def apply_by_hand(
        self,
        reason: str,
        *,
        overrides: Collection[str] = (),
        on_step: OnStep = lambda _: None,
        stopped: Callable[[], str] = lambda: "",
    ) -> ChangeOutcome:
        """
        Apply the plan for a person who has just approved it, past the overrides of the parameters.

        `overrides` are those that the person has added. `stopped` is called between two steps and
        returns a reason to stop. Raises UsageError if it was applied already, or there is nothing
        to approve.
        """
        with self._at_work:
            if self._outcome.failed:
                raise self._outcome.failed
            if self._is_taken or not self.can_be_approved:
                raise UsageError("this plan was already applied", hint="make a new plan")
            self._check_current()
            rules = frozenset({*self.parameters.overrides, *overrides})
            approval = Approval(self.plan.fingerprint, reason, rules)
            try:
                with stop_requested_by(stopped) if self.cancellable else nullcontext():
                    self._carry_out(approval, on_step)
                self.message, self.ending, self.approval = BY_HAND, ConclusionStatus.DONE, approval
                self.wants_approval, self.blocked_by = False, ()
            finally:
                self._shown.replace()
            return self._outcome

    def approved_by_hand(self, reason: str) -> Decision:
        """Return the decision with the approval of a person who saw this plan."""
        approval = Approval(self.plan.fingerprint, reason, self.parameters.overrides)
        return Decision(
            change=self.change,
            message=BY_HAND,
            parameters=self.parameters,
            approval=approval,
        )

    def review(self) -> Any:
        """Return the card on which a person approves it in JupyterLab."""
        # The one place that knows of the widgets, which know nothing of journeys.
        from widgets.plan_review import ReviewDefaults, plan_review  # noqa: PLC0415

        given, change = self.parameters, self.change
        review = plan_review(
            change.plan,
            change.findings,
            apply=self if self.can_be_approved else None,
            defaults=ReviewDefaults(
                given.reason, given.overrides, self.overrides_offered, change.cluster.policy.reason
            ),
            changes=change.review,
        )
        for inputs in (change.inputs, self.inputs):
            inputs.on_outdated(review.supersede)
        return review

    def _check_current(self) -> None:
        if self.outdated:
            raise OutOfDate(self.outdated)

    @cached_property
    def _outcome(self) -> ChangeOutcome:
        """The outcome; nothing, until the plan is applied."""
        return ChangeOutcome(
            self.change, self.message, self.ending, self.wants_approval, self.can_be_approved
        )

    def _carry_out(self, approval: Approval, on_step: OnStep, *, attached: bool = False) -> None:
        # A plan that is only reviewed needs nothing that writes.
        from toolkit.operate.apply import apply_plan  # noqa: PLC0415
        from toolkit.operate.move import move  # noqa: PLC0415

        if self.plan.intent is Intent.PAUSE and not attached:
            check_keeper_outlives()
        self._is_taken = True
        change = self.change
        apply = partial(move, change.live) if change.live else partial(apply_plan, change.plan)
        try:
            # The policy may have become stricter since the plan was made.
            cluster = change.access.under_policy(change.facts.cluster_id)
            applied = apply(cluster, approval, state=change.access.state, on_step=on_step)
        except BaseException as exc:  # an interrupted change is not one that did not begin
            self._outcome.fail(exc if isinstance(exc, ToolkitError) else _cut_off(exc))
            raise
        finally:
            change.access.tell_changed()
        if not attached:
            # Only now: had this process been killed before, nothing would be held any more.
            for handle in applied.handles:
                handle.detach()
        self._outcome.take(applied)
        self._outcome.write_conclusion()

    def __repr__(self) -> str:
        return f"{sentence(self.message)}. Fingerprint: {self.plan.fingerprint}"

    def _ipython_display_(self) -> None:
        """Show whether the plan is applied, and how to go on; again once it is applied by hand."""
        self._shown.put(self._show, may_change=self.can_be_approved)

    def _show(self) -> None:
        if self._outcome.failed:
            show_error(self._outcome.failed)
        elif self.blocked_by:
            cards.show_blocked(self.message, self.overrides_offered, self.alternatives)
        elif self.approval:
            cards.show_approved(self.message, self.plan, self.approval.reason)
        elif self.wants_approval:
            refused = self.ending is ConclusionStatus.BLOCKED
            cell_parameters, call = self.change.access.notebook_parameters, self.change.call
            chosen = cell_parameters.chosen_below(call.parameters) if cell_parameters else {}
            cards.show_approval_missing(
                self.message, self.plan, self.command, is_refused=refused, chosen=chosen
            )
        else:
            cards.show_nothing_to_do(self.message)


def decide(change: CheckedPlan, parameters: ApprovalParameters) -> Decision:
    """
    Return whether a planned change is applied with these parameters.

    In this order: what blocks, nothing to do, a dry run, a missing approval or one of another plan,
    a missing reason. Raises OutOfDate, and UsageError for an override that cannot have an effect.
    """
    plan = change.plan
    if change.inputs.outdated:
        raise OutOfDate(change.inputs.outdated)
    check_overrides(parameters.overrides, intent=plan.intent)
    decision = Decision(
        change=change, message="approved", parameters=parameters, plan_file=_leave(plan)
    )
    if stopping := blocking(change.findings, parameters.overrides, plan=plan):
        rules = tuple(sorted({finding.rule for finding in stopping}))
        message = f"blocked by {', '.join(rules)}: nothing was changed"
        return replace(decision, message=message, ending=ConclusionStatus.BLOCKED, blocked_by=rules)
    if not plan.steps:
        return replace(decision, message="nothing to do")
    if parameters.dry_run:
        return replace(decision, message="dry run: nothing was changed", wants_approval=True)
    if refusal := parameters.refusal(plan, change.cluster.policy):
        message = f"{refusal}: nothing was changed"
        return replace(
            decision, message=message, ending=ConclusionStatus.BLOCKED, wants_approval=True
        )
    return replace(decision, approval=parameters.approval(plan))


def _cut_off(exc: BaseException) -> PartlyApplied:
    return PartlyApplied(
        f"the change was ended by {type(exc).__name__}: what was done by then is not known",
        hint="run all cells from the top, or list the changes with 'offsetbook audit list'",
    )


def _leave(plan: Plan) -> Path | None:
    """Write a plan that can be applied into the folder of this run, if there is a runner."""
    folder = run_folder()
    if folder is None or not plan.steps:
        return None
    write_plan(folder / "plan.json", plan)
    return folder / "plan.json"
