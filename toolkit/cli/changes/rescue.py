"""`offsetbook rescue`: keep committed offsets from expiring."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.cluster_options import opened, required_groups
from toolkit.cli.command_target import CommandTarget

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange


def make(command: CommandTarget) -> PlannedChange:
    """Plan to restart the retention timer of idle groups."""
    from toolkit.journeys.rescue import rescue

    groups = required_groups(command)
    with opened(command) as access:
        return rescue(access, groups)


HELP = (
    "Keep the offsets of idle groups from expiring (KIP-211): commit them again as they are or, "
    "for a classic group, have a member join and leave. Read back from the log."
)
planner = Planner("rescue", HELP, make)
command = change_command(planner)
