"""The rescue that a notebook plans from a forecast, on one cluster, or none at all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from glob import escape
from typing import NamedTuple

import pandas as pd

from toolkit.errors import UsageError
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.model import Cluster, Snapshot
from toolkit.plan import Intent, Plan
from toolkit.planning.changes.rescue import plan_rescue


class RescuePlan(NamedTuple):
    """The cluster, the facts that were read again, and the plan that was made of them."""

    cluster: Cluster
    facts: Snapshot
    plan: Plan


def plan_expiry_rescue(
    clusters: Sequence[Cluster],
    vanishing: pd.DataFrame,
    *,
    rescue: bool,
    groups: Sequence[str] = (),
) -> RescuePlan:
    """
    Plan to keep offsets from expiring; without `rescue`, a plan that does nothing.

    `groups` are names and shell patterns; without any, all groups of `vanishing` (columns cluster
    and group) are meant. The facts are read again: a forecast of many clusters takes a while.
    Raises UsageError where a rescue is wanted on several clusters.
    """
    if rescue and len(clusters) != 1:
        raise UsageError(
            f"a rescue is on one cluster, and {len(clusters)} were chosen",
            hint="name one in clusters",
        )
    cluster = clusters[0]
    ours = vanishing.loc[vanishing["cluster"] == cluster.name, "group"]
    # A group may have a name that would match others.
    names = [*groups] or sorted(map(escape, ours.unique()))
    if rescue and names:
        facts = read_plan_facts(cluster, groups=names)
        return RescuePlan(cluster, facts, plan_rescue(facts, groups=names))
    # Nobody is asked for the cluster's id: a plan without steps goes nowhere.
    place, now = (cluster.name, cluster.name), datetime.now(UTC)
    nothing = Plan(Intent.RESCUE, "rescue nothing", *place, now, ())
    return RescuePlan(cluster, Snapshot(*place, now, (), (), {}), nothing)
