"""Records, next steps and charts in a report, on a phone and in the dark."""

from pathlib import Path

import pytest
from playwright.sync_api import expect
from small_notebooks import write_notebook
from watched_pages import DARK, HOSTILE, PHONE, Watched

from toolkit.runner.run_notebook import run_notebook

pytestmark = pytest.mark.browser("a report")

RECORDS = f"""\
from datetime import UTC, datetime
from toolkit.model import TopicPartition
from toolkit.model.records import Excerpt, Header, Record
from toolkit.report.peek_report import show_record_cards
from toolkit.report.next_step_list import ShownStep, show_steps
hostile = {HOSTILE!r}
place, at = TopicPartition("orders.created", 3), datetime(2026, 3, 1, tzinfo=UTC)
values = [b'{{"id": 1, "name": "' + hostile.encode() + b'"}}', bytes(range(200)), b"x" * 9000, None]
records = [
    Record(place, 4 + n, at, False, Excerpt(hostile.encode(), 28), v and Excerpt(v[:4000], len(v)),
           (Header(hostile, Excerpt(hostile.encode(), 28)),))
    for n, v in enumerate(values)
]
show_record_cards(records, {{place: 5}})
parameters = {{"group": hostile, "topics": ["orders.created:3"]}}
command = "offsetbook run 40_pause_partitions -p 'group=" + hostile + "'"
step = ShownStep("Pause " + hostile, "Why", "40_pause_partitions", parameters, command)
show_steps([step])
"""
CHART = """\
import plotly.graph_objects as go
from toolkit.report.figures import show_figure
bars = [go.Bar(name=name, x=[2, 3], y=["payments", "billing"], orientation="h")
        for name in ("topics it reads", "left-over topics", "a third one", "a fourth one")]
figure = go.Figure(bars)
figure.update_layout(title="Lag of the groups that are most behind over all clusters, in records",
                     height=220, xaxis={"title": "records"}, legend={"traceorder": "normal"})
show_figure(figure)
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run a notebook that shows records, steps and a chart with a long title."""
    folder = tmp_path_factory.mktemp("records")
    path = write_notebook(folder, "# Records", RECORDS, CHART)
    result = run_notebook(path, parameters={}, output_dir=folder)
    assert "done" == result.status, result
    return result.folder / "report.html"


def box(watched: Watched, selector: str) -> dict[str, float]:
    found: dict[str, float] = watched.page.locator(selector).first.bounding_box()
    return found


def test_records_are_text(watched: Watched, report: Path) -> None:
    """Whatever a record holds is text in its card, and nothing of it is fetched or executed."""
    watched.open(report)
    cards = watched.page.locator(".ob-record")

    expect(cards).to_have_count(4)
    expect(cards.nth(0)).to_contain_text(f'"name": "{HOSTILE}"')
    expect(cards.nth(0).locator("dt code")).to_have_text(HOSTILE)
    expect(watched.page.locator(".ob-record.ob-next")).to_contain_text("Offset 5")
    expect(cards.nth(1)).to_contain_text("00 01 02")
    expect(cards.nth(2)).to_contain_text("truncated: first 2,000 of 9,000 bytes")
    expect(cards.nth(3)).to_contain_text("null")
    expect(watched.page.locator(".ob-steps")).to_contain_text(f"group = '{HOSTILE}'")
    assert 0 == watched.page.locator("main img, main a[href$=ipynb]").count()
    watched.is_one_quiet_file()
    watched.screenshot("records")


@pytest.mark.parametrize("watched", [PHONE], indirect=True)
def test_records_fit_a_phone(watched: Watched, report: Path) -> None:
    """On a phone no record makes the page wider, and its content stands under its name."""
    watched.open(report)
    key, value = box(watched, ".ob-record dt"), box(watched, ".ob-record dd")

    assert watched.width <= 390
    assert value["y"] >= key["y"] + key["height"] - 1
    watched.screenshot("records_phone")


@pytest.mark.parametrize("watched", [PHONE], indirect=True)
def test_charts_fit_a_phone(watched: Watched, report: Path) -> None:
    """A long title takes several lines, and the legend stands under the axis and its title."""
    watched.open(report)
    title, chart = box(watched, ".gtitle"), box(watched, ".ob-chart")
    legend, axis, plot = (box(watched, f".{n}") for n in ("legend", "xtitle", "barlayer"))

    assert title["x"] + title["width"] <= chart["x"] + chart["width"]
    assert title["y"] + title["height"] <= plot["y"] + 1
    assert legend["y"] >= axis["y"] + axis["height"] - 2
    assert legend["y"] + legend["height"] <= chart["y"] + chart["height"] + 1


def test_charts_are_as_made_where_there_is_room(watched: Watched, report: Path) -> None:
    """On a wide screen the title is one line."""
    watched.open(report)

    expect(watched.page.locator(".gtitle")).to_have_text(
        "Lag of the groups that are most behind over all clusters, in records"
    )
    assert box(watched, ".gtitle")["height"] < 30


@pytest.mark.parametrize("watched", [DARK], indirect=True)
def test_records_in_the_dark(watched: Watched, report: Path) -> None:
    """Where people prefer dark, what a record holds is light on dark."""
    watched.open(report)
    colour = "getComputedStyle(document.querySelector('.ob-record pre')).color"

    assert "rgb(228, 233, 239)" == watched.page.evaluate(colour)
    watched.screenshot("records_dark")
