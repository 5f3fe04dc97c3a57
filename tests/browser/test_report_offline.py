from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from playwright.sync_api import expect
from small_notebooks import write_notebook
from watched_pages import DARK, HOSTILE, PHONE, WITHOUT_SCRIPTS, Watched

from toolkit.report.tables import table_bundle, table_columns
from toolkit.runner.run_notebook import run_notebook

pytestmark = pytest.mark.browser("a report")

MakeReport = Callable[..., Path]
LOOK = f"""\
import pandas as pd
import plotly.graph_objects as go
from toolkit.model import Problem, Unread
from toolkit.planning.frames.snapshot_frames import problems_frame
from toolkit.report.safe_names import plain
from toolkit.report.figures import show_figure
from toolkit.report.tables import show_problems, show_table
hostile = {HOSTILE!r}
problem = Problem(Unread.LOG_OFFSETS, "no leader for " + hostile, topic=hostile, partition=3)
show_problems(problems_frame([problem], cluster="eu"))
groups = [f"billing-{{number:02}}" for number in range(40)] + [hostile]
lag = [1000 * number for number in range(40)] + [None]
at = pd.Timestamp("2026-01-02T03:04:05Z")
frame = pd.DataFrame({{"group": groups, "lag": lag, "topic": "orders" * 40, "at": at}})
frame["end"] = [900 * number for number in range(41)]
show_table(frame, caption_text="Groups of " + hostile)
"""
CHART = """\
figure = go.Figure(go.Bar(x=frame["lag"].fillna(1), y=frame["group"], orientation="h"))
link = "<a href='http://evil.invalid'>link</a>"
figure.add_bar(x=[9000], y=[link], orientation="h", name=hostile)
figure.update_layout(title="Lag of " + plain(hostile), height=900)
show_figure(figure)
show_figure(go.Figure(go.Bar(x=[1, 2], y=[2, 1]), layout={"height": 400}))
"""
CONCLUDE = """\
from toolkit.report.conclusion import conclude
from toolkit.report.headline import show_headline
from toolkit.report.next_step_list import ShownStep
steps = [ShownStep("Next: diagnose " + hostile, "It only reads.", "90", {"group": hostile}, "run")]
show_headline(frame[["group", "lag"]], title="Worst groups", tone="bad", steps=steps)
conclude("41 groups, one of them " + hostile, findings=41, problems=1)
"""


@pytest.fixture(scope="module")
def make_report(tmp_path_factory: pytest.TempPathFactory) -> MakeReport:
    """Return a function that runs a notebook with these last cells and returns its report."""
    folder = tmp_path_factory.mktemp("reports")

    def make(*last_cells: str, name: str) -> Path:
        cells = ("# Lag of the fleet\n\nRead-only.", "## Look", LOOK, CHART, "## Conclusion")
        path = write_notebook(
            folder, *cells, *last_cells, parameters='cluster: str = ""', name=name
        )
        result = run_notebook(path, parameters={"cluster": HOSTILE}, output_dir=folder)
        return result.folder / "report.html"

    return make


WIDE = """\
pause = {"topic": "orders.confirmed", "partition": 1, "host": "runner-17.batch.example"}
pause |= {"paused_since": at, "subscribed": "orders.confirmed, " * 40, "owner": "one @ /10.0.0.1"}
pause |= {"committed": 17, "log_end": 4711, "rack": "", "request": "pause orders.confirmed:1"}
pause |= {"paused_until": at, "why": "a poison record, of which the team has been told twice"}
show_table(pd.DataFrame([pause] * 30), caption_text="Wide")
"""


@pytest.fixture(scope="module")
def report(make_report: MakeReport) -> Path:
    return make_report(CONCLUDE, name="10_done")


@pytest.fixture(scope="module")
def failed_report(make_report: MakeReport) -> Path:
    """Run a notebook whose last step but one fails."""
    return make_report("raise RuntimeError('no answer about ' + hostile)", "1", name="11_failed")


def test_drawn_without_the_network_and_every_name_is_text(watched: Watched, report: Path) -> None:
    """
    An opened report sends no request besides its own file, and nothing on it complains.

    The worst findings and the next step are on the first screen; parameters are folded. A name that
    is mark-up is shown as text in title, table, problems, chart and parameters. The
    chart is a picture with its bars.
    """
    watched.open(report)
    page = watched.page

    expect(page.locator(".ob-chart svg.main-svg").first).to_be_visible()
    assert page.locator(".ob-chart .bars path").count() > 40
    watched.screenshot("report_done")
    first_screen = page.viewport_size["height"]
    for part in (".ob-worst table.ob-data", ".ob-worst .ob-steps"):
        box = page.locator(part).bounding_box()
        assert box["y"] + box["height"] < first_screen
    expect(page.locator(".ob-parameters")).to_be_hidden()
    expect(page.locator(".ob-kicker")).to_contain_text(HOSTILE)
    expect(page.locator(".ob-summary")).to_contain_text(HOSTILE)
    expect(page.locator(".ob-parameters")).to_contain_text(HOSTILE)
    expect(page.locator(".ob-problems td").first).to_be_visible()
    expect(page.locator(".ob-problems")).to_contain_text(f"no leader for {HOSTILE}")
    expect(page.locator("main figcaption")).to_have_text(f"Groups of {HOSTILE}")
    expect(page.locator("main .gtitle")).to_have_text(f"Lag of {HOSTILE}")
    expect(page.locator(".legendtext").last).to_have_text(HOSTILE)
    assert page.locator("main img, main a[href^=http], main svg a").count() == 0
    watched.is_one_quiet_file()


SIGHT = """figure => {
    const scroll = figure.querySelector(".ob-scroll");
    const edge = scroll.getBoundingClientRect().right;
    const seen = [...figure.querySelectorAll("th")]
        .filter(head => head.getBoundingClientRect().right <= edge)
        .map(head => head.querySelector(".dt-column-title").innerText);
    const line = parseFloat(getComputedStyle(figure.querySelector("td")).lineHeight);
    const rows = [...figure.querySelectorAll("tbody tr")];
    const tallest = Math.max(...rows.map(row => row.getBoundingClientRect().height));
    return {width: scroll.clientWidth, all: scroll.scrollWidth, seen, lines: tallest / line};
}"""


def test_a_wide_table_has_the_whole_window(watched: Watched, make_report: MakeReport) -> None:
    """
    A table is as wide as the window, and on a narrow one the end and the reason stay in sight.

    What is out of sight makes no row taller than four lines, and an empty column is not there. How
    many rows there are, and the way to the others, stays where it is while the table scrolls.
    """
    watched.page.set_viewport_size({"width": 1920, "height": 1080})
    watched.open(make_report(WIDE, name="12_wide"))
    figure = watched.page.locator("main .ob-table").last

    desk = figure.evaluate(SIGHT)
    watched.screenshot("wide_table_1920")
    assert desk["width"] > 1800
    watched.page.set_viewport_size({"width": 1000, "height": 1080})
    narrow = figure.evaluate(SIGHT)
    watched.screenshot("wide_table_1000")
    assert ["Topic", "Partition", "Paused until", "Why"] == narrow["seen"][:4]
    assert narrow["all"] > narrow["width"]
    assert narrow["lines"] < 4
    expect(figure.locator(".dt-info")).to_have_text("1 to 25 of 30 rows")
    pages = figure.locator(".dt-paging").bounding_box()
    assert pages["x"] + pages["width"] <= 1000
    assert 0 == figure.locator(".ob-scroll :is(.dt-info, .dt-paging, .dt-search)").count()
    expect(figure.locator(".ob-left-out")).to_have_text("Empty columns, left out: rack.")


def test_table_sorts_as_numbers_and_searches_and_code_is_folded(
    watched: Watched, report: Path
) -> None:
    """
    A click sorts by number, and what is missing never comes first as the largest.

    The search finds rows on another page of the table. Code is hidden until it is asked for.
    """
    watched.open(report)
    table = watched.page.locator("main table.ob-data")
    lags = table.locator("tbody tr td:nth-child(2)")

    table.locator("thead th", has_text="lag").click()
    expect(lags.nth(0)).to_have_text("\N{EN DASH}")
    expect(lags.nth(1)).to_have_text("0")
    table.locator("thead th", has_text="lag").click()
    expect(lags.nth(0)).to_have_text("39,000")

    expect(table).not_to_contain_text(HOSTILE)
    watched.page.locator("main .dt-search input").fill("onerror")

    rows = watched.page.locator("main table.ob-data tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(HOSTILE)

    watched.page.locator("main .dt-search input").fill("")
    ends = table.locator("tbody tr td:nth-child(5)")
    table.locator("thead th", has_text="end").click()
    expect(ends.nth(1)).to_have_text("900")
    table.locator("thead th", has_text="end").click()
    expect(ends.nth(0)).to_have_text("36,000")

    code = watched.page.locator(".ob-source .highlight").first
    expect(code).to_be_hidden()
    watched.page.get_by_role("button", name="Show code").click()
    expect(code).to_be_visible()


NOT_WHOLE = """() => {
    const cells = [...document.querySelectorAll("td:not(.phrase, .sentence), th")];
    const lines = (cell, part) => {
        const range = document.createRange();
        range.setStart(cell, part.index);
        range.setEnd(cell, part.index + part[0].length);
        return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size;
    };
    const text = (cell) => document.createTreeWalker(cell, NodeFilter.SHOW_TEXT).nextNode();
    const broken = cells.map(text).filter(Boolean).filter((node) =>
        [...node.data.matchAll(/[^\\s-]+/g)].some((part) => lines(node, part) > 1));
    return broken.map((node) => node.data);
}"""
DRAWN = """() => [...document.querySelectorAll(".ob-chart")].map((chart) => {
    const place = chart.getBoundingClientRect();
    const inside = (box) => box.top >= place.top && box.bottom <= place.bottom;
    const bars = [...chart.querySelectorAll(".bars path")];
    return bars.length > 0 && bars.every((bar) => inside(bar.getBoundingClientRect()));
})"""

ACTIVITY = (
    *("window_from", "commits", "commits_per_s", "expirations", "deletions", "removals"),
    *("rebalances", "bytes_per_s", "complete", "commits_too_often", "why"),
)

WIDTHS = """() => [...document.querySelectorAll(".ob-chart")]
    .map((chart) => chart.querySelector(".main-svg").getAttribute("width"))"""


def test_print_shows_all_rows_whole_numbers_and_every_chart(watched: Watched, report: Path) -> None:
    """
    On paper a table has all its rows and fits, also one of 13 columns; the page is as before after.

    Numbers, times, names and headings are not broken, and no chart is lost or wider than the paper.
    """
    watched.open(report)
    rows = watched.page.locator("main table.ob-data tbody tr")
    expect(rows).to_have_count(25)

    watched.print_out()
    assert ["700", "700"] == watched.page.evaluate(WIDTHS)
    watched.page.set_viewport_size({"width": 720, "height": 1000})
    expect(rows).to_have_count(41)
    assert watched.width <= 720
    assert [] == watched.page.evaluate(NOT_WHOLE)
    assert [True, True] == watched.page.evaluate(DRAWN)
    activity = {"cluster": "production-eu", "group": "settlement-reconciler"} | dict.fromkeys(
        ACTIVITY, 123_456
    )
    activity |= {
        "window_from": pd.Timestamp("2026-01-02T03:04:05Z"),
        "complete": True,
        "why": "1 a",
    }
    wide = table_bundle(table_columns(pd.DataFrame([activity])))["text/html"]
    watched.page.evaluate("(it) => document.body.insertAdjacentHTML('beforeend', it)", wide)
    assert watched.width <= 720
    watched.screenshot("report_print")

    watched.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    expect(rows).to_have_count(25)


def test_failed_step_on_top(watched: Watched, failed_report: Path) -> None:
    """The report of a failed run says at its top which step failed and why."""
    watched.open(failed_report)
    error = watched.page.locator(".ob-error")

    expect(error).to_contain_text("Failed at: Conclusion")
    expect(error).to_contain_text(f"RuntimeError: no answer about {HOSTILE}")
    expect(watched.page.locator(".ob-cell.ob-not-run")).to_have_count(1)
    anchor = error.get_by_role("link").get_attribute("href")
    expect(watched.page.locator(f"{anchor}.ob-failed")).to_contain_text("This cell failed")
    assert watched.complaints == []
    watched.screenshot("report_failed")


@pytest.mark.parametrize("watched", [PHONE], indirect=True)
def test_fits_a_phone(watched: Watched, report: Path) -> None:
    """On a phone nothing makes the page wider than the screen."""
    watched.open(report)

    assert watched.width <= 390
    watched.screenshot("report_phone")


@pytest.mark.parametrize("watched", [DARK], indirect=True)
def test_dark(watched: Watched, report: Path) -> None:
    """Where people prefer dark, page and charts are light on dark."""
    watched.open(report)

    page = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
    label = watched.page.evaluate(
        "getComputedStyle(document.querySelector('.ob-chart .xtick text')).fill"
    )
    assert page == "rgb(18, 23, 29)"
    assert label == "rgb(228, 233, 239)"
    watched.screenshot("report_dark")


def test_an_unescaped_name_is_not_executed(watched: Watched, make_report: MakeReport) -> None:
    """Where a notebook forgets to escape, the page's policy still keeps the name from running."""
    source = "from IPython.display import HTML\nHTML(hostile + '<script>alert(2)</script>')"

    watched.open(make_report(source, name="12_careless"))

    assert "dialog" not in watched.complaints


@pytest.mark.parametrize("watched", [WITHOUT_SCRIPTS], indirect=True)
def test_complete_without_scripts(watched: Watched, report: Path) -> None:
    """Without JavaScript every row is there, and the chart says in words what it would show."""
    page = watched.page
    page.goto(report.resolve().as_uri())

    expect(page.locator("main table.ob-data tbody tr")).to_have_count(41)
    expect(page.locator(".ob-chart").first).to_contain_text("Chart (bar)")


@pytest.mark.default("needs no browser")
def test_size(report: Path) -> None:
    """A report with charts and tables stays small enough to send by mail."""
    assert report.stat().st_size < 3_000_000
