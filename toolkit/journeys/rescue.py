"""Keep committed offsets of idle groups from expiring (KIP-211)."""

from __future__ import annotations

from collections.abc import Sequence
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
from toolkit.plan import Intent, Plan
from toolkit.planning.changes.rescue import plan_rescue
from toolkit.report.run_command import NotebookCall

if TYPE_CHECKING:
    import pandas as pd


def rescue(
    access: ClusterAccess, groups: Sequence[str] = (), *, forecast: pd.DataFrame | None = None
) -> PlannedChange:
    """
    Plan to restart the retention timer of idle groups.

    `groups` are names and shell patterns; without any, all groups of a `forecast` (columns cluster
    and group) on this cluster are meant. The facts are read again: a forecast takes a while. Raises
    UsageError if no group is named, and ClusterUnreachable.
    """
    names = list(groups)
    if not names and forecast is not None:
        here = forecast.loc[forecast["cluster"] == access.cluster.name, "group"]
        names = sorted(map(ExactName, here.unique()))
        if not names:
            return _nothing(access)
    choice = GroupChoice.of(names)
    facts = read_topics(access, choice.to_read)
    parameters = {"clusters": [access.cluster.name], "rescue": True, "groups": choice.names}
    call = NotebookCall("30_expiry_forecast", parameters)
    with connected(access.cluster) as connection:
        retention_s = read_expiry_settings(connection).retention_s
    plan = plan_rescue(facts, groups=choice.names, retention_s=retention_s)
    return PlannedChange(access=access, plan=plan, facts=facts, call=call)


def _nothing(access: ClusterAccess) -> PlannedChange:
    """Return an empty plan, which needs no request to a broker."""
    place, now = (access.cluster.name, access.cluster.name), datetime.now(UTC)
    plan = Plan(Intent.RESCUE, "rescue nothing: no offset expires", *place, now, ())
    return PlannedChange(access=access, plan=plan, facts=Snapshot(*place, now, (), (), {}))
