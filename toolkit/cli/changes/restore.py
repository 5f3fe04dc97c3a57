"""`offsetbook restore`: put offsets back that 'offsetbook export' saved."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.command_target import opened
from toolkit.cli.options import CommandScope, topics_option

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange

OPTIONS = (
    click.argument("saved_file", type=click.Path(path_type=Path, dir_okay=False)),
    topics_option(" Default: all saved offsets."),
    click.option("--into", metavar="GROUP", help="Restore one saved group under this name."),
)


def make(
    command: CommandScope, *, saved_file: Path, topics: tuple[str, ...], into: str | None
) -> PlannedChange:
    from toolkit.journeys.restore import restore
    from toolkit.storage.offsets_files import read_offsets

    saved = read_offsets(saved_file)
    with opened(command, command.cluster or saved.cluster) as access:
        return restore(access, saved, groups=command.groups, topics=topics, into=into)


HELP = (
    "Restore the offsets in SAVED_FILE, written by 'offsetbook export'. Missing groups are created."
)
planner = Planner("restore", HELP, make, OPTIONS)
command = change_command(planner)
