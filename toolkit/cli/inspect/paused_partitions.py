"""`offsetbook paused-partitions`: what is paused, by whom, since when and until when."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from toolkit.cli.options import Scope, scope_options
from toolkit.cli.output import write_frames, write_problems
from toolkit.cli.reading import read_clusters
from toolkit.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from toolkit.model import Snapshot


@click.command("paused-partitions")
@scope_options
@click.option("--all-groups", is_flag=True, help="All groups: the default, said.")
def command(scope: Scope, *, all_groups: bool) -> None:
    """
    Show the paused partitions of groups, as their brokers tell, whoever paused them.

    `how` says whether a process of ours keeps the hold up (held), somebody else's does or nobody
    knows whose (foreign), or ours is gone, so that it ends by itself (half-dead).
    """
    if all_groups and scope.groups:
        raise UsageError("--group and --all-groups exclude each other", hint="leave one out")
    reading = read_clusters(scope)
    write_frames([paused(snapshot, scope.fleet) for snapshot in reading.snapshots], scope.output)
    write_problems(reading.snapshots)
    sys.exit(reading.exit_code())


def paused(snapshot: Snapshot, fleet: Path | None) -> pd.DataFrame:
    """Return what is paused in the groups of a snapshot."""
    from toolkit.journeys.paused import find_paused
    from toolkit.storage.state_folder import state_dir

    return find_paused(snapshot, state_dir(fleet))
