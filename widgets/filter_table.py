"""Filter table widget: search and sort all rows, show the first of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import ipywidgets
import pandas as pd

from toolkit.model.rows import WORDS
from toolkit.report.cell_text import cell_texts, cell_values, column_kind, frame_text
from toolkit.report.tables import table_columns
from widgets.live_or_static import LiveOrStatic, sheet, table

AS_PLANNED = "Plan order"


def texts(frame: pd.DataFrame, columns: Iterable[str]) -> pd.Series[str]:
    """Return one text a row to search in, in small letters: values as they are, and as shown."""
    joined = pd.Series("", frame.index, dtype="str")
    for column in columns:
        values, kind = frame[column], column_kind(frame[column])
        joined = joined + values.astype("str") + "\n"
        if kind not in WORDS:  # a number has thousands apart, a duration its units
            joined = joined + cell_texts(cell_values(values), kind) + "\n"
    return joined.str.casefold()


def matching(searched: pd.Series[str], query: str) -> pd.Series[bool]:
    """Return which rows have every word of the query, in any order."""
    found = pd.Series(data=True, index=searched.index)
    for word in query.casefold().split():
        found &= searched.str.contains(word, regex=False)
    return found


class FilterTable(LiveOrStatic):
    """A table of which the first rows are shown, with a filter and an order over all of them."""

    def __init__(self, frame: pd.DataFrame, *, caption: str = "", most: int = 50) -> None:
        super().__init__()
        self.columns = table_columns(frame)  # of all rows: they do not depend on the query
        self.frame, self.caption, self.most = self.columns.frame, caption, most
        self.shown = self.frame.head(most)

    @cached_property
    def searched(self) -> pd.Series[str]:
        return texts(self.frame, list(self.frame.columns))

    search = cached_property(lambda _: ipywidgets.Text(placeholder="Filter rows"))

    @cached_property
    def order(self) -> ipywidgets.Dropdown:
        names = [(AS_PLANNED, "")]
        for column in self.frame.columns:
            label = str(column).replace("_", " ")
            names += [(f"{label} ↑", f"+{column}"), (f"{label} ↓", f"-{column}")]
        return ipywidgets.Dropdown(options=names, description="Sort by", value="")

    @cached_property
    def body(self) -> ipywidgets.HTML:
        body = ipywidgets.HTML(self._table_html(len(self.frame)))
        body.add_class("ow-rows")
        return body

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        if len(self.frame) <= min(self.most, 10):
            return (self.body,)
        for control in (self.search, self.order):
            control.observe(self.guarded(self.render), "value")
        bar = ipywidgets.HBox([self.search, self.order])
        bar.add_class("ow-bar")
        return (bar, self.body)

    def render(self) -> None:
        found = self.frame[matching(self.searched, self.search.value)]
        if column := self.order.value[1:]:
            ascending = self.order.value.startswith("+")
            found = found.sort_values(column, ascending=ascending, kind="stable")
        self.shown = found.head(self.most)
        self.body.value = self._table_html(len(found))

    def _table_html(self, found: int | None = None) -> str:
        count = len(self.frame) if found is None else found
        caption = self.caption
        if count > self.most or count < len(self.frame):
            shown, total = min(count, self.most), len(self.frame)
            matching = f" matching rows ({total:,} total)" if count < total else " rows"
            caption += f" · showing {shown} of {count:,}{matching}"
        empty = "No matching rows."
        rows = self.columns._replace(frame=self.shown)
        return table(rows, caption=caption, empty=empty, is_live=found is not None)

    def static_html(self) -> str:
        return sheet() + self._table_html()

    def text_form(self) -> str:
        return f"{self.caption}\n{frame_text(self.shown)}"
