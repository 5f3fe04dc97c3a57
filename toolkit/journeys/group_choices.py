"""
The groups of a cluster for a selection, with their lag: all, or those that can be deleted.

Of the latter, when they expire by themselves; of the others, why they stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.health import health
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.group_settings import read_expiry_settings
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model.names import named
from toolkit.planning.changes.delete_groups import why_not_deleted
from toolkit.planning.diagnosis.group_health import Health
from toolkit.planning.expiry.expiry_forecast import last_expiry
from toolkit.planning.frames.snapshot_frames import groups_with_lag
from toolkit.report.deletable_groups import DeletableGroups
from toolkit.report.display import is_headless
from toolkit.report.health_report import HealthReport
from toolkit.report.notices import show_read_errors
from toolkit.report.progress_line import progress_line

EXPIRY = "offsets expire about"  # how the column is headed


def choices(
    access: ClusterAccess,
    groups: str | Sequence[str] = (),
    *,
    only_one: bool = False,
    plan_file: str = "",
) -> pd.DataFrame:
    """
    Return the groups of a cluster to choose from; no row where `groups` has what is needed.

    That is the name of a group for what is about `only_one`, else any name or pattern; with a
    `plan_file` no group is needed. Columns: those of `groups_frame`, lag, unknown_lag_partitions
    and, in an interactive notebook, health: a `Health`, of which the worst is the largest.
    """
    names = [groups] if isinstance(groups, str) else groups
    if plan_file or (any(names) and (not only_one or _is_there(access, names))):
        return pd.DataFrame({"group": pd.Series(dtype="str")})
    with progress_line("reading the groups to choose from, twice"):
        if is_headless():  # a report shows only names, and needs no second sample
            facts = read_snapshot(access.cluster)
            found = groups_with_lag(facts)
        else:
            report = health(access)
            facts = report.facts
            found = groups_with_lag(facts).merge(_health_words(report), how="left", on="group")
    show_read_errors(facts)  # a group that is not listed is not among those to choose from
    return found


def deletable_groups(access: ClusterAccess, groups: Sequence[str] = ()) -> DeletableGroups:
    """
    Return which groups can be deleted, to choose from; none, and none read, where some are named.

    A live group and one that the fleet file protects cannot. Commit times are read of empty groups.
    Raises ClusterUnreachable.
    """
    if any(groups):
        return DeletableGroups(pd.DataFrame({"group": pd.Series(dtype="str")}), pd.DataFrame())
    with progress_line("reading the groups that can be deleted"):
        facts = read_snapshot(access.cluster, commit_times=lambda group: not group.is_live)
        with connected(access.cluster) as connection:
            settings = read_expiry_settings(connection)
    show_read_errors(facts)
    protected = access.under_policy(facts.cluster_id).policy.protected_groups
    whys = {group.group_id: why_not_deleted(group, protected) for group in facts.groups}
    last = last_expiry(
        facts, retention_s=settings.retention_s, check_interval_s=settings.check_interval_s
    )
    rows = groups_with_lag(facts)
    rows[EXPIRY], rows["why"] = rows["group"].map(last), rows["group"].map(whys)
    stays = rows["why"] != ""
    others = rows.loc[stays, ["group", "type", "state", "members", "why"]]
    # All that are left are Empty, and have no members.
    return DeletableGroups(rows[~stays].drop(columns=["why", "state", "members"]), others)


def _health_words(report: HealthReport) -> pd.DataFrame:
    frame = report.frame
    words = pd.Categorical(frame["health"].map(str), [*map(str, Health)][::-1], ordered=True)
    return frame[["group"]].assign(health=words)


def _is_there(access: ClusterAccess, names: Sequence[str]) -> bool:
    with connected(access.cluster) as connection:
        listed, _ = list_groups(connection)
    return not {named(name) for name in names}.isdisjoint(found.group_id for found in listed)
