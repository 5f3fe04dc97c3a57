"""Write an executed notebook as one HTML file that is complete in itself."""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from traitlets.config import Config

from toolkit.report.browser_libraries import datatables, plotly, script, style
from toolkit.report.report_page import PLOTLY, ReportPage, arrange, run_facts
from toolkit.storage.formats.atomic_files import write_whole

_FOLDER = Path(__file__).parent
# What the content security policy does not govern: a refresh, and connecting ahead of a request.
_NAVIGATING = re.compile(r"<(/?(?:meta|base|link|form|iframe|object|embed)\b)", re.IGNORECASE)
_SCRIPTS_HERE = "<!-- scripts -->"
# Without the widget view: its library is not in the page, and a widget brings HTML of its own.
_SHOWN_FIRST = [
    PLOTLY,
    "text/html",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "text/markdown",
    "text/plain",
]


def write_report(
    notebook_path: Path,
    html_path: Path,
    *,
    title: str = "",
    result: Mapping[str, Any] | None = None,
) -> None:
    """Write what `report_html` returns to a file, in one piece; raises StateFileError."""
    html = report_html(notebook_path, title=title, result=result)
    write_whole(html_path, html, errors="xmlcharrefreplace")


def report_html(
    notebook_path: Path, *, title: str = "", result: Mapping[str, Any] | None = None
) -> str:
    """
    Return an executed notebook as one HTML page, which makes no network request.

    The content security policy lets only the scripts run that bear this file's nonce, and only our
    own get it: a name that slipped through unescaped would still not be executed.

    Args:
        notebook_path: the executed notebook, complete or as far as it came.
        title: shown at the top; the notebook's first heading where it is "".
        result: the content of the run's `result.json`; without it the page has no run facts.

    """
    notebook = nbformat.read(notebook_path, as_version=4)  # type: ignore[no-untyped-call]  # has no types
    page = arrange(notebook, title=title)
    nonce = secrets.token_urlsafe(16)
    facts = run_facts(result) if result else {}
    shown = asdict(page) | facts
    shown |= {
        "nonce": nonce,
        "styles": style("report.css")
        + style("tables.css")
        + style("notices.css")
        + style("trouble.css"),
        "placeholder": _SCRIPTS_HERE,
        "tone": page.tone or facts.get("tone", ""),
    }
    html, _ = _exporter().from_notebook_node(notebook, {"page": shown})
    html = _without_navigation(html)
    # Last, because nbconvert parses the whole page and the libraries are nearly all of it.
    head, _, tail = html.rpartition(_SCRIPTS_HERE)
    return head + _scripts(page, nonce) + tail


def _without_navigation(html: str) -> str:
    """Show as text, in the notebook's own HTML, what could leave the page without a click."""
    head, body, rest = html.partition("<body>")
    return head + body + _NAVIGATING.sub(r"&lt;\1", rest)


def _exporter() -> HTMLExporter:
    return HTMLExporter(  # type: ignore[no-untyped-call]  # has no types
        template_name="template",
        extra_template_basedirs=[str(_FOLDER)],
        embed_images=True,
        config=Config({"NbConvertBase": {"display_data_priority": _SHOWN_FIRST}}),
    )


def _scripts(page: ReportPage, nonce: str) -> str:
    """The libraries that this page needs, as data, and our scripts that unpack them."""
    blocks = []
    if page.has_tables:
        blocks.append(f'<script type="text/plain" id="ob-datatables">{datatables()}</script>')
    if page.has_charts:
        library = plotly(frozenset(page.chart_kinds))
        blocks.append(f'<script type="text/plain" id="ob-plotly">{library}</script>')
    ours = script("tables.js.j2") + script("copy.js.j2") + script("report.js.j2")
    blocks.append(f'<script type="module" nonce="{nonce}">{ours}</script>')
    return "\n".join(blocks)
