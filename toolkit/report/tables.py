"""
Frames as tables that are safe to show: sorted and searched in the page, readable without scripts.

What is written is plain escaped HTML. DataTables, in the copy that itables brings along, makes it
sortable: in JupyterLab at once, in a report from the one copy at its end. itables' own `show` is
not used because its caption is not escaped and its static form links to the network.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, is_dataclass
from datetime import timedelta
from typing import Any

import pandas as pd

from toolkit.model.rows import Kind
from toolkit.report.browser_libraries import table_script, table_style
from toolkit.report.cell_text import cell_texts, heading
from toolkit.report.display import OutputRole, display_output, is_headless
from toolkit.report.frame_cells import cell_values, column_kind
from toolkit.report.safe_names import in_html, visible

ROW_CAP = 2000
_TEXT_ROWS = 20
_WIDE = 8  # more columns are written smaller on paper
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
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    kinds = [column_kind(column) for column in columns]
    header = "".join(
        f'<th scope="col"{_HEADER_ATTRIBUTES[kind]}>'
        f"{in_html(heading(name, kind).replace('_', ' '))}</th>"
        for name, kind in zip(frame.columns, kinds, strict=True)
    )
    cells = (_cells(column, kind) for column, kind in zip(columns, kinds, strict=True))
    rows = "\n".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    looks = "ob-data ob-wide" if len(columns) > _WIDE else "ob-data"
    return (
        f'<div class="ob-scroll"><table class="{looks}" data-rows="{len(frame)}">'
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _cells(column: pd.Series[Any], kind: Kind) -> list[str]:
    """Return cells; the page sorts by `data-order`, which all cells of a column have or none."""
    values = cell_values(column)
    texts = cell_texts(values, kind)
    if kind == "text":
        return [f"<td{_room(text)}>{in_html(text)}</td>" for text in texts]
    if kind == "time":
        return [f'<td class="moment">{text}</td>' for text in texts]
    place = "moment" if kind == "duration" else "number"
    return [
        f'<td class="{place}" data-order="{_order(value)}">{text}</td>'
        for value, text in zip(values, texts, strict=True)
    ]


def _order(value: Any) -> object:
    if value is None:
        return ""
    return value.total_seconds() if isinstance(value, timedelta) else value


def _room(text: str) -> str:
    """Return the CSS class for line breaks: names unbroken, sentences with a minimum width."""
    if len(text) <= _PHRASE or (len(text) <= _NAME and not any(c.isspace() for c in text)):
        return ' class="whole"'
    return ' class="sentence"' if len(text) > _SENTENCE else ""
