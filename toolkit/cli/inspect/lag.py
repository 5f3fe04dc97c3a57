"""`offsetbook lag`: lag per group or per partition."""

from __future__ import annotations

import sys

import click

from toolkit.cli.inspect.groups import FIRST_OF_PARTITIONS
from toolkit.cli.options import CommandScope, scope_options
from toolkit.cli.output import write_frames, write_problems
from toolkit.cli.reading import read_clusters

# What gets room first on a narrow terminal.
FIRST = (
    *("cluster", "group", "lag", "worst_topic", "worst_partition", "worst_lag", "lost"),
    "unknown_lag_partitions",
)


@click.command("lag")
@scope_options
@click.option("--by", type=click.Choice(["group", "partition"]), default="group", show_default=True)
def command(scope: CommandScope, *, by: str) -> None:
    """Show lag in records, largest first. Partitions without a committed offset have none."""
    from toolkit.journeys.lag import lag

    reading = read_clusters(scope, lambda access: lag(access, scope.groups))
    frames = [r.by_group if by == "group" else r.partitions for r in reading.reports]
    first = FIRST if by == "group" else FIRST_OF_PARTITIONS
    write_frames(frames, scope.output, most="lag", important=first)
    write_problems(reading.snapshots)
    sys.exit(reading.exit_code())
