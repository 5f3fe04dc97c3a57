"""`offsetbook resume`: give paused partitions of a live group back to its members."""

from __future__ import annotations

from dataclasses import replace

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.command_target import CommandPlan, only_group, opened
from toolkit.cli.options import CommandScope, topics_option

FORCE_RULE = "foreign-hold"
FORCE = click.option(
    "--force",
    is_flag=True,
    help="Also resume partitions that another user paused. Same as --override foreign-hold; "
    "written to the audit log.",
)
OPTIONS = (topics_option(" Default: all paused partitions."),)


def make(command: CommandScope, *, topics: tuple[str, ...], force: bool = False) -> CommandPlan:
    from toolkit.journeys.resume import resume

    group = only_group(command.groups)
    with opened(command) as access:
        return CommandPlan(resume(access, group, topics), overrides=(FORCE_RULE,) if force else ())


HELP = "Resume paused partitions of a live group. Shows the plan first."
planner = Planner("resume", HELP, make, OPTIONS, of_one_group=True)
# `plan resume` overrides nothing: its --force is that of the plan file.
command = change_command(replace(planner, options=(*OPTIONS, FORCE)))
