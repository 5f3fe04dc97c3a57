"""`--delete`: delete idle groups with everything that they committed (KIP-229)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.command_target import opened
from toolkit.cli.consumer_groups.cluster_and_groups import chosen_by, cluster_of, command_target_of
from toolkit.cli.consumer_groups.tool_change_flow import ToolChange, apply_tool_change
from toolkit.cli.output import printable
from toolkit.journeys.delete_groups import delete_groups

if TYPE_CHECKING:
    from toolkit.plan import Outcome, Plan


def run(given: dict[str, Any]) -> int:
    with opened(command_target_of(given), cluster_of(given)) as access:
        change = delete_groups(access, chosen_by(given))

    def write(outcome: Outcome | None) -> None:
        _write(change.plan, outcome, is_whole=change.is_whole)

    return apply_tool_change(ToolChange(change, write, asks=True), given)


def _write(plan: Plan, outcome: Outcome | None, *, is_whole: bool) -> None:
    """Print the deleted groups in the words of Kafka's tool; reasons for others go to stderr."""
    from toolkit.plan import ChangeStatus

    if outcome is None:
        if plan.group_ids:
            click.echo(f"These consumer groups would be deleted: {_listed(plan.group_ids)}")
        return
    done = [step.group_id for step in outcome.steps if step.status is ChangeStatus.DONE]
    if outcome.is_done and is_whole:
        click.echo(f"Deletion of requested consumer groups ({_listed(done)}) was successful.")
    elif done:
        click.echo(f"These consumer groups were deleted successfully: {_listed(done)}")


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"'{printable(name)}'" for name in names)
