"""`--delete-offsets`: delete the committed offsets of topics (KIP-496)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.command_target import opened
from toolkit.cli.consumer_groups.cluster_and_groups import cluster_of, command_target_of
from toolkit.cli.consumer_groups.tool_change_flow import ToolChange, apply_tool_change
from toolkit.cli.consumer_groups.tool_tables import Cell, write_table
from toolkit.errors import UsageError
from toolkit.journeys.change.group_choice import GroupChoice
from toolkit.journeys.delete_offsets import OffsetChoice, delete_offsets
from toolkit.plan import ChangeStatus, Plan

if TYPE_CHECKING:
    from toolkit.plan import Outcome

COLUMNS = ("TOPIC", "PARTITION", "STATUS")
PLANNED, DONE = "Would be deleted", "Successful"


def run(given: dict[str, Any]) -> int:
    if len(set(given["groups"])) > 1:
        hint = "one call for each; 'offsetbook delete-offsets' takes several"
        raise UsageError("--delete-offsets takes one --group", hint=hint)
    with opened(command_target_of(given), cluster_of(given)) as access:
        choice = GroupChoice(tuple(given["groups"]), exact=True)
        change = delete_offsets(access, choice, OffsetChoice(given["topics"]))

    def write(outcome: Outcome | None) -> None:
        click.echo()
        write_table(COLUMNS, _rows(change.plan, outcome))

    return apply_tool_change(ToolChange(change, write, asks=True), given)


def _rows(plan: Plan, outcome: Outcome | None) -> Iterator[Sequence[Cell]]:
    if outcome is None:
        yield from sorted((*change.partition, PLANNED) for _, change in plan.changes)
    for step in outcome.steps if outcome else ():
        for result in sorted(step.results, key=lambda result: result.partition):
            done = result.status is ChangeStatus.DONE
            yield (*result.partition, DONE if done else f"Error: {result.why}")
