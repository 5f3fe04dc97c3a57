"""`offsetbook audit`: who changed what, when and why, and whether the log is intact."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from toolkit.cli.options import FLEET, OUTPUT

STATE = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the records. Default: $OFFSETBOOK_STATE, what the fleet file says, or the "
    "user's.",
)


@click.group("audit")
def command() -> None:
    """Read the audit log of changes, and verify that it is as it was written."""


@command.command("list")
@FLEET
@STATE
@click.option("--cluster", metavar="NAME", help="Only changes of this cluster.")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Only runs that touched it.")
@click.option("--changes", is_flag=True, help="One row a change, instead of one a run.")
@OUTPUT
def list_runs(*, changes: bool, output: str, **given: Any) -> None:
    """List runs, newest first: who, why, what became of them, and the name to undo them by."""
    from toolkit.cli.output import write_frame
    from toolkit.journeys.audit import audit

    report = audit(_state(given), cluster=given["cluster"] or "", groups=given["groups"])
    write_frame(report.changes if changes else report.runs, output)


@command.command("verify")
@FLEET
@STATE
def verify_log(**given: Any) -> None:
    """Say whether lines were changed, removed, moved or repeated; exit 1 where they were."""
    from toolkit.journeys.audit import audit

    report = audit(_state(given))
    for flaw in (*report.flaws, *report.harmless_flaws):
        click.echo(flaw)
    if report.is_intact:
        click.echo(f"intact: {len(report.entries)} entries in {report.state / 'audit.jsonl'}")
    sys.exit(0 if report.is_intact else 1)


def _state(given: dict[str, Any]) -> Path:
    from toolkit.storage.state_folder import state_dir

    return given["state"] or state_dir(given["fleet"])
