"""`offsetbook paused-partitions`: paused partitions, by whom, since when and until when."""

from __future__ import annotations

import sys

import click

from toolkit.cli.options import CommandScope, scope_options
from toolkit.cli.output import write_problems, write_tables
from toolkit.cli.reading import read_clusters
from toolkit.errors import UsageError

# What gets room first on a narrow terminal.
FIRST = (
    *("cluster", "group", "topic", "partition", "hold_status", "paused_until", "paused_by"),
    "reason",
)


@click.command("paused-partitions")
@scope_options
@click.option("--all-groups", is_flag=True, help="All groups (the default).")
def command(scope: CommandScope, *, all_groups: bool) -> None:
    """
    List paused partitions as reported by the brokers, regardless of who paused them.

    `hold_status` is `held` (your keeper is running), `foreign` (another user or host, or unknown)
    or `orphaned` (your keeper is gone; the hold ends at the session timeout).
    """
    from toolkit.journeys.paused import paused

    if all_groups and scope.groups:
        raise UsageError("--group and --all-groups are mutually exclusive", hint="use only one")
    reading = read_clusters(scope, lambda access: paused(access, scope.groups))
    write_tables([report.plain_rows for report in reading.reports], scope.output, important=FIRST)
    write_problems(reading.snapshots)
    code = reading.exit_code()
    is_anything = any(group.paused for facts in reading.snapshots for group in facts.groups)
    if code == 0 and not is_anything:  # what was not read may be paused
        click.echo("no partition is paused", err=True)
    sys.exit(code)
