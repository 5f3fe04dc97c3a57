"""
Have a classic group wait while its committed offsets are moved.

That takes one rebalance, in which each member fetches its offsets; to hold partitions and to
release them again takes two. It stops the whole application while offsetbook commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from toolkit.errors import HoldLost, Interrupted
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.live.hold import STREAMS_ASSIGNOR
from toolkit.live.recipe_steps import run_recipe
from toolkit.live.stopped_group import StoppedGroup
from toolkit.model import CaptureMode, Cluster, Group, GroupType, Snapshot
from toolkit.model.snapshot import HELD_PARTITIONS
from toolkit.operate.deferred_signals import defer_signals
from toolkit.plan import Action, Plan
from toolkit.planning.changes.move import assume_held


def can_be_stopped(group: Group, pause: Plan) -> bool:
    """
    Return whether all members can be made to wait, instead of what a plan pauses for a move.

    Not if something is paused already, or if other partitions need a first commit before they stop.
    """
    return (
        group.type is GroupType.CLASSIC
        and group.assignor != STREAMS_ASSIGNOR
        and not group.paused
        and pause.terms.get("prefer") != CaptureMode.QUIET
        and {step.action for step in pause.steps} == {Action.HOLD}
    )


@contextmanager
def stopped_group(cluster: Cluster, group_id: str) -> Iterator[Callable[[], None]]:
    """
    Have a group wait, and yield a function that has it go on; leaving early does so, too.

    Raises NotCaptured if it cannot be stopped, and Interrupted; then it goes on as before. It does
    so as well when nothing is heard of this process for `STOP_SURVIVES_S`.
    """
    group = StoppedGroup()
    with GroupChannel(cluster, group_id) as channel:
        try:
            with defer_signals() as asked:
                run_recipe(group.stop(), channel, check=partial(_check, asked))

            def go_on() -> None:
                with suppress(HoldLost):  # then the group has gone on without us
                    run_recipe(group.go_on(), channel)

            yield go_on
        finally:
            run_recipe(group.give_up(), channel)


def _check(asked: Callable[[], str]) -> None:
    if why := asked():
        raise Interrupted(why)


def as_stopped(snapshot: Snapshot, group: Group) -> Snapshot:
    """Return facts about a stopped group: of a rebalance a broker tells who is there, not what."""
    known = replace(
        snapshot,
        groups=tuple(group if one.group_id == group.group_id else one for one in snapshot.groups),
        problems=tuple(
            one
            for one in snapshot.problems
            if (one.what, one.group_id) != (HELD_PARTITIONS, group.group_id)
        ),
    )
    return assume_held(known, group.group_id)
