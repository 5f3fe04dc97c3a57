"""`offsetbook paused-partitions`: paused partitions, by whom, since when and until when."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from toolkit.cli.options import CommandScope, scope_options
from toolkit.cli.output import write_frames, write_problems
from toolkit.cli.reading import read_clusters
from toolkit.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from toolkit.model import Snapshot


@click.command("paused-partitions")
@scope_options
@click.option("--all-groups", is_flag=True, help="All groups (the default).")
def command(scope: CommandScope, *, all_groups: bool) -> None:
    """
    List paused partitions as reported by the brokers, regardless of who paused them.

    `how` is `held` (your keeper is running), `foreign` (another user or host, or unknown) or
    `half-dead` (your keeper is gone; the hold ends at the session timeout).
    """
    if all_groups and scope.groups:
        raise UsageError("--group and --all-groups are mutually exclusive", hint="use only one")
    reading = read_clusters(scope)
    write_frames([paused(snapshot, scope.fleet) for snapshot in reading.snapshots], scope.output)
    write_problems(reading.snapshots)
    sys.exit(reading.exit_code())


def paused(snapshot: Snapshot, fleet: Path | None) -> pd.DataFrame:
    """Return the paused partitions of the groups in a snapshot."""
    from toolkit.journeys.paused import find_paused
    from toolkit.storage.state_folder import state_dir

    return find_paused(snapshot, state_dir(fleet))
