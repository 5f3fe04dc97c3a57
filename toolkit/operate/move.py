"""
Move the committed offsets of a live group: hold its partitions, move, verify, release.

Each step is an ordinary plan, applied and logged like any other. Because the partitions are revoked
from their owners, every client fetches its new position. The hold ends with this process.
Partitions that cannot be held are moved by evicting their owners, see
`toolkit.operate.move_unheld`.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from toolkit.errors import Blocked
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.model import Cluster, Prefer, Snapshot
from toolkit.operate.apply import Applied, apply_with_keepers, check_approval
from toolkit.operate.keeper_handle import KeeperHandle
from toolkit.operate.reconcile_runs import InterruptedRun
from toolkit.operate.steps import OnStep
from toolkit.plan import Action, Outcome, Plan
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import PlannedMove, is_holdable
from toolkit.planning.changes.pause import plan_pause, plan_resume
from toolkit.planning.guardrails.registry import blocking, overridable
from toolkit.planning.holds.hold_context import HoldTerms
from toolkit.planning.selection.scope import scopes_of

LONGEST = timedelta(minutes=15)  # a move takes seconds; a hanging one must not hold forever


def move(
    planned: PlannedMove,
    cluster: Cluster,
    approval: Approval,
    *,
    state: Path,
    on_step: OnStep = lambda _: None,
) -> Applied:
    """
    Apply a plan that moves offsets of one live group, and return the result.

    The approved plan has earlier offsets; the plan with the offsets once the partitions are held is
    checked by the same rules. Partitions that were already paused stay paused. Raises what
    `apply_plan` raises, with nothing moved.
    """
    check_approval(planned.plan, approval)
    mover = _Mover(planned, cluster, approval, state, on_step)
    pause = mover.plan_pause()
    with ExitStack() as afterwards:
        if pause and pause.steps:
            # On any error from here on, the partitions are released: by a logged plan or, if that
            # fails, by cutting off the keeper.
            afterwards.callback(mover.cut)
            afterwards.callback(mover.let_go)
            if not mover.apply(pause).is_done:
                return Applied(mover.outcomes[0], [], tuple(mover.interrupted))
        exact = planned.replan(mover.facts())
        if exact.steps:
            mover.apply(exact)
        elif stopping := blocking(exact.findings, approval.overrides):
            raise Blocked(f"nothing was moved: {'; '.join(f.why for f in stopping)}")
        elif not mover.outcomes:
            raise Blocked("nothing to move: the offsets are already at the target")
    return Applied(mover.outcome, [], tuple(mover.interrupted))


@dataclass
class _Mover:
    """Applies the parts of one move, and collects their results."""

    planned: PlannedMove
    cluster: Cluster
    approval: Approval
    state: Path
    on_step: OnStep
    outcomes: list[Outcome] = field(default_factory=list)
    ties: list[KeeperHandle] = field(default_factory=list)
    interrupted: list[InterruptedRun] = field(default_factory=list)

    @property
    def plan(self) -> Plan:
        return self.planned.plan

    @property
    def group_id(self) -> str:
        return self.plan.group_ids[0]

    @property
    def scopes(self) -> list[str]:
        return [str(scope) for scope in scopes_of(c.partition for _, c in self.plan.changes)]

    def plan_pause(self) -> Plan | None:
        """Return a plan that holds the partitions to move; None if they cannot be held."""
        prefer = Prefer(self.plan.terms.get("prefer", Prefer.LOSSLESS))
        terms = HoldTerms(pause_for=LONGEST, prefer=prefer, for_move=True)
        facts = self.facts()
        if not is_holdable(facts, self.group_id):
            return None
        return plan_pause(facts, group=self.group_id, topics=self.scopes, terms=terms)

    def facts(self) -> Snapshot:
        topics = sorted({change.partition.topic for _, change in self.plan.changes})
        return read_plan_facts(
            self.cluster, groups=[self.group_id], topics=topics, at=self.planned.at
        )

    def apply(self, part: Plan) -> Outcome:
        words = f"{self.approval.reason} (part of: {self.plan.request})"
        # Those that are about another part of the move have no effect on this one.
        overrides = overridable(part.intent).intersection(self.approval.overrides)
        approved = replace(
            self.approval, fingerprint=part.fingerprint, reason=words, overrides=overrides
        )
        applied = apply_with_keepers(
            part, self.cluster, approved, state=self.state, on_step=self.on_step
        )
        self.outcomes.append(applied.outcome)
        self.ties += applied.ties
        self.interrupted += applied.interrupted
        return applied.outcome

    def let_go(self) -> None:
        if self.outcomes and self.outcomes[0].changed_anything:
            resume = plan_resume(self.facts(), group=self.group_id, topics=self.scopes)
            if resume.steps:
                self.apply(resume)

    def cut(self) -> None:
        for tie in self.ties:
            tie.cut()

    @property
    def outcome(self) -> Outcome:
        """The combined result; undo it by undoing the move."""
        moved = next((o for o in self.outcomes if _has_moved(o)), self.outcomes[-1])
        return replace(
            moved,
            fingerprint=self.plan.fingerprint,
            started_at=self.outcomes[0].started_at,
            finished_at=self.outcomes[-1].finished_at,
            steps=tuple(step for outcome in self.outcomes for step in outcome.steps),
            interrupted=next((o.interrupted for o in self.outcomes if o.interrupted), ""),
        )


def _has_moved(outcome: Outcome) -> bool:
    return any(step.action is Action.MOVE for step in outcome.steps)
