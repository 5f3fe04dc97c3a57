"""Give paused partitions of a live group back to its members (KIP-1249)."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import UsageError
from toolkit.journeys.change.change_facts import read_facts
from toolkit.journeys.change.checked_plan import CheckedPlan
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.model.names import ExactName
from toolkit.planning.changes.pause import plan_resume
from toolkit.planning.selection.partition_selection import scopes_of
from toolkit.report.run_command import NotebookCall
from toolkit.storage.state_folder import Operator


def resume(access: ClusterAccess, group: str, topics: Sequence[str] = ()) -> PlannedChange:
    """
    Plan to resume partitions of a group; without topics, all that are paused.

    What another operator holds is found by the rule foreign-hold, which can be overridden. Raises
    UsageError and ClusterUnreachable.
    """
    if not group:
        raise UsageError("no group is named", hint="name one live group")
    facts = read_facts(access, [ExactName(group)], topics=topics)
    plan = plan_resume(facts, group=group, topics=topics, by=Operator.here())
    parameters = {"action": "resume", "groups": [group], "topics": topics}
    call = NotebookCall("40_pause_partitions", parameters)
    return PlannedChange(access=access, plan=plan, facts=facts, call=call)


def resume_paused(pause: CheckedPlan) -> PlannedChange:
    """Plan to resume paused partitions, which another operator may have paused again since."""
    (group,) = pause.plan.group_ids
    scopes = scopes_of(change.partition for _, change in pause.plan.changes)
    return resume(pause.access, group, [str(scope) for scope in scopes])
