"""
How long people wait for notebooks, in a real JupyterLab with a real cluster and browser.

Two things, each in turn several times: from opening a notebook to its first table, of which the
kernel's part is also told alone, in CPU seconds, because that does not depend on what else runs;
and the group picker with 20,000 groups, from running its cell to its first paint, and from a key to
the list it gives.
"""

import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import psutil
from measuring import machine, markdown, median_of, new_parser, parse_options, say, spread
from playwright.sync_api import BrowserContext, expect, sync_playwright
from process_use import cpu_s

from toolkit.sandbox.fleet import Sandbox

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))  # the JupyterLab that the tests start

from chromium import chromium  # noqa: E402 - is found by the line above
from lab import Lab, lab_context, open_notebook, running_lab  # noqa: E402

GROUPS = 20_000
PICKER = f"""\
import pandas as pd
import widgets
frame = pd.DataFrame({{"group": [f"payments-service-{{n:05}}" for n in range({GROUPS})]}})
frame = frame.assign(state="Stable", type="classic", members=3, lag=frame.index)
widgets.group_picker(frame)"""
# Those that only read, and what they are asked beside the fleet file.
NOTEBOOKS: dict[int, dict[str, Any]] = {
    10: {"clusters": ["eu"]},
    20: {"clusters": ["eu"]},
    30: {"clusters": ["eu"]},
    40: {"cluster": "eu", "groups": ["payments"], "topics": ["orders.created:0"]},
    90: {"cluster": "eu", "groups": ["fraud-check"]},
}
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking")

Times = dict[str, list[float]]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parse_options(parser, rounds=1).rounds
    with tempfile.TemporaryDirectory(prefix="offsetbook-benchmark-") as folder:
        took = measure(Path(folder), rounds)
    rows = ((name, spread(seconds)) for name, seconds in took.items())
    print("\n".join([surroundings(rounds), "", *markdown(("", "s"), rows)]))


def measure(folder: Path, rounds: int) -> Times:
    """Start everything, look at each thing some times, and end everything."""
    took: Times = defaultdict(list)
    sandbox = Sandbox(folder / "sandbox")
    try:
        sandbox.up(["eu"])
        with running_lab(folder / "lab") as lab, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium(), args=list(QUIET))
            with lab_context(browser) as context:
                for number in range(rounds + 1):  # the first round warms up and is not counted
                    say(f"round {number}")
                    found = pick(context, lab)
                    for notebook, asked in NOTEBOOKS.items():
                        fleet = {"fleet_file": str(sandbox.fleet_file)}
                        found |= first_table(context, lab, notebook, **asked, **fleet)
                    for name, seconds in found.items() if number else ():
                        took[name].append(seconds)
            browser.close()
    finally:
        sandbox.down()
    return took


def first_table(
    context: BrowserContext, lab: Lab, number: int, **parameters: Any
) -> dict[str, float]:
    """Open a notebook and run all of it, up to its first table."""
    name = lab.copy(number, f"first-{number}", **parameters)
    began = time.perf_counter()
    notebook = open_notebook(context, lab, name)
    ready = time.perf_counter()
    kernel = _newest_kernel()
    used_s = cpu_s(kernel)
    notebook.menu("Run", "Run All Cells")
    # The sentence in the place of a table without rows counts as well.
    expect(notebook.page.locator(".ob-table").first).to_be_visible(timeout=300_000)
    first = time.perf_counter()
    used_s = cpu_s(kernel) - used_s
    notebook.menu("Kernel", "Shut Down Kernel")  # not to read the rest beside the next one
    kernel.wait()
    notebook.page.close()
    say(f"{number}: {first - began:.1f} s, {used_s:.1f} CPU s")
    return {
        f"notebook {number}: opened, kernel ready": ready - began,
        f"notebook {number}: first table, from opening": first - began,
        f"notebook {number}: first table, from Run All": first - ready,
        f"notebook {number}: CPU s of the kernel, from Run All to the first table": used_s,
    }


def _newest_kernel() -> psutil.Process:
    processes = psutil.Process().children(recursive=True)
    kernels = [one for one in processes if "ipykernel_launcher" in " ".join(one.cmdline())]
    return max(kernels, key=lambda one: one.create_time())


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


def surroundings(rounds: int) -> str:
    return f"{median_of(f'{rounds} rounds')} {machine('jupyterlab', 'ipywidgets')}."


if __name__ == "__main__":
    main()
