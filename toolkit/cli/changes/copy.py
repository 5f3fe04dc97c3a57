"""`offsetbook copy` and `offsetbook rename`: a group's offsets under another name or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.command_target import CommandTarget, opened, required_groups
from toolkit.cli.options import topics_option
from toolkit.errors import UsageError
from toolkit.model.names import ExactName, shown_name

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


def make(command: CommandTarget, *, target: str, mirror: str | None, **how: Any) -> PlannedChange:
    from toolkit.journeys.copy import CopyRequest, copy

    # A request reads the other name as people write it.
    request = CopyRequest(ExactName(_source(command)), shown_name(target), **how)
    with opened(command) as access:
        return copy(access, request, mirror=mirror)


def make_rename(command: CommandTarget, *, target: str) -> PlannedChange:
    from toolkit.journeys.copy import rename

    source = _source(command)
    with opened(command) as access:
        return rename(access, source, to_group=target)


def _source(command: CommandTarget) -> str:
    groups = required_groups(command)
    if len(groups) > 1:
        raise UsageError(f"{len(groups)} groups are named", hint="copy them one by one")
    return groups[0]


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
