"""Keep committed offsets of idle groups from expiring (KIP-211)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from toolkit.journeys.change.change_facts import read_topics
from toolkit.journeys.change.group_choice import GroupChoice
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.group_settings import read_expiry_settings
from toolkit.model import Snapshot
from toolkit.model.names import ExactName
from toolkit.model.plurals import counted
from toolkit.plan import Finding, Intent, Plan, Severity
from toolkit.planning.changes.rescue import leave_out_lost_groups, plan_rescue
from toolkit.report.run_command import NotebookCall

if TYPE_CHECKING:
    from toolkit.report.fleet_report import ExpiryReport


def rescue(
    access: ClusterAccess, groups: Sequence[str] = (), *, forecast: ExpiryReport | None = None
) -> PlannedChange:
    """
    Plan to restart the retention timer of idle groups.

    `groups` are names and shell patterns; without any, all groups of a `forecast` on this cluster
    are meant, and the plan says what it could not read. The facts are read again: a forecast takes
    a while. Raises UsageError if no group is named, and ClusterUnreachable.
    """
    names, lacking = list(groups), tuple[Finding, ...]()
    if not names and forecast is not None:
        rows, lacking = forecast.found.rows, _lacking(forecast, access.cluster.name)
        here = rows.loc[rows["cluster"] == access.cluster.name, "group"]
        names = sorted(map(ExactName, here.unique()))
        if not names:
            return _nothing(access, lacking)
    choice = GroupChoice.of(names)
    facts = read_topics(access, choice.names)
    parameters = {"clusters": [access.cluster.name], "rescue": True, "groups": choice.names}
    call = NotebookCall("30_expiry_forecast", parameters)
    with connected(access.cluster) as connection:
        retention_s = read_expiry_settings(connection).retention_s
    plan = plan_rescue(facts, groups=choice.names, retention_s=retention_s)
    if not groups and forecast is not None:
        plan = leave_out_lost_groups(plan)
    plan = replace(plan, findings=(*plan.findings, *lacking))
    return PlannedChange(access=access, plan=plan, facts=facts, call=call)


def _lacking(forecast: ExpiryReport, cluster: str) -> tuple[Finding, ...]:
    """Return what the forecast of a cluster could not read: offsets that expire may be among it."""
    problems = forecast.fleet.frames.problems
    here = problems[problems["cluster"] == cluster]
    if here.empty:
        return ()
    why = f"the forecast has {counted(len(here), 'read error')}, such as {here['problem'].iloc[0]}"
    return (Finding("incomplete", Severity.NOTE, why),)


def _nothing(access: ClusterAccess, lacking: tuple[Finding, ...]) -> PlannedChange:
    """Return an empty plan, which needs no request to a broker."""
    place, now = (access.cluster.name, access.cluster.name), datetime.now(UTC)
    known = "no offset is known to expire" if lacking else "no offset expires"
    plan = Plan(Intent.RESCUE, f"rescue nothing: {known}", *place, now, (), lacking)
    return PlannedChange(access=access, plan=plan, facts=Snapshot(*place, now, (), (), {}))
