"""The outcome of a planned change: results read back, the audit entry, and how to undo it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from toolkit.errors import BrokerRefused, Interrupted, OutOfDate, ToolkitError
from toolkit.journeys.change.checked_plan import CheckedPlan
from toolkit.journeys.change.run_notices import RunNotice, notices_of
from toolkit.journeys.open_next_step import buttons_of
from toolkit.journeys.paused import paused
from toolkit.model import TopicPartition
from toolkit.operate.keeper_handle import KeeperHandle
from toolkit.plan import Action, ChangeStatus, ConclusionStatus, Intent, Outcome
from toolkit.planning.frames.plan_frames import outcome_frame
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.report import change_cards as cards
from toolkit.report.audit_report import runs_frame
from toolkit.report.conclusion import (
    applied_conclusion,
    show_conclusion,
    unapplied_conclusion,
)
from toolkit.report.display import display_widget, is_headless
from toolkit.report.live_output import LiveOutputs
from toolkit.report.next_step_list import follow_ups, resume_call, undo_call
from toolkit.report.notices import show_error
from toolkit.report.run_command import run_command
from toolkit.storage.audit import read_summaries
from toolkit.storage.conclusion_file import Conclusion, run_folder, write_conclusion

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.operate.apply import AppliedPlan
    from toolkit.report.next_step_list import ShownStep
    from widgets.next_steps import NextSteps

WITHOUT_UNDO = frozenset({Action.REJOIN, Action.HOLD, Action.RELEASE})  # change no offset


@dataclass(eq=False, repr=False)
class ChangeOutcome:
    """
    The outcome of a planned change.

    `decided` says whether it was to be applied. `outcome` is None if nothing was applied, which
    then ended as `ending_unapplied`, perhaps only because it `wants_approval`; `may_follow` says
    whether a person may still apply it, perhaps with overrides. `failed` is why that did not end:
    what was changed by then is in the audit log. `holds` are the keepers that were started.
    `notices` are earlier runs that were found interrupted meanwhile.
    Once the plan is applied by hand, it is the outcome of that, and so is all that it has shown.
    """

    change: CheckedPlan
    decided: str
    ending_unapplied: ConclusionStatus = ConclusionStatus.DONE
    wants_approval: bool = False
    may_follow: bool = False
    outcome: Outcome | None = None
    failed: ToolkitError | None = None
    holds: tuple[KeeperHandle, ...] = ()
    notices: tuple[RunNotice, ...] = ()
    _shown: LiveOutputs = field(default_factory=LiveOutputs, init=False)

    def take(self, applied: AppliedPlan) -> None:
        """Take the outcome of the plan, in place of "nothing was applied"."""
        self.outcome, self.holds = applied.outcome, tuple(applied.handles)
        self.notices = notices_of(applied.interrupted)
        self._shown.replace()

    def fail(self, error: ToolkitError) -> None:
        """Take that applying the plan failed, in place of "nothing was applied"."""
        self.failed, self.wants_approval = error, False
        self._shown.replace()

    @property
    def run_id(self) -> str:
        """The run by which it is recorded and undone; "" if nothing was applied."""
        return self.outcome.run_id if self.outcome else ""

    @property
    def is_done(self) -> bool:
        """Whether every change was made and found as planned."""
        return self.outcome is not None and self.outcome.is_done

    @property
    def changed_anything(self) -> bool:
        """Whether any change was made, or may have been."""
        return self.outcome is not None and self.outcome.changed_anything

    @property
    def can_be_undone(self) -> bool:
        """Whether there is an offset to put back: a group without one cannot come back."""
        steps = self.outcome.steps if self.outcome else ()
        undoable = (step for step in steps if step.action not in WITHOUT_UNDO)
        is_rescue = self.change.plan.intent is Intent.RESCUE  # every offset is as before
        return (
            self.changed_anything
            and not is_rescue
            and any(step.results or step.action is not Action.DELETE_GROUP for step in undoable)
        )

    @property
    def is_held(self) -> bool:
        """Whether partitions stay paused after this."""
        return bool(self._held)

    @property
    def _held(self) -> set[TopicPartition]:
        held = self._done(Action.HOLD) - self._done(Action.RELEASE)
        return {partition for _, partition in held}

    def _done(self, action: Action) -> set[tuple[str, TopicPartition]]:
        return {
            (step.group_id, result.partition)
            for step in (self.outcome.steps if self.outcome else ())
            if step.action is action
            for result in step.results
            if result.status is ChangeStatus.DONE
        }

    @property
    def ending(self) -> ConclusionStatus:
        """How the change ended."""
        if self.outcome is None:
            is_done = self.ending_unapplied is ConclusionStatus.DONE
            is_incomplete = is_done and not self.change.is_whole
            return ConclusionStatus.INCOMPLETE if is_incomplete else self.ending_unapplied
        is_done = self.outcome.is_done and self.change.is_whole
        return ConclusionStatus.DONE if is_done else ConclusionStatus.PARTLY_APPLIED

    @property
    def audit_row(self) -> pd.DataFrame:
        """Its run in the audit log, one row or none; columns as in `runs_frame`."""
        state = self.change.access.state
        return runs_frame(read_summaries(state, {self.run_id}) if self.run_id else ())

    @property
    def results(self) -> pd.DataFrame:
        """The result of each change, as read back; see `outcome_frame`."""
        return outcome_frame(self.outcome)

    @property
    def undo_command(self) -> str:
        """The command that shows what an undo would do; "" if there is nothing to undo."""
        if not self.can_be_undone:
            return ""
        return run_command(undo_call(self.run_id), self.change.access.where)

    @property
    def resume_command(self) -> str:
        """The command that shows what a resume of what was paused would do."""
        (group,) = self.change.plan.group_ids
        return run_command(resume_call(group), self.change.access.where)

    @property
    def steps(self) -> list[ShownStep]:
        """What to do after it, each in its notebook; none if nothing was applied."""
        if self.outcome is None:
            return []
        undo = self.run_id if self.can_be_undone else ""
        plan, facts, where = self.change.plan, self.change.facts, self.change.access.where
        return [*follow_ups(plan, facts, where, undo=undo, held=self._held)]

    @property
    def buttons(self) -> NextSteps | None:
        """The buttons that open these notebooks in JupyterLab; None if nothing was applied."""
        return buttons_of(self.steps) if self.steps else None

    def write_conclusion(self) -> None:
        """Report to the runner now, so that a run that is stopped next names its undo record."""
        if run_folder():
            write_conclusion(self._conclusion)

    def conclude(self) -> None:
        """
        Say in one sentence what was changed, and hand it to the runner.

        The run ends as done, blocked or partly applied. If a plan was to be applied and nothing was
        changed, raises BrokerRefused so that the run fails, or Interrupted if it was stopped; but
        not if the operator has just cancelled it in the notebook. Raises OutOfDate.
        """
        if (why := self.change.inputs.outdated) and self.outcome is None:
            raise OutOfDate(why)
        self._put(lambda: show_conclusion(self._conclusion))
        if self.outcome is None or self.is_done or self.changed_anything:
            return
        if not self.outcome.interrupted:
            why = f"nothing was changed: {self.outcome.summary}"
            raise BrokerRefused(why, hint="make a new plan")
        if run_folder():
            raise Interrupted(f"nothing was changed: {self.outcome.interrupted}")

    def _put(self, show: Callable[[], None]) -> None:
        """Show something that is replaced once the plan is applied by hand."""
        self._shown.put(show, may_change=self.outcome is None and self.may_follow)

    @property
    def _conclusion(self) -> Conclusion:
        plan, findings, ending = self.change.plan, len(self.change.findings), self.ending
        if self.outcome:
            return applied_conclusion(plan, self.outcome, findings=findings, ending=ending)
        why, asks = str(self.failed or self.decided), self.wants_approval
        return unapplied_conclusion(
            plan, why, findings=findings, ending=ending, wants_approval=asks
        )

    def __repr__(self) -> str:
        if self.outcome is None:
            return f"Nothing was applied: {self.decided}"
        return f"{self.outcome.summary}; run {self.run_id}"

    def _ipython_display_(self) -> None:
        self._put(self._show)
        if not is_headless() and (buttons := self.buttons):
            display_widget(buttons)

    def _show(self) -> None:
        where = self.change.access.where
        if self.failed:
            show_error(self.failed)
            return
        if why := self.change.inputs.outdated:
            which = f"run {self.run_id}: its" if self.run_id else "nothing was applied: this"
            cards.show_notices([(f"{which} plan is out of date: {why}", "")])
        cards.show_notices((notice.words, notice.undo_command(where)) for notice in self.notices)
        cards.show_outcome(self.outcome)
        if self.outcome and self.change.plan.intent in {Intent.PAUSE, Intent.RESUME}:
            paused(self.change.access, self.change.plan.group_ids[0])._ipython_display_()
        cards.show_record(self.audit_row)
        if self.is_held:
            cards.show_resume(HoldTerms.of(self.change.plan).words, self.resume_command)
        else:
            cards.show_undo(self.run_id, self.undo_command, has_changed=self.changed_anything)
