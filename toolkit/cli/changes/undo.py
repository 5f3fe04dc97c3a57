"""`offsetbook undo`: put back what a run changed."""

from __future__ import annotations

from functools import partial

import click

from toolkit.cli.change_command import CommandTarget, Planned, Planner, change_command
from toolkit.cli.changes.move import carry_out_move
from toolkit.cli.facts import choose_cluster, reading
from toolkit.errors import UsageError

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
    from toolkit.journeys.undo import plan_run_undo
    from toolkit.storage.undo_records import read_undo_record

    if asked.groups:
        raise UsageError("an undo is of a whole run", hint="leave --group out")
    done = read_undo_record(state_folder(asked), run)
    cluster = choose_cluster(asked, asked.cluster or done.cluster)
    with reading(asked, cluster) as progress:
        undo = plan_run_undo(done, run, cluster, even_if_moved=even_if_moved, on_progress=progress)
    carry_out = partial(carry_out_move, undo.live) if undo.live else None
    return Planned(undo.plan, cluster, undo.facts, carry_out=carry_out)


HELP = """Undo RUN: put back every offset and group that it changed, as an ordinary plan.

Of a live group whose offsets were moved they are moved back, however far it has read on since.
"""
planner = Planner("undo", HELP, make, OPTIONS)
command = change_command(planner)
