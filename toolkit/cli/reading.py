"""Ask several clusters for a command, with progress, keeping clusters that fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from toolkit.cli.options import CommandScope
from toolkit.cli.output import PARTLY, echo_error, printable_name
from toolkit.cli.progress_line import ProgressOfClusters
from toolkit.errors import NotFound, ToolkitError
from toolkit.model import select_groups
from toolkit.model.side_by_side import side_by_side

if TYPE_CHECKING:
    from toolkit.journeys.cluster_access import ClusterAccess
    from toolkit.model import Cluster, Snapshot


class ClusterReport(Protocol):
    """What a journey found on one cluster."""

    @property
    def facts(self) -> Snapshot:
        """The facts it is made of, with what could not be read."""


Report = TypeVar("Report", bound=ClusterReport)


@dataclass(frozen=True)
class FleetReading(Generic[Report]):
    """The results of some clusters, and which could not be read."""

    reports: list[Report] = field(default_factory=list)
    errors: list[ToolkitError] = field(default_factory=list)  # one for each cluster not read
    missing: list[str] = field(default_factory=list)  # names that no group in any cluster has

    @property
    def snapshots(self) -> list[Snapshot]:
        return [report.facts for report in self.reports]

    def exit_code(self) -> int:
        """0 when everything was read, 4 when only a part was, else the first error's."""
        if not self.reports:
            return self.errors[0].exit_code
        unread = any(snapshot.read_errors for snapshot in self.snapshots)
        return PARTLY if self.errors or self.missing or unread else 0


def read_clusters(
    scope: CommandScope,
    journey: Callable[[ClusterAccess], Report],
    *,
    tell: Callable[[ToolkitError], None] = echo_error,
) -> FleetReading[Report]:
    """
    Ask the chosen clusters at the same time; say, on stderr, which one failed and why.

    Raises NotFound where none of the named groups exists.
    """
    from toolkit.journeys.cluster_access import ClusterAccess, find_clusters

    clusters = find_clusters(scope.clusters, scope.fleet)

    def ask(cluster: Cluster) -> Report | ToolkitError:
        try:
            on_progress = progress.of(cluster)
            return journey(ClusterAccess(cluster, fleet_file=scope.fleet, on_progress=on_progress))
        except ToolkitError as exc:
            return exc
        finally:
            progress.count()

    with ProgressOfClusters(clusters, visible=scope.is_watched) as progress:
        answers = side_by_side(ask, clusters)
    reading: FleetReading[Report] = FleetReading()
    for cluster, answer in zip(clusters, answers, strict=True):
        if isinstance(answer, ToolkitError):
            tell(answer)
            reading.errors.append(answer)
        else:
            reading.reports.append(answer)
            _keep_names(cluster, answer.facts, scope)
    _note_missing(reading, scope.groups, tell)
    return reading


def _keep_names(cluster: Cluster, facts: Snapshot, scope: CommandScope) -> None:
    """Keep the names of a whole listing, which a shell completes."""
    from toolkit.storage.known_groups import keep_group_names

    if not scope.groups and not facts.listing_problem:
        keep_group_names(cluster.bootstrap_servers, (group.group_id for group in facts.groups))


def _note_missing(
    reading: FleetReading[Report], names: Sequence[str], tell: Callable[[ToolkitError], None]
) -> None:
    lists = [select_groups(snapshot.groups, names)[1] for snapshot in reading.snapshots]
    reading.missing.extend(name for name in names if lists and all(name in li for li in lists))
    where = ", ".join(snapshot.cluster for snapshot in reading.snapshots)
    partial = any(snapshot.listing_problem for snapshot in reading.snapshots)
    for name in reading.missing:
        whys = [snapshot.why_missing(name) for snapshot in reading.snapshots]
        why = max(whys, key=len, default="")  # the one that says what was meant
        error = NotFound(
            f"group {printable_name(name)} in cluster {where}: {why}"
            + (", of which not every group could be listed" if partial else ""),
            hint="'offsetbook groups list' shows the names",
        )
        if len(reading.missing) == len(names):
            raise error
        tell(error)
