"""Read snapshots of several clusters for a command, with progress, keeping clusters that fail."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import click

from toolkit.cli.options import Scope
from toolkit.cli.output import printable
from toolkit.errors import NotFound, ToolkitError

if TYPE_CHECKING:
    from toolkit.kafka_io.snapshot import Progress
    from toolkit.model import Snapshot


class Reading(NamedTuple):
    """The snapshots that could be read, and an error for each cluster that could not."""

    snapshots: list[Snapshot]
    errors: list[ToolkitError]

    def exit_code(self) -> int:
        """0 when every cluster was read, 4 when some were, else the first error's."""
        if not self.errors:
            return 0
        return 4 if self.snapshots else self.errors[0].exit_code


def read_clusters(scope: Scope, *, commit_times: bool = False) -> Reading:
    """
    Read the chosen clusters one after the other; say on stderr which one failed and why.

    Raises NotFound where a group was named and no cluster that answered has it.
    """
    from toolkit.kafka_io.snapshot import read_snapshot
    from toolkit.storage.fleet_file import choose_clusters, load_fleet

    reading = Reading([], [])
    for cluster in choose_clusters(load_fleet(scope.fleet), scope.clusters):
        progress = ProgressLine(cluster.name, visible=not scope.quiet and sys.stderr.isatty())
        try:
            reading.snapshots.append(
                read_snapshot(
                    cluster, groups=scope.groups, commit_times=commit_times, on_progress=progress
                )
            )
        except ToolkitError as exc:
            click.echo(f"{click.style('error:', fg='red')} {exc}", err=True)
            reading.errors.append(exc)
        finally:
            progress.clear()
    for name in scope.groups:
        _check_found(name, reading.snapshots)
    return reading


def _check_found(name: str, snapshots: list[Snapshot]) -> None:
    missing = [
        any(p.what == "group" and p.group_id == name for p in snapshot.problems)
        for snapshot in snapshots
    ]
    if missing and all(missing):
        where = ", ".join(snapshot.cluster for snapshot in snapshots)
        raise NotFound(
            f"no group has or matches the name {printable(name)!r} in cluster {where}",
            hint="'offsetbook groups list' shows the names",
        )


class ProgressLine:
    """One line on a terminal's stderr that is written over as a read goes on."""

    def __init__(self, cluster: str, *, visible: bool) -> None:
        """Prepare a line for a cluster; where there is no terminal nothing is written."""
        self.cluster = cluster
        self.visible = visible
        self.shown = ""

    def __call__(self, progress: Progress) -> None:
        """Show how far the read is, in steps of a hundredth."""
        percent = 100 * progress.done // max(progress.total, 1)
        line = f"{self.cluster}: {progress.step} {percent} %"
        if self.visible and line != self.shown:
            self.shown = line
            click.echo(f"\r\033[K{line}", err=True, nl=False)

    def clear(self) -> None:
        """Take the line away."""
        if self.shown:
            click.echo("\r\033[K", err=True, nl=False)
