"""Values as people read them: the same in a terminal, in a notebook and in a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from toolkit.model.names import MISSING, shown_name
from toolkit.model.rows import Kind
from toolkit.model.times import format_duration


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
    """Whether a value is None or NaN; `frame_cells` has turned other missing values to None."""
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
