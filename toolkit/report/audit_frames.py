"""The audit log as frames: one row a run, or one a change."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from toolkit.report.audit_rows import CHANGE_COLUMNS, RUN_COLUMNS, change_rows, run_rows
from toolkit.storage.audit import AuditEntry

AT = "datetime64[ms, UTC]"


def runs_frame(entries: Iterable[AuditEntry]) -> pd.DataFrame:
    """Return `run_rows` as a frame."""
    frame = pd.DataFrame(list(run_rows(entries).rows), columns=list(RUN_COLUMNS))
    return frame.astype({"at": AT})


def changes_frame(entries: Iterable[AuditEntry]) -> pd.DataFrame:
    """Return `change_rows` as a frame; partition and offsets are Int64."""
    rows = list(change_rows(entries).rows)
    frame = pd.DataFrame(rows, columns=list(CHANGE_COLUMNS), dtype="object")
    offsets = dict.fromkeys(("partition", "before", "after", "read_back"), "Int64")
    return frame.astype({**offsets, "at": AT})
