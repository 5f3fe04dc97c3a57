"""`offsetbook move`: move the committed offsets of a live group, without stopping a consumer."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.change_flow import tell, with_progress
from toolkit.cli.changes.pause import PREFER
from toolkit.cli.changes.reset import FLAGS, SCOPE, wanted_of
from toolkit.cli.facts import choose_cluster, read_facts
from toolkit.cli.hold_session import only_group
from toolkit.errors import UsageError
from toolkit.model import Prefer

if TYPE_CHECKING:
    from toolkit.plan.approvals import Approval
    from toolkit.planning.changes.move import PlannedMove


def make(asked: CommandTarget, *, prefer: str, **given: Any) -> Planned:
    """Plan a move; of a group without members, an ordinary reset."""
    from toolkit.operate.background import read_background
    from toolkit.planning.changes.move import MoveRequest, plan_move
    from toolkit.planning.changes.reset import plan_reset
    from toolkit.planning.selection.scope import parse_topics

    group, topics = only_group(asked), given["topics"]
    if topics and given["all_topics"]:
        raise UsageError("--topic and --all-topics exclude each other", hint="leave one out")
    scopes = parse_topics(topics)
    cluster = choose_cluster(asked)
    wanted = wanted_of(asked, given)
    names = {scope.topic for scope in scopes} | wanted.topics
    beside = read_background(cluster, group, prefer=prefer)
    facts = read_facts(asked, cluster, groups=[group], topics=sorted(names), at=wanted.at)
    if any(found.group_id == group and not found.is_live for found in facts.groups):
        click.echo("it has no members: this is an ordinary reset", err=True)
        new_topics = given["new_topics"]
        plan = plan_reset(
            facts, wanted.target, groups=[group], topics=topics, new_topics=new_topics
        )
        return Planned(plan, cluster, facts)
    request = MoveRequest(
        wanted.target, group, topics, given["new_topics"], Prefer(prefer), beside=beside
    )
    planned = plan_move(facts, request)
    return Planned(planned.plan, cluster, facts, carry_out=partial(carry_out_move, planned))


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
