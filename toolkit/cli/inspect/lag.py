"""`offsetbook lag`: lag per group or per partition."""

from __future__ import annotations

import sys

import click

from toolkit.cli.options import CommandScope, scope_options
from toolkit.cli.output import write_frames, write_problems
from toolkit.cli.reading import read_clusters


@click.command("lag")
@scope_options
@click.option("--by", type=click.Choice(["group", "partition"]), default="group", show_default=True)
def command(scope: CommandScope, *, by: str) -> None:
    """Show lag in records, largest first. Partitions without a committed offset have none."""
    from toolkit.planning.frames.snapshot_frames import offsets_frame
    from toolkit.planning.lag.lag import lag_by_group, with_lag

    reading = read_clusters(scope)
    partitions = [with_lag(offsets_frame(snapshot)) for snapshot in reading.snapshots]
    if by == "group":
        partitions = [lag_by_group(frame) for frame in partitions]
    write_frames(partitions, scope.output, most="lag")
    write_problems(reading.snapshots)
    sys.exit(reading.exit_code())
