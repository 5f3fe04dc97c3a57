"""Arrange an executed notebook and its run facts into a report page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from toolkit.model.plurals import counted
from toolkit.model.times import format_duration
from toolkit.report.display import ROLE_KEY, TONE_KEY, OutputRole
from toolkit.report.figures import describe, kinds_of_traces
from toolkit.report.safe_names import visible

PLOTLY = "application/vnd.plotly.v1+json"
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


@dataclass(slots=True)
class ReportPage:
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


def arrange(notebook: Any, *, title: str) -> ReportPage:
    """Rearrange a notebook, in place, into a page: problems first, scaffolding gone."""
    own_title, title_cell = _take_title(notebook.cells)
    page = ReportPage(title=title or own_title or "Report")
    notebook.cells = _without_scaffolding(notebook.cells, title_cell)
    failed = next((i for i, cell in enumerate(notebook.cells) if _has_error(cell)), None)
    for number, cell in enumerate(notebook.cells):
        anchor = f"step-{number + 1}"
        cell.metadata["offsetbook"] = {"anchor": anchor, "failed": number == failed}
        if cell.cell_type == "markdown":
            sections = _SECTION.findall(cell.source)
            page.contents += [{"anchor": anchor, "text": _without_marks(s)} for s in sections]
        elif cell.cell_type == "code":
            _arrange_code(cell, page, after_failure=failed is not None and number > failed)
    page.failed_anchor = f"step-{failed + 1}" if failed is not None else ""
    return page


def run_facts(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a `result.json`, or as much as is known of one, tells in words for the top of a page."""
    status = result.get("status", "")
    error = result.get("error")
    where = f"Failed at: {error['step']}" if error and error["step"] else "Why"
    facts = {
        "Run": status_text(result),
        **_when(result),
        "By": result.get("who"),
        "Undo record": result.get("undo"),
        "Version": f"offsetbook {result['version']}",
    }
    findings = result.get("counts", {}).get("findings", 0)
    is_found = status == "done" and findings
    return {
        "status": status,
        "tone": "warn" if is_found else "",
        # What was found matters more than that looking for it went well.
        "status_text": counted(findings, "finding") if is_found else status_text(result),
        "summary": visible(result.get("summary", "")),
        "error": error and {"where": visible(where), "reason": visible(error["reason"])},
        "counts": [_count(name, value) for name, value in result.get("counts", {}).items()],
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
        "Took": _took((finished - started).total_seconds()),
    }


def status_text(result: Mapping[str, Any]) -> str:
    """Say how a run ended, as people do."""
    status = str(result.get("status", ""))
    if status == "done" and result["parameters"].get("dry_run") is True:
        return "Dry run: nothing was changed"
    return _STATUS_TEXT.get(status, status)


def _arrange_code(cell: Any, page: ReportPage, *, after_failure: bool) -> None:
    cell.metadata["offsetbook"]["not_run"] = after_failure and bool(cell.source.strip())
    page.has_code = page.has_code or bool(cell.source.strip())
    kept = []
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
        if PLOTLY in data:
            page.has_charts = True
            page.chart_kinds.update(kinds_of_traces(data[PLOTLY]))
            output.metadata["offsetbook_figure"] = _figure(data[PLOTLY])
        kept.append(output)
    cell.outputs = kept


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
    """Leave out empty cells, papermill's own, and the parameters, which stand in a table."""
    kept: list[Any] = []
    for cell in cells:
        tags = set(cell.metadata.get("tags", ()))
        is_about_them = kept and kept[-1].cell_type == "markdown" and kept[-1] is not title_cell
        if "parameters" in tags and is_about_them:
            kept.pop()  # words that would stand over nothing
        if not tags & _LEFT_OUT and cell.source.strip():
            kept.append(cell)
    return kept


def _count(name: str, value: int) -> dict[str, str]:
    return {
        "name": name,
        "value": f"{value:,}",
        "tone": _COUNT_TONES.get(name, "") if value else "",
    }


def _has_error(cell: Any) -> bool:
    return any(output.output_type == "error" for output in cell.get("outputs", ()))


def _parameter(value: object) -> str:
    if value is None or value in ("", []):
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return visible(", ".join(map(str, value)) if isinstance(value, list) else value)


def _took(seconds: float) -> str:
    return format_duration(seconds) if seconds >= 0 else "unknown (clock was set back)"
