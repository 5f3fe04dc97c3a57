"""Apply a plan as kafka-consumer-groups.sh does: a dry run unless --execute is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_flow import (
    BLOCKED,
    PARTLY,
    apply_decided,
    approval_parameters,
    approved,
    has_terminal,
    print_blocked,
    print_findings,
    print_notices,
    print_outcome,
    print_unchanged,
    write_plan,
)
from toolkit.cli.consumer_groups.cluster_and_groups import command_target_of
from toolkit.cli.output import after_a_change, write_frame
from toolkit.errors import Blocked

if TYPE_CHECKING:
    from toolkit.cli.command_target import CommandTarget
    from toolkit.journeys.change.approval_parameters import ApprovalParameters
    from toolkit.journeys.change.change_outcome import ChangeOutcome
    from toolkit.journeys.change.planned_change import PlannedChange
    from toolkit.plan import Outcome

# Writes what is planned (no outcome) or what was done to stdout, in the tool's form.
Write = Callable[["Outcome | None"], None]


@dataclass(frozen=True)
class ToolChange:
    """A planned change, and how the tool shows it."""

    change: PlannedChange
    write: Write
    asks: bool = False  # without --execute: ask at a terminal, instead of only showing


def apply_tool_change(tool_change: ToolChange, given: dict[str, Any]) -> int:
    from toolkit.journeys.change.decision import decide

    command, change = command_target_of(given), tool_change.change
    is_approved = bool(given["execute"] or given["approve"])
    only_shows = given["dry_run"] or not (is_approved or tool_change.asks)
    decision = decide(change, _parameters(change, given, only_shows=only_shows))
    print_notices(change.notices)
    print_findings(change, command)
    code = 0 if change.is_whole else PARTLY
    is_blocked = bool(decision.blocked_by)
    is_last = is_blocked or only_shows or not change.plan.steps
    if _shows_plan(command, is_last=is_last, is_approved=is_approved, is_blocked=is_blocked):
        _show(tool_change, command, None)
    if is_blocked:
        print_blocked(decision)
        return BLOCKED
    if is_last:
        if change.plan.steps and not given["dry_run"]:
            click.echo(
                "nothing was changed: add --execute to apply, or --dry-run to only look",
                err=True,
            )
        else:
            print_unchanged(decision)
        return code
    if not decision.parameters.approve and not has_terminal():
        hint = "add --execute --reason TEXT, or --dry-run to only look"
        raise Blocked("not approved: nothing was changed", hint=hint)
    outcome = apply_decided(approved(decision), command)
    with after_a_change():
        _show(tool_change, command, outcome)
    return print_outcome(outcome) or code


def _parameters(
    change: PlannedChange, given: dict[str, Any], *, only_shows: bool
) -> ApprovalParameters:
    """Return the approval: --execute approves what is shown, but does not say why."""
    parameters = approval_parameters(dict(given))
    if given["execute"] and not parameters.approve:
        parameters = replace(parameters, approve=change.fingerprint)
    return replace(parameters, dry_run=only_shows)


def _shows_plan(
    command: CommandTarget, *, is_last: bool, is_approved: bool, is_blocked: bool
) -> bool:
    """Whether the plan is written to stdout, and not only what was done by it."""
    if command.output != "table":
        return is_last  # for programs one frame: the outcome where there is one
    # The tool's table of what was to be done and is blocked would look like one of what was done.
    return not is_approved or (is_last and not is_blocked)


def _show(tool_change: ToolChange, command: CommandTarget, outcome: ChangeOutcome | None) -> None:
    """Write the tool's table, or for programs one frame: the outcome where there is one."""
    if command.output == "table":
        tool_change.write(outcome.outcome if outcome else None)
    elif outcome and outcome.outcome:
        write_frame(outcome.results, command.output)
    else:
        write_plan(tool_change.change, command)
