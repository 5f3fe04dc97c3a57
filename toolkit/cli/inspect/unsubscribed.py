"""`offsetbook unsubscribed`: unsubscribed offsets of live groups."""

from __future__ import annotations

import sys

import click

from toolkit.cli.options import CommandScope, scope_options
from toolkit.cli.output import printable, write_frames, write_problems
from toolkit.cli.reading import read_clusters
from toolkit.model import select_groups

# What gets room first on a narrow terminal.
FIRST = (
    *("cluster", "group", "topic", "partition", "lag", "deletable_now", "other_subscribers"),
    *("committed_at", "group_lag_share", "committed"),
)


@click.command("unsubscribed")
@scope_options
def command(scope: CommandScope) -> None:
    """
    Find committed offsets of topics that no member of a live group subscribes to (KIP-496).

    Their lag grows until they expire. Groups whose subscription is unknown are listed on stderr
    with the reason.
    """
    from toolkit.journeys.unsubscribed import unsubscribed

    reading = read_clusters(scope, unsubscribed)
    found = [
        report.of_groups(scope.groups).found
        for report in reading.reports
        if not scope.groups or select_groups(report.facts.groups, scope.groups)[0]
    ]
    write_frames([result.rows for result in found], scope.output, most="lag", important=FIRST)
    if not scope.quiet:
        for row in (row for result in found for row in result.left_out.to_dict("records")):
            name = printable(row["group"])
            click.echo(f"Skipped {row['cluster']} group {name}: {row['why']}", err=True)
        if not any(len(result.rows) for result in found) and reading.reports:
            click.echo("no unsubscribed offsets found", err=True)
    write_problems(reading.snapshots)
    sys.exit(reading.exit_code())
