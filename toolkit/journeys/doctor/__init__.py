"""Check the installation, the files and the clusters: what works, what does not, what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import FleetFileError
from toolkit.journeys.cluster_access import find_clusters
from toolkit.journeys.doctor.check_row import CheckRow, CheckStatus, error
from toolkit.journeys.doctor.cluster_checks import check_clusters
from toolkit.journeys.doctor.this_machine import fleet_file_row, machine_rows, state_rows
from toolkit.model import Cluster


@dataclass(frozen=True)
class CheckReport:
    """The rows of all checks; `clusters` are those that were checked."""

    rows: tuple[CheckRow, ...]
    clusters: tuple[Cluster, ...]

    @property
    def exit_code(self) -> int:
        """0 without an `error`, 1 if no cluster is without one, else 4."""
        wrong = {row.subject for row in self.rows if row.status is CheckStatus.ERROR}
        if not wrong:
            return 0
        usable = {cluster.name for cluster in self.clusters} - wrong
        return 4 if usable else 1


def doctor(names: Sequence[str] = (), fleet_file: Path | None = None) -> CheckReport:
    """
    Check this machine, the fleet file, the state directory and clusters, by default all.

    Changes nothing. No row has the value of a setting, so the report can be shown to others.
    Works without a fleet file, and with one that cannot be used: a named cluster that is not
    checked for that is a row with an error. Raises UsageError for a name that is not in the fleet.
    """
    fleet = fleet_file_row(fleet_file)
    clusters: list[Cluster] = []
    unchecked: list[CheckRow] = []
    for some in [[name] for name in names] or [[]]:
        try:
            clusters += find_clusters(some, fleet_file)
        except FleetFileError:  # the row of the fleet file says why
            why = f"not checked; fleet file: {fleet.finding}"
            unchecked += (error(name, "connection", why, fleet.hint) for name in some)
    own = [*machine_rows(), fleet, *state_rows(fleet_file), *unchecked]
    return CheckReport((*own, *check_clusters(clusters, mask=True)), tuple(clusters))


def check_fleet(names: Sequence[str] = (), fleet_file: Path | None = None) -> CheckReport:
    """Check clusters, by default all; raises FleetFileError and UsageError."""
    clusters = find_clusters(names, fleet_file)
    return CheckReport(tuple(check_clusters(clusters, mask=False)), tuple(clusters))
