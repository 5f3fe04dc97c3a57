"""
Frames as tables that are safe to show: sorted and searched in the page, readable without scripts.

What is written is plain escaped HTML. DataTables, in the copy that itables brings along, makes it
sortable: in JupyterLab at once, in a report from the one copy at its end. itables' own `show` is
not used because its caption is not escaped and its static form links to the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pandas as pd

from toolkit.model.times import format_duration
from toolkit.report.browser_libraries import table_script, table_style
from toolkit.report.display import OutputRole, display_output, is_headless
from toolkit.report.safe_names import in_html, visible

Kind = Literal["text", "number", "duration", "time"]

MISSING = "\N{EN DASH}"
ROW_CAP = 2000
_TEXT_ROWS = 20
_PHRASE, _SENTENCE, _NAME = 16, 30, 40  # characters
_HEADER_ATTRIBUTES: dict[Kind, str] = {
    "text": "",
    "number": ' class="number" data-type="num"',
    "duration": ' class="moment" data-type="num"',
    "time": ' class="moment"',
}


def show_table(
    frame: pd.DataFrame, *, caption_text: str = "", empty_text: str = "No data."
) -> None:
    """
    Show a frame as a sortable, searchable table, every value as text.

    At most 2,000 rows are shown; where rows are cut the table says so, because sorting and search
    see only what is shown. A missing value is a dash, never 0. A frame without rows is
    `empty_text`.
    """
    display_output(_bundle(frame, caption_text, empty_text))
    _put_looks(frame)


def show_problems(
    problems: pd.DataFrame | Iterable[Any],
    *,
    caption_text: str = "",
    empty_text: str = "No read errors.",
) -> None:
    """
    Show what could not be read, one row each; the report repeats it at its top.

    Takes a frame or records such as `toolkit.model.Problem`.
    """
    frame = problems if isinstance(problems, pd.DataFrame) else _frame(problems)
    if frame.empty:
        show_table(frame, empty_text=empty_text)
        return
    frame = frame.dropna(axis="columns", how="all")
    count = "1 read error" if len(frame) == 1 else f"{len(frame):,} read errors"
    caption = caption_text or f"{count}"
    display_output(_bundle(frame, caption, ""), role=OutputRole.PROBLEMS)
    _put_looks(frame)


def _put_looks(frame: pd.DataFrame) -> None:
    if not is_headless():
        looks = table_script() if len(frame) else table_style()
        display_output({"text/html": looks, "text/plain": ""}, role=OutputRole.LIVE_ONLY)


def _frame(records: Iterable[Any]) -> pd.DataFrame:
    rows = [asdict(r) if is_dataclass(r) and not isinstance(r, type) else r for r in records]
    return pd.DataFrame(rows)


def _bundle(frame: pd.DataFrame, caption: str, empty_text: str) -> dict[str, str]:
    title = f"<figcaption>{in_html(caption)}</figcaption>" if caption else ""
    if frame.empty:
        said = f'<p class="ob-empty">{in_html(empty_text)}</p>'
        html = f'<figure class="ob-table">{title}{said}</figure>'
        return {"text/html": html, "text/plain": f"{visible(caption)}\n{empty_text}".strip()}
    shown = _with_index(frame).head(ROW_CAP)
    text = shown.head(_TEXT_ROWS).to_string(index=False)
    cut = _cut_notice(len(frame))
    notice = f'<p class="ob-cut" role="note">{cut}</p>' if cut else ""
    return {
        "text/html": f'<figure class="ob-table">{title}{notice}{_table(shown)}</figure>',
        "text/plain": "\n".join(part for part in (visible(caption), cut, text) if part),
    }


def _cut_notice(rows: int) -> str:
    if rows <= ROW_CAP:
        return ""
    return (
        f"Showing the first {ROW_CAP:,} of {rows:,} rows. Sorting and search apply to these rows "
        "only."
    )


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with an index that means something as its first columns."""
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index() if named else frame


def _table(frame: pd.DataFrame) -> str:
    kinds = [_kind(frame.iloc[:, place]) for place in range(frame.shape[1])]
    header = "".join(
        f'<th scope="col"{_HEADER_ATTRIBUTES[kind]}>{_heading(column)}</th>'
        for column, kind in zip(frame.columns, kinds, strict=True)
    )
    rows = "\n".join(
        "<tr>" + "".join(map(_cell, row, kinds)) + "</tr>"
        for row in frame.astype(object).itertuples(index=False, name=None)
    )
    return (
        f'<div class="ob-scroll"><table class="ob-data" data-rows="{len(frame)}">'
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _heading(column: object) -> str:
    parts = column if isinstance(column, tuple) else (column,)
    return in_html(" ".join(str(part) for part in parts).replace("_", " "))


def _kind(column: pd.Series[Any]) -> Kind:
    if pd.api.types.is_bool_dtype(column):
        return "text"
    if pd.api.types.is_numeric_dtype(column):
        return "number"
    if pd.api.types.is_datetime64_any_dtype(column):
        return "time"
    # None beside whole numbers or durations makes a column of objects.
    values = [value for value in column if not _is_missing(value)]
    if values and all(isinstance(value, timedelta) for value in values):
        return "duration"
    if values and all(pd.api.types.is_number(v) and not isinstance(v, bool) for v in values):
        return "number"
    return "text"


def _cell(value: Any, kind: Kind) -> str:
    """One cell; the page sorts by `data-order`, which all cells of a column have or none."""
    missing = _is_missing(value)
    if kind == "text":
        text = MISSING if missing else _text(value)
        return f"<td{_room(text)}>{in_html(text)}</td>"
    if kind == "time":
        return f'<td class="moment">{MISSING if missing else _text(value)}</td>'
    if kind == "duration":
        order, shown = ("", MISSING) if missing else (value.total_seconds(), format_duration(value))
        return f'<td class="moment" data-order="{order}">{shown}</td>'
    order, shown = ("", MISSING) if missing else (value, _number(value))
    return f'<td class="number" data-order="{order}">{shown}</td>'


def _room(text: str) -> str:
    """Return the CSS class for line breaks: names unbroken, sentences with a minimum width."""
    if len(text) <= _PHRASE or (len(text) <= _NAME and not any(c.isspace() for c in text)):
        return ' class="whole"'
    return ' class="sentence"' if len(text) > _SENTENCE else ""


def _is_missing(value: object) -> bool:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan or value is None or value is pd.NA or value is pd.NaT


def _number(value: Any) -> str:
    """Thousands apart; decimals only where there are any, and no more than tell something."""
    if float(value).is_integer():
        return f"{int(value):,}"
    if not math.isfinite(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:,.2f}" if abs(value) >= 1 else f"{value:.3g}"


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
