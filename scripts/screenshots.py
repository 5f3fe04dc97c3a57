"""
Take the pictures of the documentation anew, from the sandbox: `make screenshots`.

They are of what a newcomer sees: JupyterLab on the seeded cluster, and a report in a browser.
"""

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import BrowserContext, expect, sync_playwright

from toolkit.runner.run_notebook import run_notebook
from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.seed import POISON
from widgets.pickers import NEXT

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))  # the JupyterLab that the tests start

from chromium import chromium  # noqa: E402 - found by the line above
from lab import BROWSER, Lab, lab_context, open_notebook, running_lab  # noqa: E402


def main() -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="offsetbook-screenshots-") as folder:
        sandbox = Sandbox(Path(folder) / "sandbox")
        try:
            sandbox.up(["eu"])
            where = {
                "cluster": "eu",
                "fleet_file": str(sandbox.fleet_file),
                "state": str(Path(folder) / "state"),
            }
            report = fleet_report(Path(folder), sandbox.fleet_file)
            with running_lab(Path(folder) / "lab") as lab, sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium(), args=list(BROWSER))
                with lab_context(browser) as context:
                    board(context, lab, where)
                    review(context, lab, where)
                    trouble(context, lab, where)
                    choice(context, lab, where)
                page = browser.new_page(viewport={"width": 1200, "height": 900})
                page.goto(report.as_uri())
                page.wait_for_selector("html[data-ready=yes]", timeout=60_000)
                page.get_by_role("heading", name="Group health").evaluate(
                    "heading => heading.scrollIntoView({behavior: 'instant'})"
                )
                page.screenshot(path=IMAGES / "fleet_report.png")
                browser.close()
        finally:
            sandbox.down()
    for image in sorted(IMAGES.glob("*.png")):
        print(f"{image.relative_to(ROOT)}: {image.stat().st_size // 1000} kB")


def fleet_report(folder: Path, fleet_file: Path) -> Path:
    parameters = {"clusters": ["eu"], "fleet_file": str(fleet_file)}
    notebook = ROOT / "notebooks" / "10_fleet_lag.ipynb"
    result = run_notebook(notebook, parameters=parameters, output_dir=folder / "runs")
    return result.folder / "report.html"


def board(context: BrowserContext, lab: Lab, where: dict[str, str]) -> None:
    """The partitions of the group with the poison record, the stuck one chosen."""
    notebook = open_notebook(context, lab, lab.copy(40, "board", **where, groups=["fraud-check"]))
    notebook.run_all()
    tile = notebook.board.locator(".ow-tile").nth(POISON.partition)
    expect(tile).to_contain_text("lagging")
    tile.click()
    notebook.board.screenshot(path=IMAGES / "pause_board.png")
    notebook.page.close()


def review(context: BrowserContext, lab: Lab, where: dict[str, str]) -> None:
    """A plan that waits for its approval."""
    wish = {"groups": ["nightly-export"], "mode": "to-earliest"}
    notebook = open_notebook(context, lab, lab.copy(50, "review", **where, **wish))
    notebook.run_all()
    notebook.approve("replay after the fix of the export", "nightly-export")
    expect(notebook.apply).to_be_enabled()
    notebook.review.screenshot(path=IMAGES / "plan_review.png")
    notebook.page.close()


def trouble(context: BrowserContext, lab: Lab, where: dict[str, str]) -> None:
    """The record the group is stuck on (poison pill)."""
    notebook = open_notebook(context, lab, lab.copy(90, "trouble", **where, groups=["fraud-check"]))
    notebook.run_all()
    notebook.page.locator(".ob-record, .ob-records").first.scroll_into_view_if_needed()
    notebook.page.screenshot(path=IMAGES / "stuck_record.png")
    notebook.page.close()


def choice(context: BrowserContext, lab: Lab, where: dict[str, str]) -> None:
    """A group that is chosen by hand, and how many records wait in each of its partitions."""
    path = lab.copy(90, "choice", **where, groups=[], sample_interval="2s")
    notebook = open_notebook(context, lab, path)
    notebook.menu("Run", "Run All Cells")
    expect(notebook.failed).to_contain_text("select one above", timeout=60_000)
    picker = notebook.page.locator(".ow-card").first
    picker.locator(".widget-dropdown select").last.select_option("Lag (largest first)")
    listed = picker.locator(".ow-list option")
    expect(listed.first).to_contain_text("nightly-export")
    listed.filter(has_text="fraud-check").click()
    expect(picker).to_contain_text(NEXT)
    picker.screenshot(path=IMAGES / "group_picker.png")
    notebook.run_from("picker.picked")
    chart = notebook.page.locator(".ow-card").filter(has=notebook.page.locator(".js-plotly-plot"))
    chart.screenshot(path=IMAGES / "lag_chart.png")
    notebook.page.close()


if __name__ == "__main__":
    main()
