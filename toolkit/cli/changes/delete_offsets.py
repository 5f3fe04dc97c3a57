"""`offsetbook delete-offsets`: delete committed offsets (KIP-496)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.command_target import opened, required_groups
from toolkit.cli.options import CommandScope, WholeNumber, topics_option

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange

OPTIONS = (
    topics_option(),
    click.option("--all-topics", is_flag=True, help="All committed offsets of an empty group."),
    click.option(
        "--unsubscribed",
        is_flag=True,
        help="Offsets of topics that a live group does not subscribe to. Groups with an unknown "
        "subscription are skipped. What is found is stored in the state directory for "
        "--unsubscribed-for and --seen-in-runs.",
    ),
    click.option(
        "--unsubscribed-for",
        default="",
        metavar="DURATION",
        help="With --unsubscribed: only topics seen unsubscribed for this long, such as 14d, by "
        "earlier runs with --unsubscribed.",
    ),
    click.option(
        "--seen-in-runs",
        type=WholeNumber(min=0),
        default=0,
        metavar="N",
        help="With --unsubscribed: only topics seen unsubscribed in N consecutive runs, this one "
        "included.",
    ),
)


def make(command: CommandScope, **chosen: Any) -> PlannedChange:
    from toolkit.journeys.delete_offsets import OffsetChoice, delete_offsets

    groups, which = required_groups(command), OffsetChoice(**chosen)
    with opened(command) as access:
        return delete_offsets(access, groups, which)


HELP = (
    "Delete committed offsets (KIP-496). In live groups, only offsets of topics that no member "
    "subscribes to. Without --topic: all such offsets of live groups; an empty group needs "
    "--topic or --all-topics."
)
planner = Planner("delete-offsets", HELP, make, OPTIONS)
command = change_command(planner)
