"""`offsetbook apply`: apply a plan file that was reviewed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from toolkit.cli.change_command import approval_options
from toolkit.cli.command_target import CommandPlan, opened
from toolkit.cli.options import CLUSTER, FLEET, OUTPUT, QUIET, scope_of
from toolkit.errors import UsageError


@click.command("apply")
@click.argument("plan_file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--run", "run_id", metavar="RUN", help="Apply the plan of interrupted run RUN (finish it)."
)
@FLEET
@CLUSTER
@OUTPUT
@QUIET
@approval_options
def command(plan_file: Path | None, run_id: str | None, **given: Any) -> None:
    """
    Apply a plan file after its fingerprint is approved.

    Reads the cluster state again and changes nothing if it no longer matches the plan. Saves the
    previous offsets, verifies every write, and records both in the audit log.
    """
    from toolkit.cli.change_flow import approval_parameters, change
    from toolkit.journeys.saved_change import change_of
    from toolkit.storage.plan_files import read_plan
    from toolkit.storage.state_folder import state_dir
    from toolkit.storage.undo_records import read_undo_record

    if (plan_file is None) == (run_id is None):
        raise UsageError("exactly one plan is needed", hint="name a plan file, or --run RUN")
    command = scope_of(given)
    plan = (
        read_plan(plan_file)
        if plan_file
        else read_undo_record(state_dir(command.fleet), run_id or "")
    )
    with opened(command, command.cluster or plan.cluster) as access:
        saved = change_of(plan, access)
    sys.exit(change(CommandPlan(saved), command, approval_parameters(given)))
