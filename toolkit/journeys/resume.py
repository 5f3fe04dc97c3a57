"""Give paused partitions of a live group back to its members (KIP-1249)."""

from __future__ import annotations

from collections.abc import Sequence
from glob import escape

from toolkit.errors import UsageError
from toolkit.journeys.change.change_facts import read_facts
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.planning.changes.pause import plan_resume
from toolkit.report.run_command import NotebookCall
from toolkit.storage.operator import Operator


def resume(
    access: ClusterAccess, group: str, topics: Sequence[str] = (), *, own: bool = False
) -> PlannedChange:
    """
    Plan to resume partitions of a group; without topics, all that are paused.

    What another operator holds is found by the rule foreign-hold, which can be overridden. A hold
    that the caller has just begun is its `own`, and that rule is not asked. Raises UsageError and
    ClusterUnreachable.
    """
    if not group:
        raise UsageError("no group is named", hint="name one live group")
    facts = read_facts(access, [escape(group)], topics=topics)
    plan = plan_resume(facts, group=group, topics=topics, by=None if own else Operator.here())
    asked = {"action": "resume", "group": group, "topics": topics}
    call = NotebookCall("40_pause_partitions", asked)
    return PlannedChange(access=access, plan=plan, facts=facts, call=call)
