"""`offsetbook move`: move the committed offsets of a live group, without stopping a consumer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_command import Planner, change_command
from toolkit.cli.changes.pause import COMMIT_MISSING, PREFER
from toolkit.cli.changes.reset import MODE_FLAGS, SCOPE, target_of
from toolkit.cli.command_target import only_group, opened
from toolkit.cli.options import CommandScope

if TYPE_CHECKING:
    from toolkit.journeys.change.planned_change import PlannedChange


def make(command: CommandScope, **given: Any) -> PlannedChange:
    """Plan a move; of a group without members, an ordinary reset."""
    from toolkit.journeys.move import move

    group, to = only_group(command.groups), target_of(given)
    terms = {name: given[name] for name in ("topics", "new_topics", "prefer", "commit_missing")}
    with opened(command) as access:
        change = move(access, group, to=to, **terms)
    if change.live is None:
        click.echo("group is empty: this is an ordinary reset", err=True)
    return change


HELP = """Move the committed offsets of a live group, without stopping a consumer.

Pauses the partitions, commits the new offsets in one transaction, reads them back and resumes, so
that every client fetches its new position. You approve the target; the current offsets may advance
until then. Partitions that were paused before stay paused.
"""
planner = Planner(
    "move", HELP, make, (*MODE_FLAGS, *SCOPE, PREFER, COMMIT_MISSING), of_one_group=True
)
command = change_command(planner)
