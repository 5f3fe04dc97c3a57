"""`offsetbook demo`: everything once, on this machine."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click


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
    from toolkit.cli.output import write_frame
    from toolkit.sandbox.demo import demonstrate

    started = time.monotonic()
    shown = demonstrate(Path(".sandbox/demo"), output_dir, on_step=_say)
    click.echo("\nOffsets that no member of a live group subscribes to:\n")
    write_frame(shown.findings, "table")
    click.echo("\nReports, to open in a browser:\n")
    for run in shown.runs:
        said = run.error.reason if run.error else run.summary
        click.echo(f"  {run.folder / (run.report or '')}\n    {run.status}: {said}")
    click.echo(f"\nTook {time.monotonic() - started:.0f} s. Next: make lab", err=True)
    sys.exit(max(run.exit_code for run in shown.runs))


def _say(step: str) -> None:
    click.echo(step if step.startswith(" ") else f"== {step}", err=True)
