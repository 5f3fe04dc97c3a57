"""`offsetbook move`: move the committed offsets of a live group, without stopping a consumer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.change_flow import tell, with_progress
from toolkit.cli.changes.pause import PREFER
from toolkit.cli.changes.reset import FLAGS, SCOPE, target_of
from toolkit.cli.facts import choose_cluster, reading
from toolkit.cli.hold_session import only_group
from toolkit.errors import UsageError
from toolkit.model import Prefer

if TYPE_CHECKING:
    from toolkit.plan.approvals import Approval
    from toolkit.planning.changes.move import PlannedMove


def make(asked: CommandTarget, *, prefer: str, **given: Any) -> Planned:
    """Plan a move; of a group without members, an ordinary reset."""
    from toolkit.journeys.move import plan_group_move
    from toolkit.planning.changes.move import MoveRequest

    group, topics = only_group(asked), given["topics"]
    if topics and given["all_topics"]:
        raise UsageError("--topic and --all-topics exclude each other", hint="leave one out")
    cluster = choose_cluster(asked)
    target = target_of(asked, given)
    request = MoveRequest(target, group, topics, given["new_topics"], Prefer(prefer))
    with reading(asked, cluster) as progress:
        found = plan_group_move(cluster, request, on_progress=progress)
    if found.live is None:
        click.echo("it has no members: this is an ordinary reset", err=True)
    carry_out = partial(carry_out_move, found.live) if found.live else None
    return Planned(found.plan, cluster, found.facts, carry_out=carry_out)


def carry_out_move(
    move: PlannedMove, planned: Planned, asked: CommandTarget, approval: Approval
) -> int:
    """Carry out an approved move, tell what became of it, and return the exit code."""
    from toolkit.operate import move as operate

    return tell(with_progress(partial(operate.move, move), planned, asked, approval), asked)


HELP = """Move the committed offsets of a live group, without stopping a consumer.

The partitions are paused, moved in one transaction, read back and resumed, so that every client
loads its position anew. What is approved is where to; the numbers of now move on until then.
Partitions that were paused before stay paused.
"""
planner = Planner("move", HELP, make, (*FLAGS, *SCOPE, PREFER), of_one_group=True)
command = change_command(planner)
