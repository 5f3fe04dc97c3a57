"""Columns of frames: what they hold, and their values without pandas' own kinds of nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from numbers import Number
from typing import TYPE_CHECKING, Any

from toolkit.model.rows import Kind, Rows
from toolkit.report.cell_text import is_in_seconds

if TYPE_CHECKING:
    import pandas as pd

OF_GROUPS = "group"  # the column of names that may be empty
# By the letter that numpy and pandas give to a kind of column; what has no letter here is objects.
KINDS: dict[str, Kind] = {"b": "text", "M": "time", "m": "duration"}
NUMBERS = "iufc"


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
    letter = column.dtype.kind
    if letter in KINDS:
        return KINDS[letter]
    if letter in NUMBERS or _all_are(column, _is_number):
        return "duration" if is_in_seconds(column.name) else "number"
    return "duration" if _all_are(column, lambda value: isinstance(value, timedelta)) else "text"


def cell_values(column: pd.Series[Any]) -> list[Any]:
    """Return the values of a column, None where one is missing."""
    import numpy as np  # noqa: PLC0415 - who has no frame does not come here

    return [
        None if is_missing else bool(value) if isinstance(value, np.bool_) else value
        for value, is_missing in zip(column.astype(object), column.isna(), strict=True)
    ]


def _all_are(column: pd.Series[Any], fits: Callable[[Any], bool]) -> bool:
    """Whether there are values, and all of them fit."""
    cells = zip(column, column.isna(), strict=True)
    known = (value for value, is_missing in cells if not is_missing)
    first = next(known, None)
    return first is not None and fits(first) and all(map(fits, known))


def _is_number(value: object) -> bool:
    return isinstance(value, Number) and not isinstance(value, bool)
