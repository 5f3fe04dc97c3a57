"""
How long people wait for notebooks, in a real JupyterLab with a real cluster and browser.

Three things, each in turn several times: from opening the troubleshooting notebook to its first
table and to its end; the group picker with 20,000 groups, from running its cell to its first
paint, and from a key to the list it gives; and how large a report is and how long it takes to open.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright
from small_options import parse_options

from toolkit.runner.run_notebook import run_notebook
from toolkit.sandbox.fleet import Sandbox

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))  # the JupyterLab that the tests start

from lab import Lab, lab_context, open_notebook, running_lab  # noqa: E402 - is found by the line above

GROUPS = 20_000
PICKER = f"""\
import pandas as pd
import widgets
frame = pd.DataFrame({{"group": [f"payments-service-{{n:05}}" for n in range({GROUPS})]}})
frame = frame.assign(state="Stable", type="classic", members=3, lag=frame.index)
widgets.group_picker(frame)"""
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")

Times = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parse_options(parser, rounds=1).rounds
    with tempfile.TemporaryDirectory(prefix="offsetbook-benchmark-") as folder:
        took, sizes = measure(Path(folder), rounds)
    print("\n".join(table(took, sizes, rounds)))


def measure(folder: Path, rounds: int) -> tuple[Times, dict[str, float]]:
    """Start everything, look at each thing some times, and end everything."""
    took: Times = defaultdict(list)
    sandbox = Sandbox(folder / "sandbox")
    try:
        sandbox.up(["eu"])
        reports = make_reports(folder, sandbox.fleet_file)
        with running_lab(folder / "lab") as lab, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
            with lab_context(browser) as context:
                for number in range(rounds + 1):
                    say(f"round {number}")
                    found = {
                        **troubleshoot(context, lab, sandbox.fleet_file),
                        **pick(context, lab),
                        **open_reports(browser, reports),
                    }
                    for name, seconds in found.items() if number else ():
                        took[name].append(seconds)
            browser.close()
    finally:
        sandbox.down()
    return took, {name: path.stat().st_size / 1e6 for name, path in reports.items()}


def make_reports(folder: Path, fleet_file: Path) -> dict[str, Path]:
    """Run two notebooks headlessly, and return their reports by what is in them."""
    made = {}
    for name, words in (
        ("90_troubleshoot_group", "tables"),
        ("20_find_unsubscribed_offsets", "chart"),
    ):
        parameters = {"cluster": "eu", "fleet_file": str(fleet_file)}
        if words == "tables":
            parameters["group"] = "fraud-check"
        path = ROOT / "notebooks" / f"{name}.ipynb"
        result = run_notebook(path, parameters=parameters, output_dir=folder / "runs")
        made[f"{name}, {words}"] = result.folder / "report.html"
    return made


def troubleshoot(context: BrowserContext, lab: Lab, fleet_file: Path) -> dict[str, float]:
    """Open notebook 90 and run it, up to its first table and to its end."""
    where = {"cluster": "eu", "fleet_file": str(fleet_file), "group": "fraud-check"}
    name = lab.copy(90, "trouble", **where)
    began = time.perf_counter()
    notebook = open_notebook(context, lab, name)
    ready = time.perf_counter()
    notebook.menu("Run", "Run All Cells")
    expect(notebook.page.locator("table.ob-data").first).to_be_visible(timeout=60_000)
    first = time.perf_counter()
    expect(notebook.last_prompt).to_have_text(re.compile(r"\[\d+\]"), timeout=90_000)
    ended = time.perf_counter()
    notebook.page.close()
    return {
        "notebook 90: opened, kernel ready": ready - began,
        "notebook 90: first table, from opening": first - began,
        "notebook 90: all of it, from opening": ended - began,
    }


def pick(context: BrowserContext, lab: Lab) -> dict[str, float]:
    """Show the picker, and type into its search box."""
    name = lab.write("pick", "import pandas, plotly, widgets\nprint('ready')", PICKER)
    notebook = open_notebook(context, lab, name)
    notebook.menu("Run", "Run All Cells")
    cells = notebook.page.locator(".jp-CodeCell")
    expect(cells.first.locator(".jp-OutputArea-output")).to_have_text("ready", timeout=60_000)
    began = time.perf_counter()
    card = notebook.page.locator(".ow-card").first
    expect(card.locator(".ow-list option").first).to_be_visible(timeout=60_000)
    painted = time.perf_counter()
    box = card.locator("input[type=text]")
    box.focus()
    keyed = time.perf_counter()
    notebook.page.keyboard.insert_text("19999")
    expect(card.locator(".ow-list option")).to_have_count(1, timeout=60_000)
    listed = time.perf_counter()
    notebook.page.close()
    return {
        f"group picker, {GROUPS:,} groups: first paint": painted - began,
        f"group picker, {GROUPS:,} groups: from a key to the list": listed - keyed,
    }


def open_reports(browser: Browser, reports: Mapping[str, Path]) -> dict[str, float]:
    """Open each report in a new page, until its tables and charts are there."""
    found = {}
    for name, path in reports.items():
        page = browser.new_page()
        began = time.perf_counter()
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
        found[f"report {name}: opened"] = time.perf_counter() - began
        page.close()
    return found


def table(took: Times, sizes: Mapping[str, float], rounds: int) -> Iterator[str]:
    packages = ", ".join(f"{name} {version(name)}" for name in ("jupyterlab", "ipywidgets"))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    yield (
        f"Median (lowest–highest) of {rounds} rounds, {datetime.now(UTC):%Y-%m-%d}. Python "
        f"{platform.python_version()}, {packages}; {platform.system()} {platform.machine()}, "
        f"{os.cpu_count()} CPUs, load average {load}."
    )
    yield ""
    yield "| | s |"
    yield "|---|---|"
    for name, seconds in took.items():
        yield f"| {name} | {spread(seconds)} |"
    yield ""
    for name, megabytes in sizes.items():
        yield f"Report {name}: {megabytes:.2f} MB."


def spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def chromium() -> str:
    names = ("chromium", "chromium-browser", "google-chrome")
    found = os.environ.get("OFFSETBOOK_CHROMIUM") or next(
        filter(None, map(shutil.which, names)), None
    )
    return found or sys.exit("no browser: install Chromium, or name one in OFFSETBOOK_CHROMIUM")


def say(words: str) -> None:
    print(words, file=sys.stderr)


if __name__ == "__main__":
    main()
