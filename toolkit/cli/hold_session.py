"""Hold in the foreground or in the background, and what Ctrl-C does meanwhile."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from toolkit.cli.change_command import CommandTarget, Planned
from toolkit.cli.change_flow import (
    FAILED,
    apply_approved,
    has_terminal,
    state_folder,
    tell,
    with_progress,
)
from toolkit.cli.facts import read_facts
from toolkit.cli.output import printable
from toolkit.errors import UsageError

if TYPE_CHECKING:
    from toolkit.plan.approvals import Approval

CTRL_C = "Ctrl-C while it was held in the foreground"


def only_group(asked: CommandTarget) -> str:
    """Return the one group that is named; raises UsageError."""
    if len(set(asked.groups)) != 1:
        hint = "--group NAME, one call for each group"
        raise UsageError("a pause is of exactly one group", hint=hint)
    return asked.groups[0]


def hold(planned: Planned, asked: CommandTarget, approval: Approval, *, detach: bool) -> int:
    """Carry out a plan to pause, stay with it unless it is detached, and return the exit code."""
    from toolkit.operate.apply import apply_tied

    apply = partial(apply_tied, planned.plan)
    outcome, ties = with_progress(apply, planned, asked, approval)
    try:
        if code := tell(outcome, asked):
            return code
        if not ties:
            click.echo("added to what is held in the background already", err=True)
            return 0
        # A lost terminal ends this command, and not the hold.
        for tie in ties:
            tie.let_go()
        return _tell_background(planned) if detach else _stay(planned, asked)
    except KeyboardInterrupt:
        return _tell_background(planned) if _wants_to_keep() else _resume(planned, asked)
    finally:
        for tie in ties:  # those that go on alone do not mind
            tie.cut()


def _stay(planned: Planned, asked: CommandTarget) -> int:
    """Tell how the hold stands until it has ended; return the exit code."""
    from toolkit.operate.keeper_handle import follow
    from toolkit.storage.hold_files import HoldStatus

    click.echo("held; Ctrl-C ends that, or leaves it to the background", err=True)
    words = ""
    for record in follow(_hold_file(planned, asked)):
        if record.words != words and record.status is HoldStatus.HELD and words:
            click.echo(printable(record.words), err=True)
        words = record.words
    click.echo(f"the hold has ended: {printable(words)}", err=True)
    return 0 if words in _meant() else FAILED


def _meant() -> frozenset[str]:
    from toolkit.live.keeper import TIME_OVER

    return frozenset({TIME_OVER, "resumed"})


def _wants_to_keep() -> bool:
    """Ask whether the hold goes on; without a terminal to ask at, it does not."""
    if not has_terminal():
        return False
    choices = click.Choice(["keep", "resume"])
    try:
        words = "\nKeep holding in the background, or resume now"
        return bool(click.prompt(words, type=choices, default="resume", err=True) == "keep")
    except click.Abort:
        return False


def _tell_background(planned: Planned) -> int:
    """Say that a hold goes on in the background, and how it is ended."""
    plan = planned.plan
    for group_id in plan.group_ids:
        click.echo(
            f"held in the background {_how_long(planned)}; 'offsetbook resume --cluster "
            f"{plan.cluster} --group {printable(group_id)}' ends that",
            err=True,
        )
    return 0


def _how_long(planned: Planned) -> str:
    from toolkit.planning.holds.hold_context import HoldTerms

    return HoldTerms.of(planned.plan).words


def _resume(planned: Planned, asked: CommandTarget) -> int:
    """Give back what was paused, as a change of its own that is recorded."""
    from toolkit.plan.approvals import Approval
    from toolkit.planning.changes.pause import plan_resume
    from toolkit.planning.selection.scope import scopes_of

    plan = planned.plan
    (group_id,) = plan.group_ids
    partitions = [change.partition for _, change in plan.changes]
    names = sorted({partition.topic for partition in partitions})
    facts = read_facts(asked, planned.cluster, groups=[group_id], topics=names)
    scopes = [str(scope) for scope in scopes_of(partitions)]
    resume = plan_resume(facts, group=group_id, topics=scopes)
    if not resume.steps:
        click.echo("nothing is held any more", err=True)
        return 0
    again = Planned(resume, planned.cluster, facts)
    return tell(apply_approved(again, asked, Approval(resume.fingerprint, CTRL_C)), asked)


def _hold_file(planned: Planned, asked: CommandTarget) -> Path:
    from toolkit.storage.hold_files import hold_path

    (group_id,) = planned.plan.group_ids
    return hold_path(state_folder(asked), planned.plan.cluster_id, group_id)
