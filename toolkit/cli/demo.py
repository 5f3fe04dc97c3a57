"""`offsetbook demo`: two clusters, the reading notebooks, and what they found."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.cli.output import write_frame

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.runner.execution import CellStep
    from toolkit.runner.result import RunResult
    from toolkit.sandbox.fleet import Sandbox

FINDINGS = ["cluster", "group", "topic", "partition", "lag", "group_lag_share", "other_subscribers"]
# Always the same one: what a killed demo left running is found and ended by the next.
STATE = Path(".sandbox/demo")


@click.command("demo")
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("runs"),
    show_default=True,
    help="Directory for the reports.",
)
def command(output_dir: Path) -> None:
    """
    Start two real Kafka clusters, run two notebooks on them, print findings, stop the clusters.

    Nothing keeps running afterwards. The demo clusters are separate from those of `offsetbook
    sandbox up`.
    """
    started = time.monotonic()
    findings, runs = _demonstrate(output_dir)
    click.echo("\nOffsets that no member of a live group subscribes to:\n")
    write_frame(findings, "table")
    click.echo("\nReports, to open in a browser:\n")
    for run in runs:
        message = run.error.reason if run.error else run.summary
        click.echo(f"  {run.folder / (run.report or '')}\n    {run.status}: {message}")
    took_s = time.monotonic() - started
    click.echo(f"\nTook {took_s:.0f} s. Next: offsetbook lab --sandbox lab", err=True)
    sys.exit(max(run.exit_code for run in runs))


def _demonstrate(output_dir: Path) -> tuple[pd.DataFrame, list[RunResult]]:
    """
    Start a fresh sandbox, run notebooks 20 and 10 against it, stop and remove the sandbox.

    Return the unsubscribed offsets of all clusters, and one result a run. Raises ToolkitError where
    a step cannot be taken; a notebook that fails is in its result.
    """
    import pandas as pd

    from toolkit.journeys.cluster_access import ClusterAccess
    from toolkit.journeys.unsubscribed import unsubscribed
    from toolkit.runner.notebooks import find_notebook
    from toolkit.runner.run_notebook import run_notebook
    from toolkit.sandbox.fleet import NAMES, Sandbox
    from toolkit.storage.fleet_file import VARIABLE

    sandbox = Sandbox(STATE)
    _remove(sandbox)
    try:
        clusters = sandbox.up(NAMES, on_step=_say)
        # Not as a parameter: the commands in the reports would name a file that is removed.
        os.environ[VARIABLE] = str(sandbox.fleet_file.absolute())
        found = [unsubscribed(ClusterAccess(cluster)).rows for cluster in clusters]
        given = [("20", {"clusters": [name]}) for name in NAMES] + [
            ("10", {"clusters": list(NAMES)})
        ]
        runs = []
        for number, parameters in given:
            notebook = find_notebook(number)
            about = ", ".join(parameters["clusters"])
            _say(f"running {notebook.stem} on {about}")
            runs.append(
                run_notebook(
                    notebook, parameters=parameters, output_dir=output_dir, on_step=_say_step
                )
            )
    finally:
        _remove(sandbox)
    return pd.concat(found, ignore_index=True)[FINDINGS], runs


def _remove(sandbox: Sandbox) -> None:
    sandbox.down(on_step=_say)
    shutil.rmtree(sandbox.state_dir, ignore_errors=True)


def _say_step(step: CellStep) -> None:
    _say(f"  [{step.number}/{step.total}] {step.heading}")


def _say(step: str) -> None:
    click.echo(step if step.startswith(" ") else f"== {step}", err=True)
