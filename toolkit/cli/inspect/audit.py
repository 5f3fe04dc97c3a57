"""`offsetbook audit`: who changed what, when and why, and whether the log is intact."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from toolkit.cli.options import FLEET, OUTPUT, cluster_option, group_names_option
from toolkit.errors import NotFound

STATE = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="State directory. Default: $OFFSETBOOK_STATE, `state` in the fleet file, or the user's "
    "state directory.",
)

# What gets room first on a narrow terminal.
FIRST = ("run", "cluster", "who", "request", "result", "reason", "at", "interrupted")
FIRST_OF_CHANGES = (
    *("group", "topic", "partition", "before", "after", "status", "cluster", "run", "who"),
    "why",
)


@click.group("audit")
def command() -> None:
    """Show the audit log of changes, and verify its integrity."""


@command.command("list")
@FLEET
@STATE
@cluster_option("Only runs on this cluster.")
@group_names_option("Only runs that changed this group; repeatable.")
@click.option("--changes", is_flag=True, help="One row per change instead of one per run.")
@OUTPUT
def list_runs(*, changes: bool, output: str, **given: Any) -> None:
    """List runs, newest first: user, reason, result, and the run id for 'offsetbook undo'."""
    from toolkit.cli.output import write_rows
    from toolkit.journeys.audit import audit

    report = audit(_state(given), cluster=given["cluster"] or "", groups=given["groups"])
    if not report.exists:
        click.echo(report.summary, err=True)
    rows, first = (report.change_rows, FIRST_OF_CHANGES) if changes else (report.run_rows, FIRST)
    write_rows(rows, output, important=first)


@command.command("verify")
@FLEET
@STATE
def verify_log(**given: Any) -> None:
    """
    Check the log for changed, removed, reordered or duplicated lines.

    The exit code is 1 if there are any, or if there is no log. Files of the state directory that
    every user can open are a warning.
    """
    from toolkit.journeys.audit import audit

    report = audit(_state(given))
    if not report.exists:  # that a missing log is intact proves nothing
        raise NotFound(
            f"no audit log in {report.state}",
            hint="check --state; before the first change there is none",
        )
    for flaw in (*report.flaws, *report.harmless_flaws):
        click.echo(flaw)
    if report.open_to_others:
        click.echo(f"warning: {report.open_to_others}", err=True)
    if report.is_intact:
        click.echo(f"intact: {report.entry_count} entries in {report.state}")
    sys.exit(0 if report.is_intact else 1)


def _state(given: dict[str, Any]) -> Path:
    from toolkit.storage.state_folder import state_dir

    return given["state"] or state_dir(given["fleet"])
