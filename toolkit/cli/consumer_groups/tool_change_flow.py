"""Carry a plan out the tool's way: show, check, do it with --execute, and tell what was found."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_flow import (
    BLOCKED,
    PARTLY,
    ApprovalOptions,
    apply_approved,
    get_approval,
    has_terminal,
    state_folder,
    tell_blocked,
    tell_findings,
    tell_outcome,
    write_plan,
)
from toolkit.cli.consumer_groups.connection_flags import asked_of
from toolkit.cli.output import printable, write_frame
from toolkit.cli.run_notices import tell_cut_off
from toolkit.errors import Blocked

if TYPE_CHECKING:
    from toolkit.cli.change_command import CommandTarget, Planned
    from toolkit.model import Group
    from toolkit.plan import Outcome

# Writes what is planned (no outcome) or what was done to stdout, in the tool's form.
Write = Callable[["Outcome | None"], None]


@dataclass(frozen=True)
class Carrying:
    """A plan, how it is shown, and what was asked for but is not in it."""

    planned: Planned
    write: Write
    passed_over: Collection[Group] = ()
    asks: bool = False  # without --execute: ask at a terminal, instead of only showing


def carry(carrying: Carrying, given: dict[str, Any]) -> int:
    """Show a plan, and where that is asked for and nothing objects, apply it; the exit code."""
    from toolkit.planning.guardrails.registry import blocking, check_overrides

    asked, planned = asked_of(given), carrying.planned
    check_overrides(given["overrides"])
    tell_cut_off(planned.cluster, state_folder(asked))
    for group in carrying.passed_over:
        click.echo(f"passed over: {printable(group.group_id)}: it is {group.state}", err=True)
    code = PARTLY if carrying.passed_over else 0
    stopping = blocking(tell_findings(planned, asked), given["overrides"])
    is_approved = bool(given["execute"] or given["approve"])
    only_shows = given["dry_run"] or not (is_approved or carrying.asks)
    is_last = bool(stopping) or only_shows or not planned.plan.steps
    if _shows_plan(asked, is_last=is_last, is_approved=is_approved, is_blocked=bool(stopping)):
        _show(carrying, asked, None)
    if stopping:
        tell_blocked(stopping)
        return BLOCKED
    if is_last:
        click.echo(_why_nothing(given, planned), err=True)
        return code
    approval = get_approval(planned, _consent(planned, given))
    outcome = apply_approved(planned, asked, approval)
    _show(carrying, asked, outcome)
    return tell_outcome(outcome) or code


def _shows_plan(
    asked: CommandTarget, *, is_last: bool, is_approved: bool, is_blocked: bool
) -> bool:
    """Whether the plan is written to stdout, and not only what was done by it."""
    if asked.output != "table":
        return is_last  # for programs one frame: the outcome where there is one
    # The tool's table of what was to be done and is blocked would look like one of what was done.
    return not is_approved or (is_last and not is_blocked)


def _show(carrying: Carrying, asked: CommandTarget, outcome: Outcome | None) -> None:
    """Write the tool's table, or for programs one frame: the outcome where there is one."""
    from toolkit.planning.frames.outcome_frame import outcome_frame

    if asked.output == "table":
        carrying.write(outcome)
    elif outcome:
        write_frame(outcome_frame(outcome), asked.output)
    else:
        write_plan(carrying.planned, asked)


def _consent(planned: Planned, given: dict[str, Any]) -> ApprovalOptions:
    """Return the consent: --execute approves what is shown, but does not say why."""
    consent = ApprovalOptions(**{name: given[name] for name in ApprovalOptions.OPTIONS})
    if given["execute"] and consent.approve is None:
        consent = replace(consent, approve=planned.plan.fingerprint)
    if consent.approve is None and not has_terminal():
        hint = "--execute --reason TEXT, or --dry-run to only look"
        raise Blocked("not approved: nothing was changed", hint=hint)
    return consent


def _why_nothing(given: dict[str, Any], planned: Planned) -> str:
    if not planned.plan.steps:
        return "nothing to do"
    if given["dry_run"]:
        return f"dry run: nothing was changed. Fingerprint: {planned.plan.fingerprint}"
    return "nothing was changed: that needs --execute, or say --dry-run"
