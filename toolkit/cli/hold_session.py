"""Run a hold in the foreground or background, and handle Ctrl-C."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from toolkit.cli.change_flow import FAILED, apply_decided, has_terminal, print_result
from toolkit.cli.command_target import CommandTarget
from toolkit.cli.output import printable

if TYPE_CHECKING:
    from toolkit.journeys.change.checked_plan import CheckedPlan
    from toolkit.journeys.change.decision import Decision
    from toolkit.plan import Plan

CTRL_C = "Ctrl-C while it was held in the foreground"


def hold(decision: Decision, command: CommandTarget, *, detach: bool) -> int:
    """Carry out a plan to pause, stay with it unless it is detached, and return the exit code."""
    outcome = apply_decided(decision, command, tied=True)
    ties, planned = outcome.holds, decision.change
    try:
        if code := print_result(outcome, command):
            return code
        if not ties:
            click.echo("added to the existing background pause", err=True)
            return 0
        # A lost terminal ends this command, and not the hold.
        for tie in ties:
            tie.let_go()
        return _print_kept_running(planned.plan) if detach else _stay(planned)
    except KeyboardInterrupt:
        return _print_kept_running(planned.plan) if _wants_to_keep() else _resume(planned, command)
    finally:
        for tie in ties:  # those that go on alone do not mind
            tie.cut()


def _stay(planned: CheckedPlan) -> int:
    """Tell how the hold stands until it has ended; return the exit code."""
    from toolkit.journeys.pause import ENDED_AS_PLANNED, follow_pause
    from toolkit.storage.hold_files import HoldStatus

    click.echo("paused; press Ctrl-C to resume, or to continue in the background", err=True)
    words = ""
    for record in follow_pause(planned):
        if record.words != words and record.status is HoldStatus.HELD and words:
            click.echo(printable(record.words), err=True)
        words = record.words
    click.echo(f"the pause has ended: {printable(words)}", err=True)
    return 0 if words in ENDED_AS_PLANNED else FAILED


def _wants_to_keep() -> bool:
    """Ask whether the hold goes on; without a terminal to ask at, it does not."""
    if not has_terminal():
        return False
    choices = click.Choice(["keep", "resume"])
    try:
        words = "\nKeep paused in the background, or resume now?"
        return bool(click.prompt(words, type=choices, default="resume", err=True) == "keep")
    except click.Abort:
        return False


def _print_kept_running(plan: Plan) -> int:
    """Report that the pause continues in the background, and how to resume."""
    from toolkit.journeys.pause import pause_length

    for group_id in plan.group_ids:
        click.echo(
            f"paused in the background {pause_length(plan)}; to resume: "
            f"'offsetbook resume --cluster {plan.cluster} --group {printable(group_id)}'",
            err=True,
        )
    return 0


def _resume(planned: CheckedPlan, command: CommandTarget) -> int:
    """Give back what was paused, as a change of its own that is recorded."""
    from toolkit.journeys.resume import resume_own

    back = resume_own(planned)
    if not back.plan.steps:
        click.echo("nothing is paused any more", err=True)
        return 0
    return print_result(apply_decided(back.decide().approved_by_hand(CTRL_C), command), command)
