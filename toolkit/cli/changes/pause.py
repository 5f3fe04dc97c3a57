"""`offsetbook pause`: pause partitions of a live group; its members read the others."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.change_flow import FAILED, apply_decided, has_terminal, print_result
from toolkit.cli.command_target import CommandPlan, only_group, opened
from toolkit.cli.options import CommandScope, topics_option
from toolkit.cli.output import echo_with_commands, in_message, printable
from toolkit.journeys.change.container_command import check_keeper_outlives, is_container_command
from toolkit.model import CaptureMode

if TYPE_CHECKING:
    from toolkit.journeys.change.checked_plan import CheckedPlan
    from toolkit.journeys.change.decision import Decision

PREFER = click.option(
    "--prefer",
    type=click.Choice([prefer.value for prefer in CaptureMode]),
    default=CaptureMode.LOSSLESS.value,
    show_default=True,
    help="How to capture partitions of a KIP-848 group: lossless (no redelivered records), quiet "
    "(only the current owner stops), or fast (taken over within a second).",
)
HOLD_FOR = click.option(
    "--for",
    "pause_for",
    metavar="DURATION",
    default="",
    help="Pause duration, such as 30m or 2h. Default: until resumed.",
)
COMMIT_MISSING = click.option(
    "--commit-missing",
    metavar="earliest|latest|OFFSET",
    default="",
    help="Position to commit first for partitions without a committed offset. Without it they "
    "block the pause: who gets them again starts according to auto.offset.reset.",
)
CTRL_C = "Ctrl-C or SIGTERM while it was held in the foreground"
OPTIONS = (
    topics_option(
        " Without partition numbers: all partitions of the topic. Leave it out for a Streams "
        "application (KIP-1071), which is paused as a whole."
    ),
    HOLD_FOR,
    PREFER,
    COMMIT_MISSING,
    click.option(
        "--detach",
        is_flag=True,
        help="Hold in the background; return once the partitions are paused.",
    ),
)


def make(
    command: CommandScope, *, topics: tuple[str, ...], detach: bool, **terms: str
) -> CommandPlan:
    from toolkit.journeys.pause import pause

    if detach:
        check_keeper_outlives()
    group = only_group(command.groups)
    with opened(command) as access:
        change = pause(access, group, topics, **terms)
    return CommandPlan(change, carry_out=partial(_hold, detach=detach))


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Take SIGTERM as Ctrl-C where the keeper would end with this command: a container's."""
    if not is_container_command():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@_terminated_as_interrupted()
def _hold(decision: Decision, command: CommandScope, *, detach: bool) -> int:
    """Carry out a plan to pause, stay with it unless it is detached, and return the exit code."""
    outcome = apply_decided(decision, command, attached=True)
    handles, planned = outcome.holds, decision.change
    try:
        if code := print_result(outcome, command):
            return code
        if not handles:
            click.echo("added to the existing background pause", err=True)
            return 0
        # A lost terminal ends this command, and not the hold.
        for handle in handles:
            handle.detach()
        return _print_background_pause(planned) if detach else _stay(planned)
    except KeyboardInterrupt:
        return _print_background_pause(planned) if _wants_to_keep() else _resume(planned, command)
    finally:
        for handle in handles:  # no effect on those that were detached
            handle.terminate()


def _stay(planned: CheckedPlan) -> int:
    """Print the status of the hold until it has ended; return the exit code."""
    from toolkit.journeys.pause import follow_pause
    from toolkit.storage.hold_files import HoldStatus

    click.echo("paused; press Ctrl-C to resume, or to continue in the background", err=True)
    words, planned_end = "", None
    for record in follow_pause(planned):
        if record.words != words and record.status is HoldStatus.HELD and words:
            click.echo(printable(record.words), err=True)
        words, planned_end = record.words, record.planned_end
    click.echo(f"the pause has ended: {printable(words)}", err=True)
    return 0 if planned_end else FAILED


def _wants_to_keep() -> bool:
    """Ask whether the hold continues; without a terminal, or with the container, it does not."""
    if not has_terminal() or is_container_command():
        return False
    choices = click.Choice(["keep", "resume"])
    try:
        words = "\nKeep paused in the background, or resume now?"
        return bool(click.prompt(words, type=choices, default="resume", err=True) == "keep")
    except click.Abort:
        return False


def _print_background_pause(planned: CheckedPlan) -> int:
    from toolkit.journeys.pause import pause_length
    from toolkit.report.run_command import offsetbook_command

    plan, fleet = planned.plan, planned.access.fleet_file
    for group_id in plan.group_ids:
        where = ("--cluster", plan.cluster, "--group", group_id)
        resume = in_message(offsetbook_command("resume", *where, fleet_file=fleet))
        echo_with_commands(f"paused in the background {pause_length(plan)}; to resume: {resume}")
    return 0


def _resume(planned: CheckedPlan, command: CommandScope) -> int:
    """Resume what was paused, as a change of its own that is recorded."""
    from toolkit.journeys.resume import resume_paused

    back = resume_paused(planned)
    if not back.plan.steps:
        click.echo("nothing is paused any more", err=True)
        return 0
    return print_result(apply_decided(back.decide().approved_by_hand(CTRL_C), command), command)


HELP = """Pause partitions of a live group; after a short interruption all others continue.

offsetbook joins the group as a regular member and takes over the partitions; no consumer is
restarted. It holds them until you resume them, or for the duration of --for. If it crashes, the
group resumes them after the session timeout. Without --detach it runs in the foreground: Ctrl-C
asks whether to continue in the background or to resume.
"""
planner = Planner("pause", HELP, make, OPTIONS, of_one_group=True)
command = change_command(planner)
