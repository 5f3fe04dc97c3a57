"""Undo a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from toolkit.journeys.change.change_facts import read_plan_snapshot, without_missing
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.plan import MAY_HAVE_CHANGED, Action, Plan
from toolkit.planning.changes.move import PlannedMove, move_back, moves_back, plan_move
from toolkit.planning.changes.undo import (
    IfMoved,
    nothing_to_undo,
    of_groups,
    plan_undo,
    stay_committed,
)
from toolkit.planning.selection.plan_parts import list_names
from toolkit.report.run_command import NotebookCall
from toolkit.storage import audit
from toolkit.storage.state_folder import Operator
from toolkit.storage.undo_records import find_run, read_undo_record


def undo(
    access: ClusterAccess, run: str, *, groups: Sequence[str] = (), even_if_moved: bool = False
) -> PlannedChange:
    """
    Plan to restore every offset and group that a run changed, from its undo record.

    What was refused, or not tried, was not changed by the run, whoever has changed it since.
    Offsets of a group that is live now are moved back while it is live, however far it has read on
    since; those that no member reads are set back where they are. `groups`, names and patterns,
    leave out the other groups of the run. `even_if_moved` also restores offsets that another client
    has changed since. Raises NotFound for a run without a record, UsageError for a group that is
    not of the run, and ClusterUnreachable.
    """
    run = find_run(access.state, run)
    done = of_groups(_changed(access.state, run), groups)
    deleted = {step.group_id for step in done.steps if step.action is Action.DELETE_GROUP}
    facts = without_missing(read_plan_snapshot(done, access), deleted)
    parameters = {"run": run, "groups": [*groups], "even_if_moved": even_if_moved or ""}
    call = NotebookCall("70_undo", parameters)
    if moves_back(done, facts):
        back = plan_move(facts, move_back(done, run))
        notes = tuple(stay_committed(done.steps))
        if not (back.plan.steps or back.plan.findings or notes):
            notes = (nothing_to_undo(done),)
        # A topic that was deleted and created again since has other records at these offsets.
        findings = (*back.plan.findings, *notes)
        plan = replace(back.plan, topic_ids=done.topic_ids, findings=findings)
        live = PlannedMove(plan)
        return PlannedChange(access=access, plan=plan, facts=facts, live=live, call=call)
    moved = IfMoved.RESTORE if even_if_moved else IfMoved.LEAVE
    part = f" for {list_names(groups)}" if groups else ""
    request = f"undo run {run}{part}: {done.request}"
    plan = plan_undo(done, facts, moved=moved, request=request, by=Operator.here())
    return PlannedChange(access=access, plan=plan, facts=facts, call=call)


def _changed(state: Path, run: str) -> Plan:
    """Return the undo record of a run without what its outcome says was not changed."""
    done = read_undo_record(state, run)
    ended = [entry for entry in audit.read(state, {run}) if entry.event is not audit.Event.INTENT]
    if not ended:  # it was cut off: all of it may have been changed
        return done
    steps = []
    for step, result in zip(done.steps, ended[-1].steps, strict=True):
        made = {c.partition for c in result.changes if c.status in MAY_HAVE_CHANGED}
        changes = tuple(c for c in step.changes if c.partition in made)
        if changes or (not step.changes and result.status in MAY_HAVE_CHANGED):
            steps.append(replace(step, changes=changes))
    return replace(done, steps=tuple(steps))
