"""
One way to make a plan, and the commands it becomes: `plan NAME`, and `NAME` itself.

A planner is a name, options and a function from the command's options to a plan. As `plan NAME` it
writes a plan file; as `NAME` it shows the plan, asks for approval at a terminal, and applies it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.command_target import CommandPlan
from toolkit.cli.options import (
    CLUSTER,
    FLEET,
    OUTPUT,
    QUIET,
    CommandScope,
    Option,
    group_names_option,
    groups_option,
    scope_of,
    with_options,
)
from toolkit.cli.output import FORCE, OUTPUT_PATH, check_output_file

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange


@dataclass(frozen=True)
class Planner:
    """How one kind of plan is made: its command's name, help, options, and the function."""

    name: str
    help: str
    make: Callable[..., PlannedChange | CommandPlan]
    options: tuple[Option, ...] = ()
    of_one_group: bool = False

    @property
    def target_options(self) -> tuple[Option, ...]:
        group = group_names_option("The group's name.") if self.of_one_group else groups_option()
        return (FLEET, CLUSTER, group, OUTPUT, QUIET)


APPROVAL = (
    click.option("--dry-run", is_flag=True, help="Show the plan without applying it."),
    click.option(
        "--approve",
        metavar="FINGERPRINT",
        help="Apply without asking, if the plan has this fingerprint. Needs --reason.",
    ),
    click.option(
        "--reason",
        metavar="TEXT",
        default="",
        help="Reason for the change, written to the audit log. Default: $OFFSETBOOK_REASON.",
    ),
    click.option(
        "--override",
        "overrides",
        multiple=True,
        metavar="RULE",
        help="Override this rule, if it may be overridden; it is recorded. Repeatable.",
    ),
)


def approval_options(command: Callable[..., None]) -> Callable[..., None]:
    return with_options(command, APPROVAL)


def plan_command(planner: Planner) -> click.Command:
    def run(out: Path | None, *, force: bool, **given: Any) -> None:
        from toolkit.cli.change_flow import write_plan_file

        if out:
            check_output_file(out, force=force)
        command = scope_of(given)
        write_plan_file(planned(planner, command, given).change, command, out=out)

    out = click.option(
        "--out",
        type=OUTPUT_PATH,
        help="The plan file to write; - is stdout. Default: plan-FINGERPRINT.json in the current "
        "folder, which is replaced: it is the same plan.",
    )
    return _command(planner, run, (*planner.target_options, *planner.options, out, FORCE))


def change_command(planner: Planner) -> click.Command:
    def run(**given: Any) -> None:
        from toolkit.cli.change_flow import approval_parameters, change

        command, parameters = scope_of(given), approval_parameters(given)
        sys.exit(change(planned(planner, command, given), command, parameters))

    return _command(planner, run, (*planner.target_options, *planner.options, *APPROVAL))


def planned(planner: Planner, command: CommandScope, own: dict[str, Any]) -> CommandPlan:
    made = planner.make(command, **own)
    return made if isinstance(made, CommandPlan) else CommandPlan(made)


def _command(
    planner: Planner, run: Callable[..., None], options: tuple[Option, ...]
) -> click.Command:
    return click.command(planner.name, help=planner.help)(with_options(run, options))
