"""Write an executed notebook as one HTML file that is complete in itself."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from traitlets.config import Config

from toolkit.model.plurals import counted
from toolkit.model.times import format_duration
from toolkit.report.browser_libraries import datatables, plotly, script, style
from toolkit.report.display import ROLE_KEY, TONE_KEY, OutputRole
from toolkit.report.executed_cells import has_error, has_run, is_step
from toolkit.report.figures import describe, kinds_of_traces
from toolkit.report.safe_names import visible
from toolkit.storage.formats.atomic_files import write_whole

_FOLDER = Path(__file__).parent
_PLOTLY = "application/vnd.plotly.v1+json"
_WIDGET = "application/vnd.jupyter.widget-view+json"
_LEFT_OUT = frozenset(
    {"parameters", "injected-parameters", "papermill-error-cell-tag", "remove-cell"}
)
_STATUS_TEXT = {
    "done": "Done",
    "failed": "Failed",
    "blocked": "Blocked: nothing was changed",
    "partly-applied": "Partly applied",
    "incomplete": "Incomplete: read errors",
    "interrupted": "Interrupted",
    "timed-out": "Timed out",
    "kernel-died": "Kernel died",
    "ran": "All cells ran",
    "unfinished": "Stopped before the last cell",
}
_COUNT_TONES = {"problems": "warn", "refused": "bad"}
_PLACES = {OutputRole.PROBLEMS: "problems", OutputRole.HEADLINE: "headlines"}
_MOVED = '<p class="ob-empty">Shown at the top of this page.</p>'
_FIRST_HEADING = re.compile(r"\A\s*#[ \t]+(.+?)[ \t#]*(?:\n|\Z)")
_SECTION = re.compile(r"^##[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
# What the content security policy does not govern: a refresh, and connecting ahead of a request.
_NAVIGATING = re.compile(r"<(/?(?:meta|base|link|form|iframe|object|embed)\b)", re.IGNORECASE)
_SCRIPTS_HERE = "<!-- scripts -->"
# Without the widget view: its library is not in the page, and a widget brings HTML of its own.
_SHOWN_FIRST = [
    _PLOTLY,
    "text/html",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "text/markdown",
    "text/plain",
]


def write_report(notebook_path: Path, html_path: Path, *, result: Mapping[str, Any] | None) -> None:
    """Write what `report_html` returns to a file, in one piece; raises StateFileError."""
    html = report_html(notebook_path, result=result)
    write_whole(html_path, html, errors="xmlcharrefreplace")


def report_html(notebook_path: Path, *, result: Mapping[str, Any] | None) -> str:
    """
    Return an executed notebook as one HTML page, which makes no network request.

    The content security policy lets only the scripts run that bear this file's nonce, and only our
    own get it: a name that slipped through unescaped would still not be executed.

    Args:
        notebook_path: the executed notebook, complete or as far as it came.
        result: the content of the run's `result.json`; without it the page has no run facts.

    """
    notebook = nbformat.read(notebook_path, as_version=4)  # type: ignore[no-untyped-call]  # has no types
    page = _arrange(notebook)
    nonce = secrets.token_urlsafe(16)
    facts = _run_facts(result) if result else {}
    shown = asdict(page) | facts
    shown |= {
        "nonce": nonce,
        "styles": style("report.css", "tables.css", "notices.css", "trouble.css"),
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


def _scripts(page: _ReportPage, nonce: str) -> str:
    """The libraries that this page needs, as data, and the scripts that unpack them."""
    blocks = []
    if page.has_tables:
        blocks.append(f'<script type="text/plain" id="ob-datatables">{datatables()}</script>')
    if page.has_charts:
        library = plotly(frozenset(page.chart_kinds))
        blocks.append(f'<script type="text/plain" id="ob-plotly">{library}</script>')
    own_scripts = script("tables.js.j2") + script("copy.js.j2") + script("report.js.j2")
    blocks.append(f'<script type="module" nonce="{nonce}">{own_scripts}</script>')
    return "\n".join(blocks)


@dataclass(slots=True)
class _ReportPage:
    """Everything that the template asks for, besides the notebook's cells."""

    title: str
    contents: list[dict[str, str]] = field(default_factory=list)
    headlines: list[str] = field(default_factory=list)  # our own HTML, already escaped
    tone: str = ""  # how bad the findings are, as the notebook says
    problems: list[str] = field(default_factory=list)  # our own HTML, already escaped
    failed_anchor: str = ""
    has_code: bool = False
    has_charts: bool = False
    chart_kinds: set[str] = field(default_factory=set)  # of plotly's traces
    has_tables: bool = False


def _arrange(notebook: Any) -> _ReportPage:
    """Rearrange a notebook, in place, into a page: problems first, scaffolding gone."""
    title, title_cell = _take_title(notebook.cells)
    page = _ReportPage(title=title or "Report")
    notebook.cells = _without_scaffolding(notebook.cells, title_cell)
    failed = next((i for i, cell in enumerate(notebook.cells) if has_error(cell)), None)
    was_run = any(map(has_run, notebook.cells))
    for number, cell in enumerate(notebook.cells):
        anchor = f"step-{number + 1}"
        cell.metadata["offsetbook"] = {"anchor": anchor, "failed": number == failed}
        if cell.cell_type == "markdown":
            sections = _SECTION.findall(cell.source)
            page.contents += [{"anchor": anchor, "text": _without_marks(s)} for s in sections]
        elif cell.cell_type == "code":
            _arrange_code(cell, page, not_run=was_run and is_step(cell) and not has_run(cell))
    page.failed_anchor = f"step-{failed + 1}" if failed is not None else ""
    return page


def _run_facts(result: Mapping[str, Any]) -> dict[str, Any]:
    """The text for the top of a page from a `result.json`, or as much as is known of one."""
    status = result.get("status", "")
    error = result.get("error")
    where = f"Failed at: {error['step']}" if error and error["step"] else "Why"
    facts = {
        "Run": _status_text(result),
        **_when(result),
        "By": result.get("who"),
        "Undo record": result.get("undo"),
        "Version": f"offsetbook {result['version']}",
    }
    counts = result.get("counts", {})
    findings = counts.get("findings", 0)
    # Of a change they are notes on its plan: that it was made, or not, is what matters.
    is_found = status == "done" and findings and "planned" not in counts
    return {
        "status": status,
        "tone": "warn" if is_found else "",
        # Findings matter more than a successful reading.
        "status_text": counted(findings, "finding") if is_found else _status_text(result),
        "summary": visible(result.get("summary", "")),
        "error": error and {"where": visible(where), "reason": visible(error["reason"])},
        "counts": [_count(name, value) for name, value in counts.items()],
        "clusters": visible(", ".join(result.get("clusters", ()))),
        "facts": [{"name": n, "value": visible(value)} for n, value in facts.items() if value],
        "parameters": [
            {"name": visible(name), "value": _parameter(value)}
            for name, value in result["parameters"].items()
        ],
        "footer": f"Made by offsetbook {result['version']} from the notebook "
        f"{visible(result['notebook'])}. Self-contained file: no network access needed.",
    }


def _when(result: Mapping[str, Any]) -> dict[str, str]:
    if "started" not in result or "finished" not in result:
        return {}
    started, finished = (datetime.fromisoformat(result[key]) for key in ("started", "finished"))
    return {
        "Started": f"{started.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC",
        "Took": format_duration(finished - started)
        if finished >= started
        else "unknown (clock was set back)",
    }


def _status_text(result: Mapping[str, Any]) -> str:
    status = str(result.get("status", ""))
    if status == "done" and result["parameters"].get("dry_run") is True:
        return "Dry run: nothing was changed"
    return _STATUS_TEXT.get(status, status)


def _arrange_code(cell: Any, page: _ReportPage, *, not_run: bool) -> None:
    cell.metadata["offsetbook"]["not_run"] = not_run
    page.has_code = page.has_code or is_step(cell)
    outputs = []
    for output in cell.outputs:
        data = output.get("data", {})
        role = output.get("metadata", {}).get(ROLE_KEY)
        if role == OutputRole.LIVE_ONLY or (_WIDGET in data and "text/html" not in data):
            continue
        page.has_tables = page.has_tables or "ob-data" in data.get("text/html", "")
        if role in _PLACES:
            moved = data["text/html"]
            getattr(page, _PLACES[role]).append(moved)
            page.tone = output.metadata.get(TONE_KEY, page.tone)
            output.data = {"text/html": _MOVED if moved else ""}
        if _PLOTLY in data:
            page.has_charts = True
            page.chart_kinds.update(kinds_of_traces(data[_PLOTLY]))
            output.metadata["offsetbook_figure"] = _figure(data[_PLOTLY])
        outputs.append(output)
    cell.outputs = outputs


def _figure(figure: dict[str, Any]) -> dict[str, str]:
    drawn = {"data": figure.get("data", []), "layout": figure.get("layout", {})}
    # Inside <script>, only "<" could end the block.
    return {"label": describe(drawn), "json": json.dumps(drawn).replace("<", "\\u003c")}


def _take_title(cells: list[Any]) -> tuple[str, Any]:
    """The notebook's first heading, which moves to the top of the page, and the cell it was in."""
    for cell in cells:
        if cell.cell_type == "markdown" and (found := _FIRST_HEADING.match(cell.source)):
            cell.source = cell.source[found.end() :]
            return _without_marks(found.group(1)), cell
    return "", None


def _without_marks(heading: str) -> str:
    return re.sub(r"[`*]", "", heading).strip()


def _without_scaffolding(cells: list[Any], title_cell: Any) -> list[Any]:
    """Leave out empty cells, papermill's own, and the parameters, which are in a table."""
    remaining: list[Any] = []
    for cell in cells:
        tags = set(cell.metadata.get("tags", ()))
        is_about_them = (
            remaining and remaining[-1].cell_type == "markdown" and remaining[-1] is not title_cell
        )
        if "parameters" in tags and is_about_them:
            remaining.pop()  # a text without anything below it
        if not tags & _LEFT_OUT and cell.source.strip():
            remaining.append(cell)
    return remaining


def _count(name: str, value: int) -> dict[str, str]:
    return {
        "name": name,
        "value": f"{value:,}",
        "tone": _COUNT_TONES.get(name, "") if value else "",
    }


def _parameter(value: object) -> str:
    if value is None or value in ("", []):
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return visible(", ".join(map(str, value)) if isinstance(value, list) else value)
