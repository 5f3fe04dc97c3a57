"""The rule about members that may let go of nothing for a while."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.model.times import format_duration
from toolkit.plan import Finding
from toolkit.planning.holds.hold_context import WAITS_FOR, HoldContext, Recipe
from toolkit.planning.selection.member_names import name_members
from toolkit.planning.selection.plan_parts import note

HARMS = {
    Recipe.LOSSLESS: "it revokes nothing meanwhile; a lossless capture then interrupts the topic's "
    "other partitions, and gives up after {wait}. prefer quiet does not wait for the owner",
    Recipe.EAGER: "all members stop until it polls, as in every rebalance, for up to {wait}; then "
    "it is evicted, and what it has read since its last commit is redelivered",
}


def slow_member(case: HoldContext) -> Iterator[Finding]:
    """Report members with lag and no commit for long, where the capture waits for them."""
    topics = {partition.topic for partition in case.wanted}
    for member in case.slow:
        is_waited_for = case.recipe is Recipe.EAGER or not topics.isdisjoint(
            partition.topic for partition in member.assignment
        )
        age = case.since_last_commit(member)
        if case.recipe not in HARMS or not is_waited_for or age is None:
            continue
        why = (
            f"{name_members([member])} has lag and has not committed for {format_duration(age)}: "
            f"if it is processing one record, {HARMS[case.recipe]}"
        )
        told = why.format(wait=format_duration(WAITS_FOR))
        yield note("slow-member", told, case.group.group_id)
