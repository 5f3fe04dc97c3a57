"""Values of a frame as people read them: the same in a terminal, in a notebook and in a report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pandas as pd

from toolkit.model.times import format_duration

Kind = Literal["text", "number", "duration", "time"]

MISSING = "\N{EN DASH}"  # never 0, never blank


def column_kind(column: pd.Series[Any]) -> Kind:
    """
    Return what a column holds; numbers named `..._s` are durations in seconds.

    None beside whole numbers or durations makes a column of objects, so that values decide.
    """
    if pd.api.types.is_bool_dtype(column):
        return "text"
    if pd.api.types.is_datetime64_any_dtype(column):
        return "time"
    if pd.api.types.is_timedelta64_dtype(column):
        return "duration"
    if pd.api.types.is_numeric_dtype(column) or _all_are(column, _is_number):
        return "duration" if _is_in_seconds(column.name) else "number"
    return "duration" if _all_are(column, lambda value: isinstance(value, timedelta)) else "text"


def heading(name: object, kind: Kind) -> str:
    """Return the heading of a column; a duration states its unit in every cell instead."""
    text = " ".join(str(part) for part in (name if isinstance(name, tuple) else (name,)))
    return text.removesuffix("_s") if kind == "duration" and _is_in_seconds(name) else text


def cell_texts(column: pd.Series[Any], kind: Kind) -> list[str]:
    """Return every value of a column as text; equal values are formatted once."""
    values = column.astype(object).tolist()
    try:
        # With its class: 1 and True are equal.
        keys = [(value.__class__, value) for value in values]
        known = {key: cell_text(key[1], kind) for key in set(keys)}
    except TypeError:  # a list, which cannot be a key
        return [cell_text(value, kind) for value in values]
    return [known[key] for key in keys]


def cell_text(value: Any, kind: Kind) -> str:
    """Return one value as text: 5,400; 1 d 12 h; 2026-03-01 10:00:00 UTC; a dash if missing."""
    if is_missing(value) or (isinstance(value, str) and not value):
        return MISSING
    if kind == "number":
        return _number(value)
    if kind == "duration":
        return format_duration(value if isinstance(value, timedelta) else float(value))
    return _text(value)


def is_missing(value: object) -> bool:
    """Whether a value is None, NaN, NA or NaT."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan or value is None or value is pd.NA or value is pd.NaT


def _is_in_seconds(name: object) -> bool:
    return str(name).endswith("_s") and not str(name).endswith("_per_s")


def _all_are(column: Iterable[Any], fits: Callable[[Any], bool]) -> bool:
    """Whether there are values, and all of them fit."""
    known = (value for value in column if not is_missing(value))
    first = next(known, None)
    return first is not None and fits(first) and all(map(fits, known))


def _is_number(value: object) -> bool:
    return bool(pd.api.types.is_number(value)) and not pd.api.types.is_bool(value)


def _number(value: Any) -> str:
    """Thousands apart; decimals only where there are any, and no more than tell something."""
    if isinstance(value, int) or float(value).is_integer():
        return f"{int(value):,}"
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"


def _text(value: object) -> str:
    if pd.api.types.is_bool(value):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        utc = value.astimezone(UTC) if value.tzinfo else value
        return utc.strftime("%Y-%m-%d %H:%M:%S") + (" UTC" if value.tzinfo else "")
    if isinstance(value, (list, tuple, set, frozenset)):
        items = sorted(value, key=str) if isinstance(value, (set, frozenset)) else value
        return ", ".join(str(item) for item in items) or MISSING
    return str(value)
