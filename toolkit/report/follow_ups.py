"""What to do after a change: resume, undo, and look at the groups; each in its notebook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from toolkit.model import Snapshot
from toolkit.model.names import ExactName, shown_name
from toolkit.plan import Intent, Plan
from toolkit.planning.selection.partition_selection import scopes_of
from toolkit.report.next_step_list import ShownStep, shown_step
from toolkit.report.run_command import NotebookCall

# Moved while they are paused; a paused group is not given back by that.
WHILE_PAUSED = frozenset({Intent.RESET, Intent.UNDO, Intent.RESTORE})


def undo_call(run_id: str) -> NotebookCall:
    """Return the notebook that undoes a run."""
    return NotebookCall("70_undo", {"run": run_id})


def resume_call(group: str) -> NotebookCall:
    """Return the notebook that resumes all that is paused in a group."""
    return NotebookCall("40_pause_partitions", {"action": "resume", "groups": [ExactName(group)]})


def follow_ups(
    plan: Plan, facts: Snapshot, where: Mapping[str, object], *, undo: str, is_held: bool
) -> Iterator[ShownStep]:
    """
    Yield the steps after a plan was applied: resume, undo, and the next one.

    `facts` are those that it was made from, `undo` is the run to undo, "" if there is nothing to
    undo, and `is_held` is whether it left partitions paused.
    """
    paused = {g.group_id for g in facts.groups if g.paused} & {*plan.group_ids}
    if is_held or (paused and plan.intent in WHILE_PAUSED):
        for group in plan.group_ids if is_held else sorted(paused):
            yield shown_step(
                f"Resume the paused partitions of {shown_name(group)}",
                "Its members continue from the committed offsets.",
                resume_call(group),
                where,
                button="Resume",
            )
    if undo:
        is_live = any(g.is_live for g in facts.groups if g.group_id in plan.group_ids)
        why = "It is an ordinary plan."
        if is_live and plan.intent is Intent.DELETE_OFFSETS:
            why = "Only while the group has no members: stop its consumers first."
        yield shown_step(f"Undo run {undo}", why, undo_call(undo), where, button="Undo")
    yield _next(plan, where, is_held=is_held)


def _next(plan: Plan, where: Mapping[str, object], *, is_held: bool) -> ShownStep:
    groups = list(map(ExactName, plan.group_ids))
    if is_held:
        topics = [str(scope) for scope in scopes_of(c.partition for _, c in plan.changes)]
        # Without a value the notebook asks for one; `to-current` would have nothing to do.
        parameters = {"groups": groups, "topics": topics, "mode": "to-offset"}
        call = NotebookCall("50_reset_offsets", parameters)
        why = "Set value to the offset, or choose another mode; the group may be live."
        return shown_step("Next: move offsets", why, call, where, button="Next: move their offsets")
    if len(groups) != 1 or plan.intent is Intent.DELETE_GROUPS:
        why = "It has every change, and what was read back."
        call = NotebookCall("80_audit_review", {"groups": groups})
        return shown_step("Next: audit log", why, call, where, button="Next: see the audit log")
    call = NotebookCall("90_troubleshoot_group", {"groups": groups})
    why = "It shows whether its partitions make progress. It only reads."
    return shown_step("Next: check the group", why, call, where, button="Next: check the group")
