"""Lag of every group of a cluster."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.report.lag_report import LagReport


def lag(
    access: ClusterAccess,
    groups: Sequence[str] = (),
    *,
    commit_times: bool = False,
    offsets: bool = True,
) -> LagReport:
    """
    Read the lag of groups, by name and shell pattern, or of all groups.

    Without `offsets`, only groups and members are read. Unknown lag is null, not 0. Raises
    ClusterUnreachable; other read errors are rows in `facts.problems`.
    """
    facts = read_snapshot(
        access.cluster,
        groups=groups,
        offsets=offsets,
        commit_times=commit_times,
        on_progress=access.on_progress,
    )
    return LagReport(facts)
