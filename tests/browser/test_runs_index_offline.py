from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import expect
from watched_pages import DARK, HOSTILE, PHONE, WITHOUT_SCRIPTS, Watched

from toolkit.report.runs_index import MOST, RunRow, write_index

pytestmark = pytest.mark.browser("a report")

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STATUSES = ("done", "dry run", "failed", "blocked", "kernel-died")
WORDS = "eu: 4 unsubscribed offsets in 2 groups, 6,792 records of lag that nobody will read"


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a list of 42 runs of every kind, of which the second leads to a report."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "run-1").mkdir()
    (folder / "run-1" / "report.html").write_text("<h1>The report</h1>")
    rows = [
        RunRow(
            folder=f"run-{number}",
            status=STATUSES[number % len(STATUSES)],
            summary=WORDS,
            notebook="20_find_unsubscribed_offsets",
            clusters=("eu", "us"),
            changed="nothing",
            problems=number,
            began=NOON - timedelta(hours=number),
            took_s=7.5 * number,
            who="ana@host",
            report="report.html" if number == 1 else "",
        )
        for number in range(40)
    ]
    rows += [RunRow("broken", "no result", "result.json is not JSON")]
    rows += [RunRow(HOSTILE, HOSTILE, HOSTILE, clusters=(HOSTILE,), who=HOSTILE, changed=HOSTILE)]
    write_index(rows, folder / "index.html", of=HOSTILE)
    return folder / "index.html"


def test_asks_nothing_of_the_network(watched: Watched, index: Path) -> None:
    """The list is one file; nothing on it asks for more, complains, or is taken for mark-up."""
    watched.open(index)

    watched.is_one_quiet_file()
    expect(watched.page.locator(".ob-kicker")).to_contain_text(HOSTILE)
    assert 0 == watched.page.locator("img").count()
    watched.screenshot("runs_index")


def test_it_sorts_searches_and_links_to_reports(watched: Watched, index: Path) -> None:
    """
    The newest run is first; problems and durations sort as numbers.

    The search sees all runs, also those that are not on the page of the table. A click on the
    notebook's name opens the report; without a report there is no link.
    """
    watched.open(index)
    page = watched.page

    expect(page.locator("tbody tr td").first).to_have_text("2026-03-01 12:00:00")
    links = page.locator("tbody a")
    expect(links).to_have_count(1)
    for heading, column, largest in (("Problems", 6, "39"), ("Took", 7, "4 min 52 s")):
        head = page.locator("thead th", has_text=heading)
        head.click()
        head.click()
        cell = page.locator(f"tbody tr:first-child td:nth-child({column})")
        expect(cell).to_have_text(largest)

    search = page.locator(".dt-search input")
    search.fill("is not JSON")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("no result")

    search.fill("2026-03-01 11:00:00")
    expect(links).to_have_count(1)
    links.click()
    expect(page.locator("h1")).to_have_text("The report")


@pytest.mark.parametrize("watched", [PHONE], indirect=True)
def test_on_a_phone_each_run_is_a_card(watched: Watched, index: Path) -> None:
    """Nothing is wider than the screen, nothing scrolls sideways, and each value has its name."""
    watched.open(index)
    page = watched.page

    assert watched.width <= 390
    scroll = page.locator(".ob-scroll").evaluate("box => box.scrollWidth - box.clientWidth")
    assert scroll <= 0
    name = "getComputedStyle(document.querySelector('td[data-name=Status]'), '::before').content"
    assert '"Status"' == page.evaluate(name)
    watched.screenshot("runs_index_phone")


@pytest.mark.parametrize("watched", [DARK], indirect=True)
def test_status_has_a_word_and_a_colour(watched: Watched, index: Path) -> None:
    """How a run ended is a word, and good, doubtful and bad endings differ in colour as well."""
    watched.open(index)
    page = watched.page
    colours = {
        status: page.locator("tbody .ob-status", has_text=status).first.evaluate(
            "pill => getComputedStyle(pill).color"
        )
        for status in ("done", "blocked", "failed")
    }

    assert 3 == len(set(colours.values()))
    assert "rgb(18, 23, 29)" == page.evaluate("getComputedStyle(document.body).backgroundColor")
    watched.screenshot("runs_index_dark")


def test_on_paper_all_runs_are_there(watched: Watched, index: Path) -> None:
    """Printed, the list has every run and fits the width."""
    watched.page.set_viewport_size({"width": 700, "height": 900})
    watched.open(index)
    watched.print_out()

    expect(watched.page.locator("tbody tr")).to_have_count(42)
    assert watched.width <= 700
    watched.screenshot("runs_index_print")


@pytest.mark.parametrize("watched", [WITHOUT_SCRIPTS], indirect=True)
def test_complete_without_scripts(watched: Watched, index: Path) -> None:
    """Without JavaScript every run is in the list."""
    watched.page.goto(index.resolve().as_uri())

    expect(watched.page.locator("tbody tr")).to_have_count(42)


def test_a_long_list_is_cut_with_a_note(watched: Watched, tmp_path: Path) -> None:
    """Runs that do not fit on a page are counted, and an empty list says that there are none."""
    rows = [RunRow(f"run-{number}", "done", "") for number in range(MOST + 5)]
    write_index(rows, tmp_path / "long.html", of="runs")
    write_index([], tmp_path / "empty.html", of="runs")

    watched.open(tmp_path / "long.html")
    expect(watched.page.locator(".ob-cut")).to_have_text("Showing the newest 2,000 of 2,005 runs.")
    watched.open(tmp_path / "empty.html")
    expect(watched.page.locator(".ob-summary")).to_contain_text("No runs yet")
    assert [] == watched.complaints
