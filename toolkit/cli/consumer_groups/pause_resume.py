"""`--pause`, `--resume` and `--paused-partitions`, as KIP-1249 writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.command_target import only_group, opened
from toolkit.cli.consumer_groups.cluster_and_groups import (
    cluster_of,
    command_target_of,
    exactly,
    named,
)
from toolkit.cli.consumer_groups.tool_change_flow import ToolChange, apply_tool_change
from toolkit.cli.consumer_groups.tool_tables import Cell, write_table
from toolkit.cli.output import printable, write_frame, write_problems
from toolkit.errors import NotFound
from toolkit.plan import ChangeStatus

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange
    from toolkit.plan import Outcome, Plan

COLUMNS = ("TOPIC", "PARTITION", "STATUS")
PAUSED_COLUMNS = ("GROUP", "TOPIC", "PARTITION", "HOLDER", "SINCE", "UNTIL", "HOW")
PAUSE = ("Would be paused", "Paused")
RESUME = ("Would be resumed", "Resumed")
PARTLY = 4


def pause(given: dict[str, Any]) -> int:
    from toolkit.journeys import pause as journey

    command = command_target_of(given)
    group = only_group(command)
    with opened(command, cluster_of(given)) as access:
        terms = {name: given[name] for name in ("pause_for", "prefer")}
        change = journey.pause(access, group, given["topics"], **terms)
    return _carry(change, PAUSE, given)


def resume(given: dict[str, Any]) -> int:
    from toolkit.cli.changes.resume import FORCE_RULE
    from toolkit.journeys import resume as journey

    command = command_target_of(given)
    group = only_group(command)
    with opened(command, cluster_of(given)) as access:
        change = journey.resume(access, group, given["topics"])
    force = (FORCE_RULE,) if given["force"] else ()
    return _carry(change, RESUME, {**given, "overrides": (*given["overrides"], *force)})


def paused_partitions(given: dict[str, Any]) -> int:
    """List what is paused in groups; 4 where one is missing or something could not be read."""
    from toolkit.journeys.paused import paused

    cluster, names = cluster_of(given), given["groups"]
    with opened(command_target_of(given), cluster) as access:
        report = paused(access, named(names))
    facts, frame = report.facts, report.rows
    missing = exactly(facts, names)
    if missing and not facts.groups:
        raise NotFound(f"no group is called {printable(missing[0])!r} in cluster {cluster.name}")
    frame = frame[frame["group"].isin(names)] if names else frame
    if given["output"] == "table":
        click.echo()
        write_table(PAUSED_COLUMNS, [_row(row) for row in frame.to_dict("records")])
    else:
        write_frame(frame, given["output"])
    write_problems([facts])
    for name in missing:
        click.echo(f"error: no group is called {printable(name)!r}", err=True)
    return PARTLY if missing or facts.problems else 0


def _row(row: dict[Any, Any]) -> Sequence[Cell]:
    # What is not known is not equal to itself.
    instants = [
        row[name] if row[name] == row[name] else None for name in ("paused_since", "paused_until")
    ]
    times = [at and f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in instants]
    holder = f"{row['paused_by']}@{row['host'].removeprefix('/')}"
    return (row["group"], row["topic"], int(row["partition"]), holder, *times, row["hold_status"])


def _carry(change: PlannedChange, words: tuple[str, str], given: dict[str, Any]) -> int:
    def write(outcome: Outcome | None) -> None:
        click.echo()
        write_table(COLUMNS, _rows(change.plan, outcome, words))

    return apply_tool_change(ToolChange(change, write, asks=True), given)


def _rows(plan: Plan, outcome: Outcome | None, words: tuple[str, str]) -> Iterator[Sequence[Cell]]:
    would, done = words
    if outcome is None:
        yield from sorted((*change.partition, would) for _, change in plan.changes)
    for step in outcome.steps if outcome else ():
        for result in step.results:
            is_done = result.status is ChangeStatus.DONE
            yield (*result.partition, done if is_done else f"Error: {result.why}")
