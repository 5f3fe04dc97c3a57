"""Add a cluster to the fleet file: connect first, then save."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from toolkit.errors import ToolkitError, UsageError
from toolkit.journeys.doctor import CheckReport
from toolkit.journeys.doctor.check_row import CheckStatus
from toolkit.journeys.doctor.cluster_checks import check_cluster
from toolkit.storage.fleet_entry import save_cluster, with_cluster
from toolkit.storage.fleet_file import BOOTSTRAP, KNOWN, PROPERTIES, fleet_file_to_edit
from toolkit.storage.formats.user_folders import expanded
from toolkit.storage.formats.yaml_nodes import meant


@dataclass(frozen=True)
class NewCluster:
    """
    A cluster that is to be added: its name, servers, client properties file and settings.

    `settings` are entries of the fleet file; a secret is a reference, such as `${env:NAME}`.
    """

    name: str
    bootstrap_servers: str | None
    properties: Path | None
    settings: Mapping[str, str]

    def entries(self, fleet_file: Path) -> dict[str, str]:
        """Return what the fleet file is to have; raises UsageError for what cannot be there."""
        for setting in self.settings:
            if setting not in KNOWN:
                hint = f"known settings: {', '.join(KNOWN)}"
                raise UsageError(f"unknown setting {setting!r}{meant(setting, KNOWN)}", hint=hint)
        found = {BOOTSTRAP: self.bootstrap_servers} if self.bootstrap_servers else {}
        if self.properties:
            found[PROPERTIES] = _path_for(self.properties, fleet_file)
        if not found and BOOTSTRAP not in self.settings:
            raise UsageError(
                f"cluster {self.name!r} has no {BOOTSTRAP}",
                hint="name its servers, or a client properties file that has them",
            )
        files = {name: text for name, text in self.settings.items() if name.endswith(".location")}
        paths = {name: _path_for(expanded(text), fleet_file) for name, text in files.items()}
        return {**found, **self.settings, **paths}


def check_new_cluster(new: NewCluster, fleet_file: Path | None) -> CheckReport:
    """
    Connect to a cluster that is not in the fleet file yet, as `doctor` does; nothing is saved.

    Raises UsageError and FleetFileError where it cannot be added, ToolkitError for a failed check.
    """
    path = fleet_file_to_edit(fleet_file)
    cluster, _ = with_cluster(path, new.name, new.entries(path))
    rows = tuple(check_cluster(cluster))
    for row in rows:
        if row.status is CheckStatus.ERROR:
            anyway = "--no-check adds it anyway"
            hint = f"{row.hint}; {anyway}" if row.hint else anyway
            raise ToolkitError(f"cluster {new.name} was not added: {row.finding}", hint=hint)
    return CheckReport(rows, (cluster,))


def add_cluster(new: NewCluster, fleet_file: Path | None) -> Path:
    """
    Add a cluster to the fleet file, whose other text stays as it is, and return the file.

    Without a fleet file, ./fleet.yaml is made. Raises UsageError, FleetFileError and
    StateFileError; the old file then stays.
    """
    path = fleet_file_to_edit(fleet_file)
    save_cluster(path, new.name, new.entries(path))
    return path


def _path_for(named: Path, fleet_file: Path) -> str:
    """Return the path relative to the fleet file if it is in its folder, else from the root."""
    absolute, folder = Path(os.path.abspath(named)), fleet_file.absolute().parent  # noqa: PTH100 - a link stays one
    return str(absolute.relative_to(folder) if absolute.is_relative_to(folder) else absolute)
