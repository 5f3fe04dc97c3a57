"""Plain rows as a frame; pandas is loaded once a frame is asked for, not before."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from toolkit.model.rows import Rows

if TYPE_CHECKING:
    import pandas as pd

UTC_TIME = "datetime64[ms, UTC]"
AS_THEY_ARE: Mapping[str, str] = MappingProxyType({})


def frame_of(table: Rows, types: Mapping[str, str] = AS_THEY_ARE) -> pd.DataFrame:
    """Return plain rows as a frame; a column without a type holds its cells as they are."""
    import pandas as pd  # noqa: PLC0415 - half a second; commands write plain rows

    # Objects first: a missing offset in a column of integers would turn them all into floats.
    frame = pd.DataFrame(list(table.rows), columns=list(table.columns), dtype="object")
    return frame.astype(types)
