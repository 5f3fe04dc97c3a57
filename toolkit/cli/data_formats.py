"""Rows as JSON and CSV for programs, a piece of text at a time."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from toolkit.model.rows import WORDS, Row, Rows

PIECE = 1000  # rows
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a spreadsheet's formulas begin


def csv_texts(table: Rows) -> Iterator[str]:
    """Yield CSV with a heading; text that a spreadsheet would execute begins with an apostrophe."""
    may_execute = [place for place, kind in enumerate(table.columns.values()) if kind in WORDS]
    rows = iter(table.rows)
    yield _csv([tuple(table.columns)])
    while piece := list(islice(rows, PIECE)):
        yield _csv(_without_formulas(piece, may_execute))


def _csv(rows: list[Row]) -> str:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue()


def _without_formulas(rows: list[Row], may_execute: list[int]) -> list[Row]:
    columns: list[Any] = list(zip(*rows, strict=True))
    for place in may_execute:
        if any(map(_is_formula, _distinct(columns[place]))):
            columns[place] = [f"'{cell}" if _is_formula(cell) else cell for cell in columns[place]]
            rows = list(zip(*columns, strict=True))
    return rows


def _distinct(cells: Sequence[Any]) -> Collection[Any]:
    """Names come many times, and each need be looked at once."""
    try:
        return set(cells)
    except TypeError:  # a list
        return cells


def _is_formula(cell: object) -> bool:
    return isinstance(cell, str) and cell.startswith(FORMULA)


def json_texts(table: Rows) -> Iterator[str]:
    """Yield a JSON array of objects, one line a value; times in ISO 8601."""
    names = [f"    {_json(name)}:" for name in table.columns]
    pattern = "  {\n" + ",\n".join(f"{name.replace('%', '%%')}%s" for name in names) + "\n  }"
    rows = iter(table.rows)
    between = "[\n"
    while piece := list(islice(rows, PIECE)):
        yield between + ",\n".join(pattern % tuple(map(_json, row)) for row in piece)
        between = ",\n"
    yield "[\n\n]\n" if between == "[\n" else "\n]\n"


_text: Callable[[Any], str] = json.JSONEncoder(ensure_ascii=False).encode


def _json(value: Any) -> str:
    if isinstance(value, str):
        # As pandas writes text, so that frames and rows give the same bytes.
        return _text(value).replace("/", "\\/")
    if isinstance(value, datetime):
        return f'"{value.astimezone(UTC).isoformat(timespec="milliseconds")[:-6]}Z"'
    return _text(round(value, 10) if isinstance(value, float) else value)
