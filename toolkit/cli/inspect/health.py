"""`offsetbook health`: how every group is, in one word, from two samples."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from toolkit.cli.options import CommandScope, Duration, scope_options
from toolkit.cli.output import echo_error, write_problems, write_rows
from toolkit.cli.reading import FleetReading, read_clusters

if TYPE_CHECKING:
    from toolkit.errors import ToolkitError
    from toolkit.report.health_report import HealthReport

# What gets room first on a narrow terminal.
FIRST = (
    *("cluster", "group", "health", "why", "lag", "worst_topic", "worst_partition", "members"),
    *("partitions", "affected_partitions", "state", "verdict", "type"),
)


@click.command("health")
@scope_options
@click.option(
    "--sample-interval",
    type=Duration(),
    default="2s",
    show_default=True,
    help="Time between the end of the first sample and the begin of the second.",
)
@click.option(
    "--stuck-after",
    type=Duration(),
    default="60s",
    show_default=True,
    help="Unread records younger than this are ok; a group without progress for longer is stuck.",
)
def command(scope: CommandScope, *, sample_interval: str, stuck_after: str) -> None:
    """
    Show how every group is, worst first, in one word, from two samples.

    \b
    stuck         unread records, and no progress for longer than --stuck-after
    stopped       unread records, and no members
    behind        records unread for longer than --stuck-after, or deleted unread
    unknown       a fact is missing; `why` has it
    held          partitions are paused by offsetbook
    unsubscribed  a committed offset of a topic that no member subscribes to
    ok            caught up, or every unread record is recent

    A group has the word of its worst partition. Between two samples that are closer together than
    --stuck-after nothing is known to be stuck: a group that commits every 5 s may just be about to.
    It is `behind`, and `why` says for how long no progress was seen. Use --sample-interval 65s, or
    'offsetbook groups describe', which shows when each offset was committed.

    Reads committed offsets, log offsets and members, and records where it is in doubt whether any
    is unread; needs neither Spark nor __consumer_offsets.
    Exit code: 0, whatever the words are; 4 if something could not be read.
    """  # noqa: D301 -- \\b is for click: keep these lines as they are
    from toolkit.journeys.health import all_rows

    reading = _read(scope, sample_interval, stuck_after)
    if reading.reports:
        write_rows(all_rows(reading.reports), scope.output, important=FIRST)
    write_problems(reading.snapshots)
    if not scope.quiet:
        for report in reading.reports:
            click.echo(report.summary, err=True)
    sys.exit(reading.exit_code())


def _read(
    scope: CommandScope, sample_interval: str, stuck_after: str
) -> FleetReading[HealthReport]:
    """Sample every cluster, and then each once more: many clusters wait at the same time."""
    from toolkit.journeys.health import earlier_sample, health

    shown_errors: list[str] = []

    def tell(error: ToolkitError) -> None:
        if str(error) not in shown_errors:
            shown_errors.append(str(error))
            echo_error(error)

    before = read_clusters(scope, lambda access: earlier_sample(access, scope.groups), tell=tell)
    firsts = {first.facts.cluster: first for first in before.reports}
    if not firsts:
        return FleetReading(errors=before.errors, missing=before.missing)
    answering = replace(scope, clusters=tuple(firsts))
    after = read_clusters(
        answering,
        lambda access: health(
            access,
            scope.groups,
            sample_interval=sample_interval,
            stuck_after=stuck_after,
            first=firsts[access.cluster.name],
        ),
        tell=tell,
    )
    return FleetReading(after.reports, [*before.errors, *after.errors], after.missing)
