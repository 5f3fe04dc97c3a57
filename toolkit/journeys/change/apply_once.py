"""Who applies a plan, once: the parameters of a notebook, or a hand at the review of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from toolkit.errors import UsageError
from toolkit.journeys.change.change_outcome import apply_decided
from toolkit.journeys.change.decision import Decision
from toolkit.model import Cluster
from toolkit.operate.interrupts import stopped_by
from toolkit.operate.steps import OnStep
from toolkit.plan import Outcome
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import PlannedMove


@dataclass
class Applying:
    """
    A plan that was decided on, on its way to the cluster.

    Where the parameters approve it, `finish` applies it. Where only an approval is missing, it may
    come from `by_hand`, and `finish` returns what became of that.
    """

    decision: Decision
    cluster: Cluster
    state: Path
    overrides: Sequence[str] = ()  # rules that an approval by hand passes over as well
    live: PlannedMove | None = None
    _outcome: Outcome | None = field(default=None, init=False)
    _is_taken: bool = field(default=False, init=False)
    _at_work: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def by_hand(self) -> ManualApproval | None:
        """What applies it with an approval by hand; None where there is nothing to approve."""
        return ManualApproval(self) if self.decision.wants_approval else None

    def finish(self) -> Outcome | None:
        """
        Return what became of the plan; None where nobody approved it.

        Applies it where the parameters did. Waits for what was begun by hand. Raises what
        `apply_plan` raises.
        """
        with self._at_work:
            if self.decision.approval is not None and not self._is_taken:
                self._is_taken = True
                self._outcome = self._apply(self.decision, lambda _: None)
            return self._outcome

    def approve(self, reason: str, on_step: OnStep) -> Outcome | None:
        """Apply the plan as approved by hand; raises UsageError the second time."""
        with self._at_work:
            if self._is_taken:
                raise UsageError("this plan was applied already", hint="make a new plan")
            self._is_taken = True
            plan = self.decision.plan
            approval = Approval(plan.fingerprint, reason, tuple(self.overrides))
            approved = replace(self.decision, approval=approval, said="approved by hand")
            self._outcome = self._apply(approved, on_step)
            return self._outcome

    def _apply(self, decision: Decision, on_step: OnStep) -> Outcome | None:
        return apply_decided(
            decision, self.cluster, state=self.state, live=self.live, on_step=on_step
        )


@dataclass(frozen=True)
class ManualApproval:
    """Applies a plan for whoever approves it by hand, past the rules of the parameters."""

    applying: Applying

    @property
    def cancellable(self) -> bool:
        """Whether it can be stopped between two steps; a move ends what it holds by itself."""
        return self.applying.live is None

    def __call__(
        self, reason: str, *, on_step: OnStep, stopped: Callable[[], str]
    ) -> Outcome | None:
        """Apply it, and stop between two steps once `stopped` says why."""
        if not self.cancellable:
            return self.applying.approve(reason, on_step)
        with stopped_by(stopped):
            return self.applying.approve(reason, on_step)
