"""Columns of frames: what they hold, and their values without pandas' own kinds of nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd

from toolkit.model.rows import Kind, Rows
from toolkit.report.cell_text import is_in_seconds

OF_GROUPS = "group"  # the column of names that may be empty


def rows_of(frame: pd.DataFrame) -> Rows:
    """Return a frame as plain rows, without its index."""
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    kinds = {str(column.name): column_kind(column) for column in columns}
    values = [cell_values(column) for column in columns]
    return Rows(kinds, list(zip(*values, strict=True)) if columns else [])


def column_kind(column: pd.Series[Any]) -> Kind:
    """
    Return what a column holds; numbers named `..._s` are durations in seconds.

    A column of whole numbers or durations with None has objects, so its values decide.
    """
    if column.name == OF_GROUPS:
        return "name"
    if pd.api.types.is_bool_dtype(column):
        return "text"
    if pd.api.types.is_datetime64_any_dtype(column):
        return "time"
    if pd.api.types.is_timedelta64_dtype(column):
        return "duration"
    if pd.api.types.is_numeric_dtype(column) or _all_are(column, _is_number):
        return "duration" if is_in_seconds(column.name) else "number"
    return "duration" if _all_are(column, lambda value: isinstance(value, timedelta)) else "text"


def cell_values(column: pd.Series[Any]) -> list[Any]:
    """Return the values of a column, None where one is missing."""
    return [
        None if is_missing else bool(value) if isinstance(value, np.bool_) else value
        for value, is_missing in zip(column.astype(object), column.isna(), strict=True)
    ]


def _all_are(column: Iterable[Any], fits: Callable[[Any], bool]) -> bool:
    """Whether there are values, and all of them fit."""
    known = (value for value in column if not _is_missing(value))
    first = next(known, None)
    return first is not None and fits(first) and all(map(fits, known))


def _is_missing(value: object) -> bool:
    is_nan = isinstance(value, float) and np.isnan(value)
    return bool(is_nan) or value is None or value is pd.NA or value is pd.NaT


def _is_number(value: object) -> bool:
    return bool(pd.api.types.is_number(value)) and not pd.api.types.is_bool(value)
