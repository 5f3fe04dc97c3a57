"""Unsubscribed offsets of one cluster or of a whole fleet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from toolkit.errors import NotFound, ToolkitError
from toolkit.journeys.cluster_access import ClusterAccess, find_clusters
from toolkit.journeys.open_next_step import open_or_show
from toolkit.journeys.unsubscribed import unsubscribed as of_cluster
from toolkit.model import Cluster, Problem, Unread
from toolkit.model.plurals import counted
from toolkit.model.side_by_side import side_by_side
from toolkit.planning.frames.snapshot_frames import problems_of_clusters
from toolkit.report.progress_line import progress_line
from toolkit.report.unsubscribed_report import FleetUnsubscribed, UnsubscribedReport


def unsubscribed(
    clusters: str | Sequence[str] = (),
    groups: Sequence[str] = (),
    *,
    fleet_file: Path | str | None = None,
) -> FleetUnsubscribed:
    """
    Find the unsubscribed offsets of clusters, by name or HOST:PORT, or of the whole fleet.

    `groups` are names and shell patterns; none means all. A cluster that cannot be read is a row in
    `problems`, and so is one that has none of the groups but could not list all. Raises NotFound if
    no cluster has such a group, BrokerRefused if that is not known, UsageError, and
    ClusterUnreachable if no cluster could be read.
    """
    path = Path(fleet_file) if fleet_file else None
    names = [name for name in ([clusters] if isinstance(clusters, str) else clusters) if name]
    chosen = find_clusters(names, path)

    def read(cluster: Cluster) -> UnsubscribedReport | ToolkitError:
        try:
            return of_cluster(ClusterAccess(cluster, fleet_file=path), groups)
        except ToolkitError as exc:
            return exc

    with progress_line(f"reading {counted(len(chosen), 'cluster')}"):
        found = dict(zip((c.name for c in chosen), side_by_side(read, chosen), strict=True))
    reports = tuple(one for one in found.values() if isinstance(one, UnsubscribedReport))
    failed = {name: one for name, one in found.items() if isinstance(one, ToolkitError)}
    # That a group is not on every cluster is no error.
    unread = {name: exc for name, exc in failed.items() if not isinstance(exc, NotFound)}
    if not reports:
        raise next(iter((unread or failed).values()))
    problems = [(report.facts.cluster, report.facts.read_errors) for report in reports]
    problems += [(name, (Problem(Unread.CLUSTER, str(exc)),)) for name, exc in unread.items()]
    return FleetUnsubscribed(
        reports, problems_of_clusters(problems), str(fleet_file or ""), open_or_show
    )
