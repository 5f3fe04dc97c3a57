"""Values and frames as people read them: the same in a terminal, in a notebook and in a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from numbers import Number
from typing import TYPE_CHECKING, Any

from toolkit.model.names import MISSING, shown_name
from toolkit.model.rows import Kind, Rows
from toolkit.model.times import format_duration
from toolkit.report.safe_names import visible_lines

if TYPE_CHECKING:
    import pandas as pd


OF_GROUPS = "group"  # the column of names that may be empty
# By the letter that numpy and pandas give to a kind of column; what has no letter here is objects.
KINDS: dict[str, Kind] = {"b": "text", "M": "time", "m": "duration"}
NUMBERS = "iufc"


def heading(name: object, kind: Kind) -> str:
    """Return the heading of a column; a duration states its unit in every cell instead."""
    text = " ".join(str(part) for part in (name if isinstance(name, tuple) else (name,)))
    return text.removesuffix("_s") if kind == "duration" and is_in_seconds(name) else text


def is_in_seconds(name: object) -> bool:
    """Whether a column's name says that it holds seconds; a rate does not."""
    return str(name).endswith("_s") and not str(name).endswith("_per_s")


def cell_texts(values: Sequence[Any], kind: Kind) -> list[str]:
    """Return every value of a column as text; equal values are formatted once."""
    try:
        # With its class: 1 and True are equal.
        keys = [(value.__class__, value) for value in values]
        known = {key: cell_text(key[1], kind) for key in set(keys)}
    except TypeError:  # a list, which cannot be a key
        return [cell_text(value, kind) for value in values]
    return [known[key] for key in keys]


def cell_text(value: Any, kind: Kind) -> str:
    """Return one value as text: 5,400; 1 d 12 h; 2026-03-01 10:00:00 UTC; a dash if missing."""
    if kind == "name" and isinstance(value, str):
        return shown_name(value)
    if is_missing(value) or (isinstance(value, str) and not value):
        return MISSING
    if kind == "number":
        return _number(value)
    if kind == "change":
        return _number(value) if value <= 0 else f"+{_number(value)}"
    if kind == "duration":
        return format_duration(value if isinstance(value, timedelta) else float(value))
    return _text(value)


def is_missing(value: object) -> bool:
    """Whether a value is None or NaN; `cell_values` has turned other missing values to None."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _number(value: Any) -> str:
    """With separated thousands; decimals only if there are any, and no insignificant ones."""
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    if abs(value) < 1:
        return f"{value:.3g}"
    return f"{value:,.2f}".rstrip("0").rstrip(".")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        utc = value.astimezone(UTC) if value.tzinfo else value
        return utc.strftime("%Y-%m-%d %H:%M:%S") + (" UTC" if value.tzinfo else "")
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return ", ".join(str(item) for item in items) or MISSING
    return str(value)


def rows_of(frame: pd.DataFrame) -> Rows:
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
    cells = zip(column, column.isna(), strict=True)
    known = (value for value, is_missing in cells if not is_missing)
    first = next(known, None)
    return first is not None and fits(first) and all(map(fits, known))


def _is_number(value: object) -> bool:
    return isinstance(value, Number) and not isinstance(value, bool)


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
