"""`offsetbook lag`: lag per group or per partition."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from toolkit.cli.inspect.groups import FIRST_OF_PARTITIONS
from toolkit.cli.options import CommandScope, scope_options
from toolkit.cli.output import few_names, write_problems, write_tables
from toolkit.cli.reading import read_clusters

if TYPE_CHECKING:
    from toolkit.journeys.lag import LagReport

# What gets room first on a narrow terminal.
FIRST = (
    *("cluster", "group", "lag", "worst_topic", "worst_partition", "worst_lag", "lost"),
    "unknown_lag_partitions",
)


@click.command("lag")
@scope_options
@click.option("--by", type=click.Choice(["group", "partition"]), default="group", show_default=True)
@click.option(
    "--commit-times",
    is_flag=True,
    help="Also read __consumer_offsets (slower): when each offset was committed, and whether for "
    "a topic that was deleted and re-created since.",
)
def command(scope: CommandScope, *, by: str, commit_times: bool) -> None:
    """Show lag in records, largest first. Partitions without a committed offset have none."""
    from toolkit.journeys.lag import lag

    reading = read_clusters(
        scope, lambda access: lag(access, scope.groups, commit_times=commit_times)
    )
    tables = [
        report.group_rows if by == "group" else report.partition_rows(largest_first=True)
        for report in reading.reports
    ]
    first = FIRST if by == "group" else FIRST_OF_PARTITIONS
    write_tables(tables, scope.output, most="lag", important=first)
    write_problems(reading.snapshots)
    if scope.groups and not scope.quiet:
        for report in reading.reports:
            _tell_without_offsets(report)
    sys.exit(reading.exit_code())


def _tell_without_offsets(report: LagReport) -> None:
    """Say which groups have no row, and why that may be: brokers keep no reason."""
    if found := report.without_offsets:
        click.echo(
            f"cluster {report.facts.cluster}: no committed offsets: {few_names(found)} (none was "
            "committed, they expired, or they were deleted, also with a topic that was re-created)",
            err=True,
        )
