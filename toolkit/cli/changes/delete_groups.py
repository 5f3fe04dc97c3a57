"""`offsetbook delete-groups`: delete idle groups with all their offsets (KIP-229)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.command_target import opened, required_groups
from toolkit.cli.options import CommandScope

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange

OPTIONS = (
    click.option(
        "--empty-for",
        metavar="DURATION",
        help="Only groups unused for this long, such as 30d. Based on the group's record in "
        "__consumer_offsets, or on earlier runs with this option.",
    ),
)


def make(command: CommandScope, *, empty_for: str | None) -> PlannedChange:
    """Plan to delete groups; with an age, the groups that are empty now are recorded."""
    from toolkit.journeys.delete_groups import delete_groups

    groups = required_groups(command)
    with opened(command) as access:
        return delete_groups(access, groups, empty_for=empty_for or "")


HELP = (
    "Delete empty groups with all their offsets (KIP-229). 'offsetbook undo' restores them, except "
    "share groups and groups without committed offsets. A group that only matches a pattern "
    "and is live, or protected in the fleet file, is left out."
)
planner = Planner("delete-groups", HELP, make, OPTIONS)
command = change_command(planner)
