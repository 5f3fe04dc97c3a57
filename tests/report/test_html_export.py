import gzip
import re
from base64 import b64encode
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from plotly.offline import get_plotlyjs_version

from toolkit.report.browser_libraries import PLOTLY_CARTESIAN
from toolkit.report.html_export import write_report
from toolkit.report.tables import ROW_CAP, show_table

Export = Callable[..., str]

RESULT = {
    "notebook": "20_example",
    "status": "partly-applied",
    "exit_code": 4,
    "summary": "3 of 4 changed",
    "counts": {"changed": 3, "refused": 1},
    "undo": "undo-7",
    "error": None,
    "parameters": {"cluster": "eu", "apply": True, "topic": None, "groups": ["a", "b"]},
    "clusters": ["eu"],
    "started": "2026-01-02T03:04:05+00:00",
    "finished": "2026-01-02T03:06:35+00:00",
    "who": "ana@host",
    "version": "1.2.3",
    "folder": "/runs/x",
    "report": "report.html",
}


@pytest.fixture
def export(tmp_path: Path) -> Export:
    """Return a function that writes cells as a notebook and returns its report's HTML."""

    def export_cells(*cells: Any, result: dict[str, Any] | None = None) -> str:
        nbformat.write(new_notebook(cells=list(cells)), tmp_path / "n.ipynb")
        write_report(tmp_path / "n.ipynb", tmp_path / "n.html", result=result)
        return (tmp_path / "n.html").read_text()

    return export_cells


def output(kind: str, content: Any, **metadata: str) -> Any:
    return new_output("display_data", data={kind: content}, metadata=metadata)


def cell(*outputs: Any) -> Any:
    return new_code_cell("1", outputs=[*outputs])


def html_output(html: str, **metadata: str) -> Any:
    return output("text/html", html, **metadata)


def figure(**trace: Any) -> Any:
    return output("application/vnd.plotly.v1+json", {"data": [trace], "layout": {}})


def test_the_top_of_a_report(export: Export) -> None:
    """The outcome, counts, undo, parameters, and the duration."""
    html = export(new_markdown_cell("# Reset `offsets`\n\nHow."), result=RESULT)
    top = re.sub(r"<[^>]+>|\s+", " ", html[html.index("<header") : html.index("</header")])

    for said in ("Reset offsets", "Partly applied", "3 of 4 changed", "undo-7", "ana@host"):
        assert said in top
    assert "2 min 30 s" in top
    assert re.search(r"changed\s+3.*refused\s+1", top)
    assert re.search(r"cluster\s+eu\s+apply\s+yes\s+topic\s+not set\s+groups\s+a, b", top)
    assert html.count("Reset") == 2  # <title> and <h1>: not once more in the body


def test_a_cell_that_ran_is_not_called_unexecuted(export: Export) -> None:
    """What was applied after a chart that failed was applied; what has no output was not run."""
    failed = new_code_cell("chart()", outputs=[new_output("error", ename="E", evalue="no chart")])
    after = [new_code_cell("apply()", execution_count=2), new_code_cell("verify()")]

    html = export(failed, *after)

    assert 1 == html.count("Not executed")
    assert html.index(">apply<") < html.index("Not executed") < html.index(">verify<")


def test_without_a_result(export: Export) -> None:
    """A notebook that no runner ran has a report, too, with the title of its first heading."""
    html = export(new_markdown_cell("# My <b>title"))

    assert "<h1>My &lt;b&gt;title</h1>" in html
    assert '<span class="ob-status">' not in html


def test_scaffolding_is_left_out(export: Export) -> None:
    """Neither parameters nor papermill's banners nor scripts for JupyterLab are in a report."""
    html = export(
        new_markdown_cell("banner", metadata={"tags": ["papermill-error-cell-tag"]}),
        new_markdown_cell("# Title"),
        new_markdown_cell("Which clusters."),
        new_code_cell("x: int = 1", metadata={"tags": ["parameters"]}),
        new_code_cell("x = 2", metadata={"tags": ["injected-parameters"]}),
        new_code_cell("1", outputs=[html_output("<p>live</p>", offsetbook_role="live-only")]),
        new_markdown_cell("## Kept"),
    )

    for gone in ("banner", "Which clusters", "x: int", "live</p>"):
        assert gone not in html
    assert "Title" in html
    assert "Kept" in html


def test_problems_move_to_the_top(export: Export) -> None:
    """What could not be read stands above the first step, and its old place says so."""
    problems = html_output("<p>no leader</p>", offsetbook_role="problems")
    html = export(new_markdown_cell("## Look"), cell(problems))

    assert html.count("no leader") == 1
    assert html.index("no leader") < html.index("<main") < html.index("Shown at the top")


def test_a_widget_needs_a_static_form(export: Export) -> None:
    """A widget shows its static HTML; one without is left out instead of shown as its repr."""
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "Box()"}
    widgets = (
        new_output("display_data", data=data) for data in (view, view | {"text/html": "still"})
    )
    html = export(*map(cell, widgets))

    assert "Box()" not in html
    assert "still" in html


def test_a_report_has_only_the_libraries_it_needs(export: Export) -> None:
    """Without charts and tables it has none, and nothing to fetch."""
    assert len(export(new_markdown_cell("# Look"))) < 30_000
    html = export(new_markdown_cell("# Look"), new_code_cell("1"), result=RESULT)

    assert not re.search(r"""(src|href)=["'](?!#|data:)""", html)
    assert "http" not in re.sub(r'http-equiv="[^"]+"', "", html)


def test_script_end_in_a_figure(export: Export) -> None:
    """A name in a figure cannot end the block of data that it travels in."""
    html = export(cell(figure(type="bar", y=["</script><script>alert(1)</script>"])))

    assert "alert(1)</script" not in html
    assert "alert(1)\\u003c/script" in html


class _Tags(HTMLParser):
    """The tags of a page's body, as a browser finds them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(html[html.index("<body>") :])

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - as the parser calls it
        self.found.append(tag)


@pytest.mark.parametrize(
    "hostile",
    [
        '<meta http-equiv="refresh" content="0;url=https://example.com">',
        '<META\nHTTP-EQUIV=refresh content="0;url=https://example.com">',
        '<link rel="preconnect" href="https://example.com">',
        '<base href="https://example.com">',
        '<form action="https://example.com"><button>x</button></form>',
        '<iframe srcdoc="<meta http-equiv=refresh content=0>"></iframe>',
    ],
)
def test_nothing_leaves_the_page_without_a_click(export: Export, hostile: str) -> None:
    """HTML of a notebook cannot navigate: neither an output, a picture, Markdown nor a heading."""
    svg = f"<svg xmlns='http://www.w3.org/2000/svg'><foreignObject>{hostile}</foreignObject></svg>"
    texts = (output(kind, hostile) for kind in ("text/html", "text/markdown", "text/plain"))
    heading = new_markdown_cell(f"# {hostile}\n\n{hostile}\n\n## {hostile}")
    html = export(heading, cell(*texts, output("image/svg+xml", svg)))

    assert not {"meta", "link", "base", "form", "iframe"} & {*_Tags(html).found}
    assert "p" in _Tags(html).found


@pytest.mark.parametrize(
    ("findings", "tone", "looks", "says"),
    [
        (7, "bad", "ob-tone-bad", "7 findings"),
        (7, "", "ob-tone-warn", "7 findings"),
        (0, "good", "ob-tone-good", "Done"),
    ],
)
def test_the_colour_is_that_of_the_findings(
    export: Export, findings: int, tone: str, looks: str, says: str
) -> None:
    """A run that went well and found something is not green; the worst stands at the top."""
    worst = "<p>billing is stuck</p>"
    metadata = {"offsetbook_role": "headline"} | ({"offsetbook_tone": tone} if tone else {})
    result = {**RESULT, "status": "done", "counts": {"findings": findings}}
    top, _, rest = export(cell(html_output(worst, **metadata)), result=result).partition("<main>")

    assert f'<header class="ob-top {looks} ob-done">' in top
    assert f'<span class="ob-status">{says}</span>' in top
    assert (True, False) == (worst in top, worst in rest)
    assert '<details class="ob-about">' in top


@pytest.mark.parametrize(
    ("dry_run", "says"), [(True, "Dry run: nothing was changed"), (False, "Done")]
)
def test_the_outcome_of_a_change_is_at_the_top(export: Export, says: str, *, dry_run: bool) -> None:
    """Findings are notes on its plan: none of them hides whether it was made."""
    result = RESULT | {"status": "done", "parameters": {"dry_run": dry_run}}
    html = export(result=result | {"counts": {"findings": 7, "planned": 3}})

    assert f'<span class="ob-status">{says}</span>' in html
    assert re.search(r"findings</dt>\s*<dd>7", html)


def test_a_chart_brings_no_more_of_plotly_than_it_needs(export: Export) -> None:
    """Bars and heatmaps need the build that draws axes, which is of the installed version."""
    small = export(cell(figure(type="bar"), figure(type="heatmap")))
    whole = export(cell(figure(type="bar"), figure(type="treemap")))

    assert b64encode(PLOTLY_CARTESIAN.read_bytes()).decode() in small
    assert 2 * len(small) < len(whole)
    banner = gzip.decompress(PLOTLY_CARTESIAN.read_bytes())[:100].decode()
    assert f"plotly.js (cartesian - minified) v{get_plotlyjs_version()}" in banner
    assert get_plotlyjs_version() in PLOTLY_CARTESIAN.name


def test_a_report_of_2000_rows_can_be_mailed(export: Export, shown: Any) -> None:
    """2,000 rows as in the report of unsubscribed offsets, and a chart, are at most 1.5 MB."""
    rows = pd.DataFrame({"cluster": ["production-eu"] * ROW_CAP})
    rows["group"] = [f"payments-service-{row // 40:03}" for row in range(ROW_CAP)]
    rows["topic"] = [f"orders.created.{row % 40:02}" for row in range(ROW_CAP)]
    for place, name in enumerate(("partition", "lag", "committed", "lost"), start=1):
        rows[name] = range(place, ROW_CAP + place)
    rows["group_lag_share"] = [row / ROW_CAP for row in range(ROW_CAP)]
    rows["committed_at"] = pd.Timestamp("2026-03-01T10:00:00Z")
    rows["why"] = "none of the 2 members subscribes"
    show_table(rows)

    html = export(cell(html_output(shown.html), figure(type="bar")))

    assert len(html.encode()) <= 1_500_000
