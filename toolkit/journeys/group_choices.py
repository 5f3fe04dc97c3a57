"""The groups of a cluster to choose from, with their lag."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.health import HealthReport, health
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Snapshot
from toolkit.model.names import named
from toolkit.planning.diagnosis.group_health import Health
from toolkit.planning.frames.snapshot_frames import groups_frame, offsets_frame
from toolkit.planning.lag.lag import lag_by_group, with_lag
from toolkit.report.display import is_headless
from toolkit.report.progress_line import progress_line


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
    and, where somebody can choose, health: a `Health`, of which the worst is the largest.
    """
    names = [groups] if isinstance(groups, str) else groups
    if plan_file or (any(names) and not only_one) or (any(names) and _is_there(access, names)):
        return pd.DataFrame({"group": pd.Series(dtype="str")})
    with progress_line("reading the groups to choose from, twice"):
        if is_headless():  # who only reads their names waits for no second sample
            return groups_with_lag(read_snapshot(access.cluster))
        report = health(access)
        return groups_with_lag(report.facts).merge(_health_words(report), how="left", on="group")


def _health_words(report: HealthReport) -> pd.DataFrame:
    """Return group and health of each group."""
    frame = pd.DataFrame(list(report.rows.rows), columns=list(report.rows.columns))
    words = pd.Categorical(frame["health"].map(str), [*map(str, Health)][::-1], ordered=True)
    return frame[["group"]].assign(health=words)


def _is_there(access: ClusterAccess, names: Sequence[str]) -> bool:
    """Return whether a group has one of these names."""
    with connected(access.cluster) as connection:
        listed, _ = list_groups(connection)
    return not {named(name) for name in names}.isdisjoint(found.group_id for found in listed)


def groups_with_lag(facts: Snapshot) -> pd.DataFrame:
    """Return a `groups_frame` with the lag columns of `lag_by_group`."""
    lags = lag_by_group(with_lag(offsets_frame(facts)))[["group", "lag", "unknown_lag_partitions"]]
    return groups_frame(facts).merge(lags, how="left", on="group")
