"""`offsetbook undo`: put back what a run changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.command_target import CommandTarget, opened
from toolkit.errors import UsageError

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


def make(command: CommandTarget, *, run: str, even_if_moved: bool) -> PlannedChange:
    from toolkit.journeys.undo import undo
    from toolkit.storage.state_folder import state_dir
    from toolkit.storage.undo_records import read_undo_record

    if command.groups:
        raise UsageError("an undo is of a whole run", hint="leave --group out")
    done = read_undo_record(state_dir(command.fleet), run)
    with opened(command, command.cluster or done.cluster) as access:
        return undo(access, run, even_if_moved=even_if_moved)


HELP = """Undo RUN: restore every offset and group that it changed. Shows a plan first.

For a move of a live group, the offsets are moved back, however far the group has read since.
"""
planner = Planner("undo", HELP, make, OPTIONS)
command = change_command(planner)
