"""
How large a report with 2,000 rows is, and how long a browser takes to open it, offline.

Starts its own broker, on which two live groups have 1,000 unsubscribed offsets each, and runs the
notebook that finds them without Jupyter's page, as a runbook does. Chromium opens the report
without a network. Times are those of the page itself, from the start of its navigation:

    painted  the first text is on the screen
    ready    every table is sortable and every chart is drawn

CPU seconds are those of all of the browser's processes. What the page is made of is counted in its
file.
"""

import argparse
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import psutil
from measuring import markdown, new_parser, parse_options, say, spread
from playwright.sync_api import Browser, sync_playwright
from process_use import cpu_s
from snapshot import fill

from notebooks import QUIET, chromium, surroundings
from toolkit.model import Cluster
from toolkit.runner.run_notebook import run_notebook
from toolkit.sandbox.broker import start_broker

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))  # the applications that the tests start

from live_groups import start_live_group  # noqa: E402 - is found by the line above

NOTEBOOK = ROOT / "notebooks" / "20_find_unsubscribed_offsets.ipynb"
GROUPS = ("group-00000", "group-00001")  # as `fill` names them
READY_AT = """
new MutationObserver((_, watch) => {
  if (document.documentElement.dataset.ready !== "yes") return;
  window.readyAt = performance.now();
  watch.disconnect();
}).observe(document, { attributes: true, subtree: true, attributeFilter: ["data-ready"] });
"""
TIMES = """() => ({
  painted: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  ready: window.readyAt,
})"""
PARTS = {
    "chart library": r'(?s)<script type="text/plain" id="ob-plotly">.*?</script>',
    "table library": r'(?s)<script type="text/plain" id="ob-datatables">.*?</script>',
    "tables": r'(?s)<table class="ob-data.*?</table>',
    "styles": r"(?s)<style.*?</style>",
    "charts": r'(?s)<script type="application/json".*?</script>',
}


def main() -> None:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="offsetbook-benchmark-") as folder:
        report = _report(Path(folder), options.commits)
        taken: dict[str, list[float]] = defaultdict(list)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
            for number in range(options.rounds + 1):  # the first round warms up and is not counted
                for name, seconds in _open(browser, report).items():
                    if number:
                        taken[name].append(seconds)
            browser.close()
        text = report.read_text("utf-8")
    print("\n".join([surroundings(options.rounds), "", *_table(text, taken)]))


def _report(folder: Path, commits: int) -> Path:
    """Return the report about groups that no longer subscribe to what they have committed."""
    broker = start_broker(folder / "benchmark", on_step=say)
    try:
        fill(broker.address, len(GROUPS), commits)
        cluster = Cluster("benchmark", broker.address)
        fleet = folder / "fleet.yaml"
        fleet.write_text(f"clusters:\n  benchmark:\n    bootstrap.servers: {broker.address}\n")
        with ExitStack() as live:
            for group in GROUPS:
                start_live_group(cluster, "librdkafka-range", group, folder / group, live)
            parameters = {"fleet_file": str(fleet)}
            result = run_notebook(NOTEBOOK, parameters=parameters, output_dir=folder / "runs")
    finally:
        broker.stop()
    if result.counts["findings"] != len(GROUPS) * commits:
        sys.exit(f"not what was to be found: {result.summary}")
    return result.folder / "report.html"


def _open(browser: Browser, report: Path) -> dict[str, float]:
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.add_init_script(READY_AT)
    before_s = cpu_s(psutil.Process())
    page.goto(report.as_uri())
    page.wait_for_selector("html[data-ready=yes]", timeout=120_000)
    times = page.evaluate(TIMES)
    used_s = cpu_s(psutil.Process()) - before_s
    context.close()
    return {**{f"{name} s": value / 1000 for name, value in times.items()}, "CPU s": used_s}


def _table(text: str, taken: Mapping[str, list[float]]) -> Iterator[str]:
    rows = max(map(int, re.findall(r'data-rows="(\d+)"', text)))
    parts = {name: sum(map(len, re.findall(form, text))) for name, form in PARTS.items()}
    times = (spread(seconds) for seconds in taken.values())
    sizes = (f"{size / 1e6:.2f}" for size in (len(text.encode()), *parts.values()))
    return markdown(
        (f"{rows:,} rows", *taken, "MB", *parts), [("report of notebook 20", *times, *sizes)]
    )


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--commits", type=int, default=1000, help="of each group, at most 1,000")
    parser.add_argument("--rounds", type=int, default=5)
    return parse_options(parser, commits=20, rounds=1)


if __name__ == "__main__":
    main()
