"""`offsetbook unsubscribed`: unsubscribed offsets of live groups."""

from __future__ import annotations

import sys
from collections import defaultdict
from typing import TYPE_CHECKING

import click

from toolkit.cli.options import CommandScope, scope_options
from toolkit.cli.output import FEW, few_names, printable_name, write_problems, write_tables
from toolkit.cli.reading import read_clusters
from toolkit.model import select_groups

if TYPE_CHECKING:
    from toolkit.model.rows import Rows

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
    tables = [result.offset_rows for result in found]
    write_tables(tables, scope.output, most="lag", important=FIRST)
    code = reading.exit_code()
    if not scope.quiet:
        for result in found:
            _tell_skipped(result.skipped)
        if code == 0 and not any(list(table.rows) for table in tables):  # else there may be some
            click.echo("no unsubscribed offsets found", err=True)
    write_problems(reading.snapshots)
    sys.exit(code)


def _tell_skipped(skipped: Rows) -> None:
    """Say which groups were not checked and why; many with one reason are one line."""
    by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
    for cluster, name, *_, why in skipped.rows:
        by_reason[cluster, why].append(name)
    for (cluster, why), names in by_reason.items():
        if len(names) > FEW:
            click.echo(
                f"Skipped {cluster} {len(names):,} groups ({few_names(names)}): {why}", err=True
            )
        else:
            for name in names:
                click.echo(f"Skipped {cluster} group {printable_name(name)}: {why}", err=True)
