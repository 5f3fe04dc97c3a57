"""`offsetbook undo`: put back what a run changed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.changes.move import carry_out_move
from toolkit.cli.facts import choose_cluster, read_facts
from toolkit.errors import UsageError
from toolkit.plan import Intent

OPTIONS = (
    click.argument("run"),
    click.option(
        "--even-if-moved",
        is_flag=True,
        help="Put offsets back also where somebody has moved them since.",
    ),
)


def make(asked: CommandTarget, *, run: str, even_if_moved: bool) -> Planned:
    """Plan to undo a run, from its undo record and the facts of now."""
    from toolkit.cli.change_flow import state_folder
    from toolkit.planning.changes.move import PlannedMove, move_back, plan_move
    from toolkit.planning.changes.undo import Moved, plan_undo
    from toolkit.storage.undo_records import read_undo_record

    if asked.groups:
        raise UsageError("an undo is of a whole run", hint="leave --group out")
    done = read_undo_record(state_folder(asked), run)
    then = done.topic_ids
    cluster = choose_cluster(asked, asked.cluster or done.cluster)
    topics = sorted({change.partition.topic for _, change in done.changes})
    facts = read_facts(asked, cluster, groups=done.group_ids, topics=topics)
    if done.intent is Intent.MOVE and any(group.is_live for group in facts.groups):
        back = plan_move(facts, move_back(done, run))
        # A topic that was made anew since has other records at these offsets.
        plan = replace(back.plan, topic_ids=then)
        moved = PlannedMove(plan, lambda later: replace(back.replan(later), topic_ids=then))
        return Planned(plan, cluster, facts, carry_out=partial(carry_out_move, moved))
    plan = plan_undo(
        done,
        facts,
        moved=Moved.RESTORE if even_if_moved else Moved.LEAVE,
        request=f"undo run {run}: {done.request}",
    )
    return Planned(plan, cluster, facts)


HELP = """Undo RUN: put back every offset and group that it changed, as an ordinary plan.

Of a live group whose offsets were moved they are moved back, however far it has read on since.
"""
planner = Planner("undo", HELP, make, OPTIONS)
command = change_command(planner)
