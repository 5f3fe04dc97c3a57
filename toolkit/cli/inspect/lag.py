"""`offsetbook lag`: lag per group or per partition, once or again and again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from toolkit.cli.inspect.groups import FIRST_OF_PARTITIONS
from toolkit.cli.options import CommandScope, Duration, scope_options
from toolkit.cli.output import (
    echo_error,
    few_names,
    problem_lines,
    share_group_lines,
    write_tables,
)
from toolkit.cli.reading import FleetReading, read_clusters
from toolkit.errors import ToolkitError
from toolkit.model import GroupType
from toolkit.model.rows import concatenated
from toolkit.model.times import parse_duration

if TYPE_CHECKING:
    from toolkit.report.lag_report import LagReport

# What gets room first on a narrow terminal; the changes are there with --watch.
CHANGES = ("lag_change", "consumed_per_s")
FIRST = (
    *("cluster", "group", "lag", *CHANGES, "worst_topic", "worst_partition", "worst_lag", "lost"),
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
@click.option(
    "--watch",
    "interval",
    type=Duration(),
    metavar="INTERVAL",
    help="Read again every INTERVAL, such as 5s, until Ctrl-C, and show what changed in between.",
)
def command(scope: CommandScope, *, by: str, commit_times: bool, interval: str | None) -> None:
    """
    Show lag in offsets, largest first. Partitions without a committed offset have none.

    With --watch, lag_change is the change of the lag since the reading before, and consumed_per_s
    by how many offsets per second the group advanced. A terminal shows the last reading,
    in place, and keeps it after Ctrl-C. Anywhere else readings are appended: CSV with one heading
    and taken_at in each row, JSON as one array for each reading, tables under their time. A reading
    that fails is reported, and the next one is tried. Ctrl-C ends with exit code 0.
    """
    lag_command = LagCommand(scope, by, commit_times=commit_times)
    if interval:
        lag_command.watch(parse_duration(interval).total_seconds())
    else:
        sys.exit(lag_command.write())


@dataclass(frozen=True)
class LagCommand:
    """What is to be read, and how it is shown."""

    scope: CommandScope
    by: str
    commit_times: bool

    def read(
        self, scope: CommandScope, tell: Callable[[ToolkitError], None] = echo_error
    ) -> FleetReading[LagReport]:
        from toolkit.journeys.lag import lag

        return read_clusters(
            scope,
            lambda access: lag(access, scope.groups, commit_times=self.commit_times),
            tell=tell,
        )

    def write(self) -> int:
        reading = self.read(self.scope)
        tables = [
            report.group_rows if self.is_by_group else report.partition_rows(largest_first=True)
            for report in reading.reports
        ]
        write_tables(tables, self.scope.output, most="lag", important=self.first)
        for line in self._messages(reading):
            click.echo(line, err=True)
        return reading.exit_code()

    def watch(self, interval_s: float) -> None:
        from toolkit.cli.watch import WatchedReading, display_for, watch

        before: dict[str, LagReport] = {}
        scope = self.scope

        def read() -> WatchedReading:
            nonlocal scope
            began, errors = datetime.now(UTC), list[str]()
            reading = self._read_again(scope, errors)
            tables = [
                report.with_changes(before.get(report.facts.cluster), by_group=self.is_by_group)
                for report in reading.reports
            ]
            before.update((report.facts.cluster, report) for report in reading.reports)
            scope = replace(scope, quiet=True)  # progress is for the first reading
            table = concatenated(tables, most="lag") if tables else None
            return WatchedReading(began, table, [*errors, *self._messages(reading)])

        watch(read, interval_s, display_for(self.scope.output, interval_s, self.first))

    def _read_again(self, scope: CommandScope, errors: list[str]) -> FleetReading[LagReport]:
        """Read with errors as lines; since the first reading, a group may have ended, say."""
        try:
            return self.read(scope, lambda error: errors.append(f"error: {error}"))
        except ToolkitError as exc:
            if scope is self.scope:  # the first reading: what was asked for is wrong
                raise
            errors.append(f"error: {exc}")
            return FleetReading()

    @property
    def is_by_group(self) -> bool:
        return self.by == "group"

    @property
    def first(self) -> tuple[str, ...]:
        return (
            FIRST
            if self.is_by_group
            else (*FIRST_OF_PARTITIONS[:5], *CHANGES, *FIRST_OF_PARTITIONS[5:])
        )

    def _messages(self, reading: FleetReading[LagReport]) -> Iterator[str]:
        yield from problem_lines(reading.snapshots)
        if self.scope.groups and not self.scope.quiet:
            for report in reading.reports:
                yield from _without_offsets(report)


def _without_offsets(report: LagReport) -> Iterator[str]:
    """Yield which groups have no row, and why that may be: brokers keep no reason."""
    if found := report.without_offsets:
        yield (
            f"cluster {report.facts.cluster}: no committed offsets: {few_names(found)} (none was "
            "committed, they expired, or they were deleted, also with a topic that was re-created)"
        )
    shares = [g.group_id for g in report.facts.groups if g.type is GroupType.SHARE]
    yield from share_group_lines(report.facts.cluster, shares)
