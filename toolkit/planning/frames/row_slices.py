"""Compute columns row by row, a slice of the rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Texts = npt.NDArray[np.object_]

# What a slice takes while it is computed fits the processor's caches.
ROWS = 20_000


def assign_by_slices(
    frame: pd.DataFrame, columns_of: Callable[[pd.DataFrame], Mapping[str, Any]]
) -> pd.DataFrame:
    """
    Return a frame with the columns that `columns_of` computes for its rows, each by itself.

    A million rows at once would take a gigabyte of intermediate results.
    """
    slices = [frame.iloc[first : first + ROWS] for first in range(0, len(frame) or 1, ROWS)]
    parts = [pd.DataFrame(columns_of(rows), index=rows.index) for rows in slices]
    added = pd.concat(parts) if len(parts) > 1 else parts[0]
    whole = frame.copy(deep=False)  # the other columns are not copied
    for name in added:
        whole[name] = added[name].array
    return whole


def texts_in(column: pd.Series[Any]) -> Texts:
    """Return the texts of a column, "" for missing ones."""
    values = column.to_numpy(dtype=object)
    missing = column.isna().to_numpy(dtype=bool)
    return np.where(missing, "", values) if missing.any() else values
