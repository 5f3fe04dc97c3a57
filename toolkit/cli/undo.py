"""`offsetbook undo`: put back what a run changed."""

from __future__ import annotations

import click

from toolkit.cli.facts import choose_cluster, read_facts
from toolkit.cli.planner import Asked, Planned, Planner, change_command
from toolkit.errors import UsageError

OPTIONS = (
    click.argument("run"),
    click.option(
        "--even-if-moved",
        is_flag=True,
        help="Put offsets back also where somebody has moved them since.",
    ),
)


def make(asked: Asked, *, run: str, even_if_moved: bool) -> Planned:
    """Plan to undo a run, from its undo record and the facts of now."""
    from toolkit.cli.changing import state_folder
    from toolkit.planning.undo import Moved, plan_undo
    from toolkit.storage.runs import read_undo_record

    if asked.groups:
        raise UsageError("an undo is of a whole run", hint="leave --group out")
    done = read_undo_record(state_folder(asked), run)
    cluster = choose_cluster(asked, asked.cluster or done.cluster)
    topics = sorted({change.partition.topic for _, change in done.changes})
    facts = read_facts(asked, cluster, groups=done.group_ids, topics=topics)
    plan = plan_undo(
        done,
        facts,
        moved=Moved.RESTORE if even_if_moved else Moved.LEAVE,
        request=f"undo run {run}: {done.request}",
    )
    return Planned(plan, cluster, facts)


HELP = "Undo RUN: put back every offset and group that it changed, as an ordinary plan."
planner = Planner("undo", HELP, make, OPTIONS)
command = change_command(planner)
