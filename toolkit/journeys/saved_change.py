"""A plan that was saved, or that of an interrupted run, on the facts of now."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from toolkit.journeys.change.change_facts import read_plan_snapshot
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.plan import Intent, Plan
from toolkit.planning.changes.move import PlannedMove
from toolkit.report.run_command import NotebookCall
from toolkit.storage.plan_files import read_plan

NOTEBOOKS = {Intent.RESET: "50_reset_offsets", Intent.COPY: "52_copy_offsets"}


def saved_change(access: ClusterAccess, plan_file: Path | str) -> PlannedChange:
    """Read a plan file, to apply it as it is; raises StateFileError and ClusterUnreachable."""
    plan = read_plan(Path(plan_file))
    parameters = {"plan_file": str(plan_file)}
    call = NotebookCall(NOTEBOOKS.get(plan.intent, ""), parameters, takes_plan_file=True)
    return change_of(plan, access, call)


def change_of(
    plan: Plan,
    access: ClusterAccess,
    call: NotebookCall = NotebookCall(),  # noqa: B008 - it is frozen
) -> PlannedChange:
    """
    Return an earlier plan with the current facts and, for a live group, how it is moved.

    Raises ClusterUnreachable.
    """
    # The cluster name in a file may be wrong: the shown and recorded one is that of the access.
    plan = replace(plan, cluster=access.cluster.name)
    is_by_terms = bool(plan.steps and plan.terms and plan.intent is Intent.MOVE)
    live = PlannedMove(plan) if is_by_terms else None
    facts = read_plan_snapshot(plan, access, at=live.at if live else None)
    if live and not any(group.is_live for group in facts.groups):
        live = None
    return PlannedChange(access=access, plan=plan, facts=facts, live=live, call=call)
