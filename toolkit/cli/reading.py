"""Read snapshots of several clusters for a command, with progress, keeping clusters that fail."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from toolkit.cli.options import CommandScope
from toolkit.cli.output import printable
from toolkit.cli.progress_line import ProgressLine
from toolkit.errors import NotFound, ToolkitError
from toolkit.model import NO_SUCH_GROUP, select_groups

if TYPE_CHECKING:
    from toolkit.model import Snapshot


class FleetReading(NamedTuple):
    """What could be read of some clusters, and what could not."""

    snapshots: list[Snapshot]
    errors: list[ToolkitError]  # one for each cluster that could not be read
    missing: list[str]  # names that no group in any cluster has or matches

    def exit_code(self) -> int:
        """0 when everything was read, 4 when only a part was, else the first error's."""
        if not self.snapshots:
            return self.errors[0].exit_code
        unread = [p for s in self.snapshots for p in s.problems if p.what != NO_SUCH_GROUP]
        return 4 if self.errors or self.missing or unread else 0


def read_clusters(
    scope: CommandScope, *, commit_times: bool = False, whole: bool = False
) -> FleetReading:
    """
    Read the chosen clusters one after the other; say on stderr which one failed and why.

    `whole` reads every group, also where the scope names some. Raises NotFound where none of the
    named groups exists.
    """
    from toolkit.journeys.cluster_access import find_clusters
    from toolkit.kafka_io.read_snapshot import read_snapshot

    reading = FleetReading([], [], [])
    groups = () if whole else scope.groups
    for cluster in find_clusters(scope.clusters, scope.fleet):
        progress = ProgressLine(cluster.name, visible=not scope.quiet and sys.stderr.isatty())
        try:
            reading.snapshots.append(
                read_snapshot(
                    cluster, groups=groups, commit_times=commit_times, on_progress=progress
                )
            )
        except ToolkitError as exc:
            _say(exc)
            reading.errors.append(exc)
        finally:
            progress.clear()
    _note_missing(reading, scope.groups)
    return reading


def _note_missing(reading: FleetReading, names: Sequence[str]) -> None:
    lists = [select_groups(snapshot.groups, names)[1] for snapshot in reading.snapshots]
    reading.missing.extend(name for name in names if lists and all(name in li for li in lists))
    where = ", ".join(snapshot.cluster for snapshot in reading.snapshots)
    partial = any(p.what.startswith("groups") for s in reading.snapshots for p in s.problems)
    for name in reading.missing:
        error = NotFound(
            f"no group has or matches the name {printable(name)!r} in cluster {where}"
            + (", of which not every group could be listed" if partial else ""),
            hint="'offsetbook groups list' shows the names",
        )
        if len(reading.missing) == len(names):
            raise error
        _say(error)


def _say(error: ToolkitError) -> None:
    click.echo(f"{click.style('error:', fg='red')} {error}", err=True)
