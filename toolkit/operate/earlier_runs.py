"""Check earlier runs on the plan's groups: partly applied and interrupted ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.errors import Blocked
from toolkit.operate.reconcile_runs import UnresolvedRun
from toolkit.plan import Intent, Plan
from toolkit.plan.approvals import Approval
from toolkit.storage import audit

UNAFFECTED = frozenset({Intent.UNDO, Intent.PAUSE, Intent.RESUME})
CUT_OFF_RUN = "cut-off-run"  # the rule that blocks a plan until the run is reviewed


def is_finishing(plan: Plan, runs: list[audit.EarlierRun]) -> bool:
    """Return whether the last run on these groups applied a part of this plan."""
    return (
        len(runs) == 1 and runs[0].head.fingerprint == plan.fingerprint and runs[0].is_partly_done
    )


def last_runs(plan: Plan, state: Path) -> list[audit.EarlierRun]:
    """Return the relevant last runs that changed the plan's groups."""
    return audit.last_runs(state, plan.cluster_id, plan.group_ids, fingerprint=plan.fingerprint)


def refuse_over_unseen_runs(plan: Plan, unseen: Sequence[UnresolvedRun]) -> None:
    """Raise Blocked if the effect of an interrupted run on the same groups is unknown."""
    for intent, why in unseen:
        if {step.group_id for step in intent.steps} & set(plan.group_ids):
            raise Blocked(
                f"run {intent.run.run_id} was interrupted, and its effect on these groups cannot "
                f"be determined now: {why}",
                hint="run the command again when all brokers are up",
            )


def refuse_after_a_cut_off_run(
    plan: Plan, runs: list[audit.EarlierRun], approval: Approval
) -> None:
    """
    Raise Blocked if an interrupted run has changed groups of the plan.

    Running the same command again would start from the changed offsets, for example shift them
    twice. Undoing, pausing and resuming do not start from offsets; a move resumes what it paused.
    """
    if plan.intent in UNAFFECTED or CUT_OFF_RUN in approval.overrides:
        return
    for run in runs:
        if run.ended_early and run.head.fingerprint != plan.fingerprint:
            name, approved = run.head.run_id, run.head.fingerprint
            # The offsets of a live group go on: its plan cannot be applied a second time.
            finish = (
                ""
                if run.intent is Intent.MOVE
                else f"finish it with 'offsetbook apply --run {name} --approve {approved} "
                "--reason TEXT', "
            )
            raise Blocked(
                f"interrupted run {name} ({run.request}) has already changed groups of this plan; "
                "nothing was changed",
                hint=f"undo it with 'offsetbook undo {name}', {finish}or continue from the current "
                f"state by overriding {CUT_OFF_RUN}",
            )
