"""A plan on the facts of now, checked; what every journey that changes something returns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.journeys.change.approval_parameters import ApprovalParameters
from toolkit.journeys.change.checked_plan import CheckedPlan
from toolkit.journeys.change.decision import Decision, decide
from toolkit.plan import Intent
from toolkit.report.change_cards import AS_PLANNED, change_text, show_change, show_notices
from toolkit.report.paused_report import find_paused, show_paused
from toolkit.report.tables import show_problems
from toolkit.storage.plan_files import write_plan

if TYPE_CHECKING:
    from toolkit.journeys.change.run_notices import RunNotice


class PlannedChange(CheckedPlan):
    """A checked plan to review, decide on and apply."""

    @cached_property
    def notices(self) -> tuple[RunNotice, ...]:
        """The results of interrupted runs and orphaned holds on the cluster; found once."""
        return self.access.run_notices()

    def decide(
        self,
        *,
        dry_run: bool = True,
        approve: str = "",
        reason: str = "",
        overrides: Sequence[str] = (),
        limits: Sequence[str] = (),
    ) -> Decision:
        """
        Compare an approval with the plan; nothing is changed.

        `approve` is the plan's fingerprint, or "within limits": then `limits` say how much may be
        changed, in texts such as "max_groups=5". Raises UsageError for an override that names no
        rule or one that cannot be overridden, and for limits that cannot be read.
        """
        parameters = ApprovalParameters(dry_run, approve, reason, tuple(overrides), tuple(limits))
        return decide(self, parameters)

    def save(self, path: Path | str) -> Path:
        """Write the plan to a file from which it can be applied; raises StateFileError."""
        write_plan(Path(path), self.plan)
        return Path(path)

    def __repr__(self) -> str:
        return change_text(self.plan, self.findings, self.changes)

    def _ipython_display_(self) -> None:
        where = self.access.where
        show_notices((notice.words, notice.undo_command(where)) for notice in self.notices)
        show_problems(self.problems)
        if self.plan.intent in {Intent.PAUSE, Intent.RESUME}:
            show_paused(find_paused(self.facts, self.access.state), when=AS_PLANNED)
        show_change(self.plan, self.read, self.findings, self.review)
