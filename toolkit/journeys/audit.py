"""Who changed what, when and why, and whether the audit log is intact."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from toolkit.report.audit_report import AuditReport
from toolkit.storage.state_folder import state_dir


def audit(
    state: Path | str | None = None,
    *,
    cluster: str = "",
    groups: Collection[str] = (),
    run: str = "",
    fleet_file: Path | str | None = None,
) -> AuditReport:
    """
    Return a report of the audit log in a state directory, of all runs or of some.

    Without a directory it is the one that the fleet file names. `run` is the beginning of a name.
    """
    folder = Path(state) if state else state_dir(Path(fleet_file) if fleet_file else None)
    return AuditReport(folder, cluster, groups, run)
