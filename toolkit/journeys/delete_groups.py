"""Delete idle groups with all that they committed (KIP-229)."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.journeys.change.change_facts import read_topics
from toolkit.journeys.change.group_choice import GroupChoice
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.model.names import EVERY_NAME
from toolkit.model.times import parse_duration
from toolkit.planning.changes.delete_groups import plan_delete_groups
from toolkit.report.run_command import NotebookCall
from toolkit.storage.sightings import empty_since, record_empty


def delete_groups(
    access: ClusterAccess, groups: Sequence[str] | GroupChoice, *, empty_for: str = ""
) -> PlannedChange:
    """
    Plan to delete groups; with `empty_for` ("30d"), only those that were unused for that long.

    `groups` are names and shell patterns; what only matches a pattern and is live or protected is
    left out, what is named so blocks. With an age the whole cluster is read and recorded in the
    state directory: an earlier reading shows a group's age only if it covered every group. Raises
    UsageError, NotFound, ClusterUnreachable, and StateFileError if nothing can be recorded.
    """
    choice = GroupChoice.of(groups)
    age = parse_duration(empty_for) if empty_for else None
    facts = read_topics(access, (EVERY_NAME, *choice.names) if age else choice.names)
    if age:
        record_empty(access.state, facts)
    chosen = choice.narrow(facts)
    plan = plan_delete_groups(
        chosen.facts,
        groups=chosen.names,
        empty_for=age,
        sightings=empty_since(access.state, facts.cluster_id),
        protected=access.under_policy(facts.cluster_id).policy.protected_groups,
    )
    call = NotebookCall("61_delete_groups", {"groups": choice.names, "empty_for": empty_for})
    return PlannedChange(
        access=access,
        plan=chosen.with_lacking(plan),
        facts=chosen.facts,
        skipped=chosen.skipped,
        call=call,
    )
