"""The rule about members that may let go of nothing for a while."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.model.times import format_duration
from toolkit.plan import Finding
from toolkit.planning.holds.hold_context import HoldContext
from toolkit.planning.holds.recipes import WAITS_FOR, Recipe
from toolkit.planning.selection.member_names import name_members
from toolkit.planning.selection.plan_parts import note

HARMS = {
    Recipe.LOSSLESS: "the topic's other partitions stop until it polls, for up to {wait}; then it "
    "is evicted, and what it has read since its last commit is redelivered. prefer quiet evicts it "
    "at once, and no partitions of other members stop",
    Recipe.CLAIMS: "the pause is refused after {wait}; if it stops polling only when the others "
    "have revoked their partitions, all stop for up to {wait}, then it is evicted, and what it has "
    "read since its last commit is redelivered. prefer quiet does not wait for it",
    Recipe.EAGER: "all members stop until it polls, as in every rebalance, for up to {wait}; then "
    "it is evicted, and what it has read since its last commit is redelivered",
}


def slow_member(case: HoldContext) -> Iterator[Finding]:
    """Report members with lag and no commit for long, where the capture waits for them."""
    if case.recipe not in HARMS:
        return
    for member in case.slow:
        age = format_duration(case.since_last_commit(member) or WAITS_FOR)
        harm = HARMS[case.recipe].format(wait=format_duration(WAITS_FOR))
        why = (
            f"{name_members([member])} has lag and has not committed for {age}: if it is "
            f"processing one record, {harm}"
        )
        yield note("slow-member", why, case.group.group_id)
