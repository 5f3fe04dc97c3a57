"""
Run notebooks on a sandbox of their own and keep their reports, for the pages that show them.

Usage: run_notebooks.py FOLDER. No output of a page is typed by hand. The sandbox ends with the
run, also where a notebook fails; a run that does not end as expected fails the build.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from contextlib import chdir
from pathlib import Path

from toolkit.runner.notebooks import find_notebook
from toolkit.runner.run_notebook import run_notebook
from toolkit.sandbox.fleet import Sandbox
from toolkit.storage.state_folder import Operator

# The tour is last: it solves what the others find.
RUNS: dict[str, dict[str, object]] = {
    "90_troubleshoot_group": {"groups": ["fraud-check"], "sample_interval": "5s"},
    "20_find_unsubscribed_offsets": {},
    "30_expiry_forecast": {},
    "10_fleet_lag": {},
    "40_pause_partitions": {"groups": ["fraud-check"], "topics": ["payments.authorized:2"]},
    "50_reset_offsets": {"groups": ["nightly-export"], "mode": "to-earliest"},
    "00_tour": {},
}


def main(target: Path) -> None:
    """Write one report per notebook into `target`, which is replaced."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("make docs: stopped"))
    with tempfile.TemporaryDirectory(prefix="offsetbook-docs-") as folder, chdir(folder):
        # Found where people have it, so that no path of this machine is a parameter of a report.
        sandbox = Sandbox(Path(".sandbox"))
        os.environ.pop("OFFSETBOOK_FLEET", None)
        os.environ["OFFSETBOOK_STATE"] = "state"
        try:
            sandbox.up(on_step=_say)
            for name, parameters in RUNS.items():
                _run(name, parameters)
        finally:
            sandbox.down()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree("reports", target)


def _run(name: str, parameters: dict[str, object]) -> None:
    _say(f"notebook {name}")
    result = run_notebook(find_notebook(name), parameters=parameters, output_dir=Path("runs"))
    if result.exit_code or result.report is None:
        sys.exit(f"make docs: notebook {name} ended with {result.exit_code}: {result.message}")
    page = (result.folder / result.report).read_text("utf-8")
    # The site is read elsewhere: who built it, and where, tells nothing there.
    here = Operator.here()
    for ours, theirs in {
        here.at_host: "you@laptop",
        f">{here.who}<": ">you<",
        f">{here.host}<": ">laptop<",
        str(Path.cwd()): "~",
    }.items():
        page = page.replace(ours, theirs)
    Path("reports").mkdir(exist_ok=True)
    Path("reports", f"{name}.html").write_text(page, "utf-8")


def _say(step: str) -> None:
    print(f"== {step}", file=sys.stderr)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
