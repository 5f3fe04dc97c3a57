"""`offsetbook groups list|describe`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from toolkit.cli.complete_names import complete_groups
from toolkit.cli.options import CommandScope, scope_options
from toolkit.cli.output import printable, printable_name, write_problems, write_tables
from toolkit.cli.reading import read_clusters
from toolkit.model import GroupState, GroupType
from toolkit.model.plurals import counted
from toolkit.model.rows import Rows

if TYPE_CHECKING:
    from toolkit.model import Snapshot

# What gets room first on a narrow terminal.
FIRST = ("cluster", "group", "state", "members", "subscribed", "type", "assignor")
FIRST_OF_PARTITIONS = (
    *("cluster", "group", "topic", "partition", "lag", "position", "committed", "log_end"),
    *("committed_at", "owner", "lost", "log_start", "pending"),
)


@click.group("groups")
def command() -> None:
    """List and describe groups of any type."""


@command.command("list")
@scope_options
@click.option(
    "--state",
    type=click.Choice([state.value for state in GroupState], case_sensitive=False),
    help="Only groups in this state.",
)
@click.option(
    "--type",
    type=click.Choice([kind.value for kind in GroupType], case_sensitive=False),
    help="Only groups of this type.",
)
def list_groups(scope: CommandScope, **wanted: str | None) -> None:
    """List groups with type, state, members and the topics they subscribe to."""
    from toolkit.journeys.lag import lag

    reading = read_clusters(scope, lambda access: lag(access, scope.groups, offsets=False))
    tables = [_chosen(report.state_rows, wanted) for report in reading.reports]
    write_tables(tables, scope.output, important=FIRST)
    write_problems(reading.snapshots)
    sys.exit(reading.exit_code())


def _chosen(table: Rows, wanted: Mapping[str, str | None]) -> Rows:
    """Return the rows that have the wanted values; None is any."""
    rows = [
        tuple(row.values())
        for row in table.as_dicts()
        if all(value in {None, row[name]} for name, value in wanted.items())
    ]
    return Rows(table.columns, rows)


@command.command("describe")
@click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
@scope_options
def describe(scope: CommandScope, *, names: tuple[str, ...]) -> None:
    """
    Show the partitions of groups, by name or pattern: owner, offsets, lag, commit time.

    GROUP and --group NAME are the same.
    """
    from toolkit.journeys.lag import lag

    scope = replace(scope, groups=(*scope.groups, *names))
    reading = read_clusters(scope, lambda access: lag(access, scope.groups, commit_times=True))
    if not scope.quiet:
        for snapshot in reading.snapshots:
            _say_groups(snapshot)
    partitions = [report.partition_rows() for report in reading.reports]
    write_tables(partitions, scope.output, important=FIRST_OF_PARTITIONS)
    write_problems(reading.snapshots)
    sys.exit(reading.exit_code())


def _say_groups(snapshot: Snapshot) -> None:
    for group in snapshot.groups:
        topics = ", ".join(sorted(group.subscribed_topics)) or "nothing"
        why = group.unreadable_subscription
        members = counted(len(group.members), "member") if group.described else "unknown members"
        click.echo(
            f"{snapshot.cluster}: group {printable_name(group.group_id)}: type {group.type}, state "
            f"{group.state}, {members}, subscription: "
            + (f"unknown ({why})" if why else printable(topics)),
            err=True,
        )
