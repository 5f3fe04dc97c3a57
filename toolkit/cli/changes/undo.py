"""`offsetbook undo`: put back what a run changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.command_target import opened
from toolkit.cli.options import CommandScope

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange

OPTIONS = (
    click.argument("run"),
    click.option(
        "--even-if-moved",
        is_flag=True,
        help="Also restore offsets that have changed since the run.",
    ),
)


def make(command: CommandScope, *, run: str, even_if_moved: bool) -> PlannedChange:
    from toolkit.journeys.undo import undo
    from toolkit.storage.state_folder import state_dir
    from toolkit.storage.undo_records import read_undo_record

    done = read_undo_record(state_dir(command.fleet), run)
    with opened(command, command.cluster or done.cluster) as access:
        return undo(access, run, groups=command.groups, even_if_moved=even_if_moved)


HELP = """Undo RUN: restore every offset and group that it changed. Shows a plan first.

With --group, only these groups of the run. If an undo of a reset or move is of one group that is
live now, its offsets are moved back, however far the group has read since.
"""
planner = Planner("undo", HELP, make, OPTIONS)
command = change_command(planner)
