"""`offsetbook rescue`: keep committed offsets from expiring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.command_target import opened, required_groups
from toolkit.cli.options import CommandScope

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange


def make(command: CommandScope) -> PlannedChange:
    from toolkit.journeys.rescue import rescue

    groups = required_groups(command)
    with opened(command) as access:
        return rescue(access, groups)


HELP = (
    "Reset the retention timer of empty groups so that their offsets do not expire (KIP-211): "
    "commits the offsets again unchanged or, for a classic group, joins and leaves as a member. "
    "Verified in __consumer_offsets."
)
planner = Planner("rescue", HELP, make)
command = change_command(planner)
