"""
Frames as tables that are safe to show: sorted and searched in the page, readable without scripts.

What is written is plain escaped HTML. DataTables, in the copy that itables brings along, makes it
sortable: in JupyterLab at once, in a report from the one copy at its end. itables' own `show` is
not used because its caption is not escaped and its static form links to the network.

What names the row comes first, then what became of it or was found, until when, and why; on a
narrow screen everything else may be out of sight. A column without any value is left out, which the
table says; files and data formats have all columns.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from toolkit.model.plurals import counted
from toolkit.model.rows import WORDS, Kind
from toolkit.report.browser_libraries import STYLED_COLUMNS, table_script, table_style
from toolkit.report.cell_text import (
    OF_GROUPS,
    cell_texts,
    cell_values,
    column_kind,
    frame_text,
    heading,
)
from toolkit.report.display import OutputRole, display_output, is_headless, show_looks
from toolkit.report.safe_names import in_html, visible

if TYPE_CHECKING:
    import pandas as pd

NAMES = frozenset(
    {"severity", "rule", "what", "run", "at", "cluster", "group", "action", "topic", "partition"}
    | {"member"}
)
DECISIVE = ("status", "verdict", "result", "until", "paused_until", "why")
# An empty cell there means something: nothing committed, unknown, or until resumed.
ALWAYS_SHOWN = frozenset({"before", "after", "read_back", "committed", "lag", "paused_until"})

_WITH_LENGTH = (str, list, tuple, set, frozenset)
ROW_CAP = 2000
_TEXT_ROWS = 20
_WIDE = 8  # more columns are written smaller on paper
_PHRASE, _SENTENCE, _NAME = 16, 30, 40  # characters
_AS_TEXT = ' data-type="html"'  # or the page would try every type on every cell


class TableColumns(NamedTuple):
    """A frame as a table shows it: the `leading` columns stay in sight, `empty` ones are gone."""

    frame: pd.DataFrame
    leading: int
    empty: tuple[str, ...]

    @property
    def note(self) -> str:
        """Which columns are left out; "" where none is."""
        return f"Empty columns, left out: {', '.join(self.empty)}." if self.empty else ""


def table_columns(frame: pd.DataFrame) -> TableColumns:
    """Return a frame with the columns that have values, in the order in which they are read."""
    columns = [frame.iloc[:, place] for place in range(frame.shape[1])]
    is_shown = [_has_values(column) for column in columns]
    if not any(is_shown):
        is_shown = [True] * len(columns)
    shown = [place for place in range(len(columns)) if is_shown[place]]
    first = next((n for n, place in enumerate(shown) if frame.columns[place] not in NAMES), None)
    # The first column identifies the rows, whatever its name.
    names = shown[: max(len(shown) if first is None else first, 1)]
    others = [place for place in shown if place not in names]
    decisive = sorted(
        (place for place in others if _word(frame.columns[place]) in DECISIVE),
        key=lambda place: DECISIVE.index(_word(frame.columns[place])),
    )
    leading = names + decisive
    order = leading + [place for place in others if place not in decisive]
    empty = [
        heading(column.name, column_kind(column)).replace("_", " ")
        for column, is_there in zip(columns, is_shown, strict=True)
        if not is_there
    ]
    return TableColumns(frame.iloc[:, order], len(leading), tuple(empty))


def _word(name: object) -> str:
    """Return what a column is about: `status_why` is a why."""
    return "why" if str(name).endswith("_why") else str(name)


def _has_values(column: pd.Series[Any]) -> bool:
    if column.name in ALWAYS_SHOWN:
        return True
    known = column.dropna()
    if column.name == OF_GROUPS:  # a group may have an empty name
        return len(known) > 0
    return any(not (isinstance(value, _WITH_LENGTH) and not value) for value in known)


class _HtmlColumn(NamedTuple):
    """One column: what its header has, what its table is called for it, and its cells."""

    kind: Kind
    attributes: str
    looks: str
    cells: list[str]


def show_table(
    frame: pd.DataFrame, *, caption_text: str = "", empty_text: str = "No data."
) -> None:
    """
    Show a frame as a sortable, searchable table, every value as text.

    At most 2,000 rows are shown; where rows are cut the table says so, because sorting and search
    see only what is shown. A missing value is a dash, never 0. A frame without rows is
    `empty_text`. Columns are those of `table_columns`.
    """
    columns = table_columns(_with_index(frame))
    display_output(table_bundle(columns, caption_text=caption_text, empty_text=empty_text))
    _put_looks(has_rows=len(frame) > 0)


def show_empty(text: str) -> None:
    display_output(_empty_bundle("", text))
    _put_looks(has_rows=False)


def show_problems(
    problems: pd.DataFrame, *, caption_text: str = "", empty_text: str = "No read errors."
) -> None:
    """Show what could not be read, one row each; the report repeats it at its top."""
    if problems.empty:
        show_table(problems, empty_text=empty_text)
        return
    caption = caption_text or counted(len(problems), "read error")
    bundle = table_bundle(table_columns(_with_index(problems)), caption_text=caption)
    display_output(bundle, role=OutputRole.PROBLEMS)
    _put_looks(has_rows=True)


def _put_looks(*, has_rows: bool) -> None:
    if not is_headless():
        show_looks(table_script() if has_rows else table_style())


def table_bundle(
    columns: TableColumns, *, caption_text: str = "", empty_text: str = ""
) -> dict[str, str]:
    frame = columns.frame
    if frame.empty:
        return _empty_bundle(caption_text, empty_text)
    shown = frame.head(ROW_CAP)
    text = frame_text(shown.head(_TEXT_ROWS))
    cut, left_out = _cut_notice(len(frame)), visible(columns.note)
    notice = f'<p class="ob-cut" role="note">{cut}</p>' if cut else ""
    note = f'<p class="ob-left-out">{in_html(left_out)}</p>' if left_out else ""
    html = f"{_title(caption_text)}{notice}{_table(shown, columns.leading)}{note}"
    return {
        "text/html": f'<figure class="ob-table">{html}</figure>',
        "text/plain": "\n".join(filter(None, (visible(caption_text), cut, text, left_out))),
    }


def _empty_bundle(caption_text: str, empty_text: str) -> dict[str, str]:
    empty = f'<p class="ob-empty">{in_html(empty_text)}</p>'
    html = f'<figure class="ob-table">{_title(caption_text)}{empty}</figure>'
    return {"text/html": html, "text/plain": f"{visible(caption_text)}\n{empty_text}".strip()}


def _title(caption_text: str) -> str:
    return f"<figcaption>{in_html(caption_text)}</figcaption>" if caption_text else ""


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


def _table(frame: pd.DataFrame, leading: int) -> str:
    columns = [_column(frame, place, leading) for place in range(frame.shape[1])]
    header = "".join(
        f'<th scope="col"{column.attributes}>'
        f"{in_html(heading(name, column.kind).replace('_', ' '))}</th>"
        for name, column in zip(frame.columns, columns, strict=True)
    )
    cells = (column.cells for column in columns)
    rows = "\n".join(f"<tr>{''.join(row)}</tr>" for row in zip(*cells, strict=True))
    looks = ["ob-data", *(["ob-wide"] if len(columns) > _WIDE else [])]
    looks += [column.looks for column in columns if column.looks]
    return (
        f'<div class="ob-scroll"><table class="{" ".join(looks)}" data-rows="{len(frame)}">'
        f"<thead><tr>{header}</tr></thead>\n<tbody>\n{rows}\n</tbody></table></div>"
    )


def _column(frame: pd.DataFrame, place: int, leading: int) -> _HtmlColumn:
    """Return a column; the page sorts by `data-order`, which all its cells have or none."""
    column = frame.iloc[:, place]
    kind = column_kind(column)
    values = cell_values(column)
    texts = cell_texts(values, kind)
    if kind in WORDS:
        cell = _text_cell if place < leading else _low_cell
        return _HtmlColumn(kind, _AS_TEXT, "", [*map(cell, texts)])
    looks = "number" if kind == "number" else "moment"
    is_named = place < STYLED_COLUMNS
    start = "<td" if is_named else f'<td class="{looks}"'
    # The page knows the order of whole numbers from their text, with thousands apart.
    is_whole = kind == "number" and all(isinstance(value, int) for value in values)
    if kind == "time" or is_whole:
        cells = [f"{start}>{text}</td>" for text in texts]
    else:
        orders = map(_order, values)
        cells = [
            f'{start} data-order="{order}">{text}</td>'
            for order, text in zip(orders, texts, strict=True)
        ]
    sorting = {"time": _AS_TEXT, "duration": ' data-type="num"'}
    attributes = sorting.get(kind, f' data-type="num{"-fmt" if is_whole else ""}"')
    named = f"{looks}-{place + 1}" if is_named else ""
    return _HtmlColumn(kind, f' class="{looks}"{attributes}', named, cells)


def _order(value: Any) -> object:
    if value is None:
        return ""
    return value.total_seconds() if isinstance(value, timedelta) else value


def _text_cell(text: str) -> str:
    return f"<td{_room(text)}>{in_html(text)}</td>"


def _low_cell(text: str) -> str:
    """Return a cell that makes no row tall, because it may be out of sight: a long one scrolls."""
    if len(text) <= _NAME:
        return f"<td>{in_html(text)}</td>"
    return f'<td class="sentence"><div class="low">{in_html(text)}</div></td>'


def _room(text: str) -> str:
    """Return the CSS class for line breaks: names unbroken, sentences with a minimum width."""
    if len(text) <= _PHRASE or (len(text) <= _NAME and not any(c.isspace() for c in text)):
        return ""
    return ' class="sentence"' if len(text) > _SENTENCE else ' class="phrase"'
