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
    The entries of an audit log that were asked for, and the flaws of the whole log.

    `flaws` are lines that were changed, removed, moved or repeated, a sentence each; of
    `harmless_flaws`, which a killed writer leaves, no entry was lost.
    """

    state: Path
    entries: tuple[AuditEntry, ...]
    flaws: tuple[str, ...]
    harmless_flaws: tuple[str, ...]

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
    """
    Read the audit log of a state folder, and verify it.

    `cluster` and `groups` narrow the runs down to those that touched them; the whole log is
    verified. Raises RecordFailed where the log cannot be read.
    """
    found = verify(state)
    entries = tuple(
        entry
        for entry in read(state)
        if cluster in {"", entry.cluster}
        and (not groups or set(groups) & {step.group_id for step in entry.steps})
    )
    return AuditReport(
        state,
        entries,
        flaws=tuple(flaw for flaw in found if not is_harmless(flaw)),
        harmless_flaws=tuple(flaw for flaw in found if is_harmless(flaw)),
    )
