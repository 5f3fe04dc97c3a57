"""Pieces of HTML that widgets are made of; whatever is put in comes out as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import pandas as pd

from toolkit.report.browser_libraries import style
from toolkit.report.display import capture_outputs
from toolkit.report.notices import NoticeTone, show_error, show_notice
from toolkit.report.safe_names import in_html
from toolkit.report.tables import TableColumns, table_bundle, table_columns

__all__ = ["NoticeTone", "error_notice", "in_html", "notice", "sheet", "table"]


@cache
def sheet() -> str:
    """Return the style sheets, on the colours of JupyterLab's theme or of a report."""
    own = (Path(__file__).parent / "widgets.css").read_text("utf-8")
    shared = "".join(map(style, ("tables.css", "notices.css", "figures.css", "trouble.css")))
    return f"<style>{shared}{own}</style>"


def table(
    rows: pd.DataFrame | TableColumns, *, caption: str = "", empty: str = "", is_live: bool = False
) -> str:
    """Return rows as a table, as the reports have it; the rows of a live one stay in order."""
    columns = table_columns(rows) if isinstance(rows, pd.DataFrame) else rows
    html = table_bundle(columns, caption_text=caption, empty_text=empty)["text/html"]
    # The page would sort what is painted, where a widget sorts all there is.
    return html.replace("<table ", '<table data-sortable="no" ') if is_live else html


def notice(title: str, lines: Sequence[str] = (), *, tone: NoticeTone = NoticeTone.NOTE) -> str:
    return _shown(lambda: show_notice(title, lines, tone=tone))


def error_notice(error: Exception) -> str:
    return _shown(lambda: show_error(error))


def _shown(show: Callable[[], object]) -> str:
    with capture_outputs() as taken:
        show()
    return str(taken[0]["text/html"])
