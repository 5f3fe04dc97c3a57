"""`--delete`: delete idle groups with everything that they committed (KIP-229)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_command import Planned
from toolkit.cli.consumer_groups.connection_flags import asked_of, cluster_of
from toolkit.cli.consumer_groups.exact_names import choose, named, only
from toolkit.cli.consumer_groups.tool_change_flow import Carrying, carry
from toolkit.cli.facts import read_facts
from toolkit.cli.output import printable
from toolkit.planning.changes.delete_groups import plan_delete_groups

if TYPE_CHECKING:
    from toolkit.plan import Outcome, Plan


def run(given: dict[str, Any]) -> int:
    """Delete groups, or show which would be; the exit code."""
    cluster = cluster_of(given)
    facts = read_facts(asked_of(given), cluster, groups=named(given["groups"]))
    chosen = choose(facts, given)
    facts = only(facts, chosen.ids)
    plan = plan_delete_groups(facts, groups=chosen.ids)

    def write(outcome: Outcome | None) -> None:
        _write(plan, outcome)

    planned = Planned(plan, cluster, facts)
    return carry(Carrying(planned, write, chosen.passed_over, asks=True), given)


def _write(plan: Plan, outcome: Outcome | None) -> None:
    """Say what was deleted in the tool's words; why others were not is said on stderr."""
    from toolkit.plan import Status

    if outcome is None:
        if plan.group_ids:
            click.echo(f"These consumer groups would be deleted: {_listed(plan.group_ids)}")
        return
    done = [step.group_id for step in outcome.steps if step.status is Status.DONE]
    if outcome.is_done:
        click.echo(f"Deletion of requested consumer groups ({_listed(done)}) was successful.")
    elif done:
        click.echo(f"These consumer groups were deleted successfully: {_listed(done)}")


def _listed(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(f"'{printable(name)}'" for name in names)
