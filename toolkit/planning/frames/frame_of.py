"""Plain rows as a frame; pandas is loaded once a frame is asked for, not before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.model.rows import Kind, Rows

if TYPE_CHECKING:
    import pandas as pd

UTC_TIME = "datetime64[ms, UTC]"
TYPES: dict[Kind, str] = {"number": "Int64", "duration": "Float64", "time": UTC_TIME}


def frame_of(table: Rows, **types: str) -> pd.DataFrame:
    """Return plain rows as a frame; `types` are those of columns without missing values."""
    import pandas as pd  # noqa: PLC0415 - half a second; commands write plain rows

    known = {name: TYPES[kind] for name, kind in table.columns.items() if kind in TYPES}
    # Objects first: a missing offset in a column of integers would turn them all into floats.
    frame = pd.DataFrame(list(table.rows), columns=list(table.columns), dtype="object")
    return frame.astype({**known, **types})
