"""Who changed what, when and why, and whether the audit log is as it was written."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.storage.audit import AuditEntry, is_harmless, read, unfinished, verify

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class AuditReport:
    """
    The runs of an audit log that touched a cluster and groups, and the flaws of the whole log.

    Each part is read when it is first used. Raises RecordFailed where the log cannot be read.
    """

    state: Path
    cluster: str = ""  # empty: all
    groups: Collection[str] = ()  # empty: all

    @cached_property
    def entries(self) -> tuple[AuditEntry, ...]:
        """The entries of these runs, oldest first."""
        return tuple(
            entry
            for entry in read(self.state)
            if self.cluster in {"", entry.cluster}
            and (not self.groups or set(self.groups) & {step.group_id for step in entry.steps})
        )

    @cached_property
    def _found(self) -> tuple[str, ...]:
        return tuple(verify(self.state))

    @property
    def flaws(self) -> tuple[str, ...]:
        """Which lines were changed, removed, moved or repeated, a sentence each."""
        return tuple(flaw for flaw in self._found if not is_harmless(flaw))

    @property
    def harmless_flaws(self) -> tuple[str, ...]:
        """Which lines a killed writer left unfinished; no entry was lost by them."""
        return tuple(flaw for flaw in self._found if is_harmless(flaw))

    @property
    def is_intact(self) -> bool:
        """Whether nothing was changed, removed, moved or repeated."""
        return not self.flaws

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row for each run, newest first; columns as in `runs_frame`."""
        from toolkit.report.audit_frames import runs_frame  # noqa: PLC0415 - loads pandas

        return runs_frame(self.entries)

    @cached_property
    def changes(self) -> pd.DataFrame:
        """One row for each change; columns as in `changes_frame`."""
        from toolkit.report.audit_frames import changes_frame  # noqa: PLC0415 - loads pandas

        return changes_frame(self.entries)

    @property
    def unfinished(self) -> pd.DataFrame:
        """The runs without an outcome: cut off, or still going on."""
        ids = {entry.run.run_id for entry in unfinished(self.state)}
        return self.runs[self.runs["run"].isin(ids)]

    @property
    def overridden(self) -> pd.DataFrame:
        """The runs for which somebody overrode a rule."""
        return self.runs[self.runs["overrides"] != ""]


def audit(state: Path, *, cluster: str = "", groups: Collection[str] = ()) -> AuditReport:
    """Return a report of the audit log in a state folder, of all runs or of some."""
    return AuditReport(state, cluster, groups)
