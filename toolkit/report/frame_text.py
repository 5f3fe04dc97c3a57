"""A frame as text, for a prompt and for programs that show no HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.report.cell_text import cell_texts
from toolkit.report.frame_cells import cell_values, column_kind
from toolkit.report.safe_names import visible_lines

if TYPE_CHECKING:
    import pandas as pd


def frame_text(frame: pd.DataFrame, *, max_rows: int | None = None) -> str:
    """Return a frame as text without its index; no name looks like a missing value."""
    words = {
        str(column.name): cell_texts(cell_values(column), kind)
        for _, column in frame.items()
        if (kind := column_kind(column)) in {"name", "text"} and column.dtype != bool
    }
    return frame.assign(**words).to_string(index=False, max_rows=max_rows)


def report_text(summary: str, rows: pd.DataFrame) -> str:
    """Return a finding and its first rows as text for a prompt, whatever the names hold."""
    return visible_lines(f"{summary}\n{frame_text(rows, max_rows=20)}")
