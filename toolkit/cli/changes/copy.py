"""`offsetbook copy` and `offsetbook rename`: a group's offsets under another name or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.command_target import only_group, opened
from toolkit.cli.options import CommandScope, topics_option
from toolkit.model.names import shown_name

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange

TO = click.option("--to", "target", required=True, metavar="GROUP", help="Target group.")
OPTIONS = (
    TO,
    topics_option(" Default: all committed partitions."),
    click.option(
        "--to-cluster",
        "mirror",
        metavar="NAME",
        help="Target cluster, if it is a mirror of this one.",
    ),
    click.option(
        "--by",
        type=click.Choice(["offset", "time"]),
        default="time",
        show_default=True,
        help="For a mirror: copy offsets unchanged (offset), or map them by record timestamp "
        "(time). By time, no unread record is skipped; some records may be redelivered.",
    ),
    click.option(
        "--topic-prefix",
        default="",
        metavar="TEXT",
        help="Prefix of topic names on the mirror, such as 'eu.'.",
    ),
)


def make(command: CommandScope, *, target: str, mirror: str | None, **how: Any) -> PlannedChange:
    from toolkit.journeys.copy import CopyRequest, copy

    # A request reads the other name as people write it.
    request = CopyRequest(only_group(command.groups), shown_name(target), **how)
    with opened(command) as access:
        return copy(access, request, mirror=mirror)


def make_rename(command: CommandScope, *, target: str) -> PlannedChange:
    from toolkit.journeys.copy import rename

    source = only_group(command.groups)
    with opened(command) as access:
        return rename(access, source, to_group=target)


HELP = (
    "Copy the committed offsets of --group to a new or empty group, on this cluster or on a mirror."
)
RENAME_HELP = (
    "Rename an empty group: copy its offsets to a new group, verify, delete the old group."
)
planner = Planner("copy", HELP, make, OPTIONS)
rename_planner = Planner("rename", RENAME_HELP, make_rename, (TO,))
command = change_command(planner)
rename_command = change_command(rename_planner)
