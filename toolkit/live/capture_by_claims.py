"""
Make offsetbook's member the leader of a cooperative group whose members own nothing at that moment.

Members of cooperative protocols read on while they rebalance, so a leader that is removed loses
what it has read since its last commit. A cooperative leader lets members keep what they say they
own, up to an equal share. So there is a member of ours for each partition, which says that it owns
that one. The leader has the others revoke everything, and they join again with nothing. From then
on the group is like an eager one in a rebalance, and only its leader is removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from toolkit.errors import NotCaptured
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.groups.subscriptions import assignment_from_bytes
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    DescribeClassic,
    JoinResult,
    Leave,
    SyncResult,
)
from toolkit.live.classic_capture import STOP_WITHIN_S, rejected, take_lead, until_all_stop
from toolkit.live.classic_member import SentinelMember, draw_id, draw_ids
from toolkit.live.recipe_steps import IsAnswered, RecipeGenerator, SendAhead, Sleep, WaitFor
from toolkit.live.rival_captures import Contest, begin_contest
from toolkit.model import TopicPartition

IS_OVER = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})  # or the next one has begun


class NotClaimed(NotCaptured):
    """The leader did not leave everything to members of ours; nobody was removed."""


def lead_by_claims(
    member: SentinelMember,
    places: Sequence[TopicPartition],
    connections: Sequence[Any],
    ours: list[str],
) -> RecipeGenerator[JoinResult]:
    """
    Join as the leader of a Stable group whose members read on while they rebalance.

    `places` are all partitions of the group's topics; each needs one of `connections`.
    Ids of ours that may be in the group are put on `ours`. Before anybody is removed, raise
    AnotherCapture if another capture goes on, NotClaimed if the leader does not leave all to ours,
    and AssignedAgain if it assigned something again.
    """
    contest, claimers = yield from _claim(member, places, connections, ours)
    stopper = SentinelMember(member.protocol)
    # While its id is out the rebalance does not end.
    (stopper.member_id,) = yield from draw_ids(stopper, ours, 1)
    yield Leave(tuple(claimers))
    ours[:] = [one for one in ours if one not in claimers]
    stopped = yield from until_all_stop(member, stopper, contest, ours)
    return (yield from take_lead(member, stopper, stopped, ours))


def _claim(
    member: SentinelMember,
    places: Sequence[TopicPartition],
    connections: Sequence[Any],
    ours: list[str],
) -> RecipeGenerator[tuple[Contest, list[str]]]:
    """Have members of ours own everything; return the ids of those beside `member`."""
    first, *others = places
    new = SentinelMember(member.protocol, topics=member.topics)
    claimers = yield from draw_ids(new, ours, len(others))
    member.member_id = yield from draw_id(new, ours, 2 * len(places))
    contest = yield from begin_contest()
    joining = yield SendAhead(member.claim(first), after=connections[0])
    for new.member_id, place, connection in zip(claimers, others, connections[1:], strict=True):
        yield SendAhead(new.claim(place), after=connection)
    give_up_at = (yield Sleep(0)) + STOP_WITHIN_S
    while not (contest.has_joined and (yield IsAnswered(joining))):
        yield from contest.look(member.member_id, ours)
        if (yield Sleep(0)) >= give_up_at:
            raise NotCaptured(
                "a member of the group has not joined the rebalance for "
                f"{STOP_WITHIN_S:g} s; no member was evicted",
                hint="run the command again, or prefer quiet, which does not wait for it",
            )
    joined: JoinResult = yield WaitFor(joining)
    if joined.error:
        raise rejected(joined)
    member.generation = joined.generation
    synced: SyncResult = yield member.sync({})
    group: ClassicFacts = yield DescribeClassic()
    # What they were assigned is told by all brokers when the rebalance is over, and by brokers from
    # 4.0 on also in the next one, which they begin when they have let go.
    theirs = [one.assignment for one in group.members if one.member_id not in ours]
    are_free = all(one and not assignment_from_bytes(one) for one in theirs)
    if joined.leads or synced.error not in IS_OVER or not are_free:
        raise NotClaimed("the group's leader does not assign what offsetbook's members claim")
    return contest, claimers
