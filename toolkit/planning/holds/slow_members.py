"""The rule about members that may not revoke anything for a while."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from toolkit.model import Member
from toolkit.model.times import format_duration
from toolkit.plan import Finding
from toolkit.planning.holds.hold_context import HoldContext, Recipe
from toolkit.planning.selection.member_names import name_members
from toolkit.planning.selection.plan_parts import note

# Six times auto.commit.interval.ms. A member that has lag and commits less often either commits
# rarely or is busy with one record.
SLOW_AFTER = timedelta(seconds=30)


def slow_member(case: HoldContext) -> Iterator[Finding]:
    """
    Report members with lag that have not committed for long, where the capture waits for them.

    A member revokes in its next poll. While it processes one record it sends heartbeats, so the
    group is Stable, and nothing else shows it.
    """
    if case.recipe is not Recipe.LOSSLESS:
        return
    topics = {partition.topic for partition in case.wanted}
    for member in case.group.readers:
        age = _since_last_commit(case, member)
        if (
            age is None
            or age <= SLOW_AFTER
            or topics.isdisjoint(p.topic for p in member.assignment)
        ):
            continue
        why = (
            f"{name_members([member])} has lag and has not committed for {format_duration(age)}: "
            "if it is processing one record, it revokes nothing meanwhile; a lossless capture then "
            "interrupts the topic's other partitions, and gives up. prefer quiet does not wait for "
            "the owner"
        )
        yield note("slow-member", why, case.group.group_id)


def _since_last_commit(case: HoldContext, member: Member) -> timedelta | None:
    """Return how long ago a member with lag last committed; None without lag, or if unknown."""
    times = [
        commit.committed_at
        for partition in member.assignment
        if case.lag(partition) and (commit := case.commits.get(partition))
    ]
    known = [at for at in times if at]
    if not times or len(known) < len(times):
        return None
    return case.index.snapshot.taken_at - max(known)
