"""
Make offsetbook's member the leader of a cooperative group whose members own nothing at that moment.

Members of cooperative protocols read on while they rebalance, so a leader that is removed loses
what it has read since its last commit. A cooperative leader lets members keep what they say they
own, up to an equal share. So there is a sentinel for each partition, which says that it owns
that one. The leader has the others revoke everything, and they join again with nothing. From then
on the group is like an eager one in a rebalance, and only its leader is removed.

One that was slow may not have heard of that: when it asks what it was assigned, the members that
were faster have begun the next rebalance, and it joins that with what it had (seen twice in 94
captures of librdkafka while ten other processes were busy). The leader always knows, and who was
removed and came back. So where another member would lead next, it is made to lead, and everything
is claimed once more, before it is removed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
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
from toolkit.live.classic_capture import (
    BACK_AFTER_S,
    STOP_WITHIN_S,
    AssignedAgain,
    ahead_of,
    rejected,
    take_lead,
    until_all_stop,
    until_back,
    waiting,
)
from toolkit.live.classic_member import SentinelMember, draw_id, draw_ids, leave
from toolkit.live.recipe_steps import IsAnswered, RecipeGenerator, SendAhead, Sleep, WaitFor
from toolkit.live.rival_captures import Contest, begin_contest
from toolkit.model import TopicPartition

CLAIM_TRIES = 3  # each has all members revoke everything twice, and there is another way
IS_OVER = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})  # or the next one has begun


class NotClaimed(NotCaptured):
    """The leader did not leave everything to sentinels; no member that reads was removed."""


def lead_by_claims(
    member: SentinelMember,
    places: Sequence[TopicPartition],
    connections: Sequence[Any],
    own_ids: list[str],
) -> RecipeGenerator[JoinResult]:
    """
    Join as the leader of a Stable group whose members read on while they rebalance.

    `places` are all partitions of the group's topics; each needs one of `connections`. Ids of
    sentinels that may be in the group are put on `own_ids`. Before a member is removed that may
    still read, raise AnotherCapture if another capture goes on, NotClaimed if the leader does not
    leave all to sentinels, and AssignedAgain if it assigned something again, each time that this
    was tried.
    """
    contest: Contest | None = None
    leader, members, may_read = "", 0, None
    claimers: list[str] = []
    new = SentinelMember(member.protocol, topics=member.topics)
    stopper = SentinelMember(member.protocol)
    for left in reversed(range(CLAIM_TRIES)):
        # While ids are drawn with which no member has joined, the rebalance does not end.
        before = [one for one in (stopper.member_id, *claimers) if one in own_ids]
        claimers = yield from draw_ids(new, own_ids, len(places) - 1)
        if contest is None:
            member.member_id = yield from draw_id(new, own_ids, 2 * len(places))
            contest = yield from begin_contest()
        yield from leave(before, own_ids)
        if members:  # while no sentinel is in the group that would lead
            yield Leave((leader,))
            yield from until_back(members, BACK_AFTER_S)
        joins = [*zip([member.member_id, *claimers], places, connections, strict=True)]
        try:
            leader, may_read = yield from _claim(member, joins, contest, own_ids, may_read)
            (stopper.member_id,) = yield from draw_ids(new, own_ids, 1)
            yield from leave(claimers, own_ids)
            stopped = yield from until_all_stop(member, stopper, contest, own_ids)
        except AssignedAgain:
            if not left:
                raise
            members, may_read = 0, None
            continue
        listed = yield from waiting(member)
        if not left or not may_read.intersection(ahead_of(member, listed)):
            break
        members = len(listed) - 1  # with the leader, which comes back, and without the stopper
    return (yield from take_lead(member, stopper, stopped, own_ids, may_read or ()))


def _claim(
    member: SentinelMember,
    joins: Sequence[tuple[str, TopicPartition, Any]],
    contest: Contest,
    own_ids: list[str],
    may_read: Collection[str] | None,
) -> RecipeGenerator[tuple[str, set[str]]]:
    """
    Have sentinels, the first of which is `member`, own a partition each, and no other.

    Each of `joins` is a member id, what it claims, and a connection. `may_read` are the members of
    the application that may own something, None for all. Returns the leader, and which may still
    read, because they may not have heard yet that they own nothing.
    """
    joined = yield from _send_claims(member, joins, contest, own_ids)
    member.generation = joined.generation
    synced: SyncResult = yield member.sync({})
    group: ClassicFacts = yield DescribeClassic()
    # Their assignments are shown by all brokers when the rebalance is over, and by brokers from
    # 4.0 on also in the next one, which they begin when they have revoked it.
    assignments = {
        one.member_id: one.assignment for one in group.members if one.member_id not in own_ids
    }
    old = assignments.keys() if may_read is None else assignments.keys() & may_read
    are_free = all(assignments[one] for one in old) and not any(
        assignment_from_bytes(one) for one in assignments.values()
    )
    if joined.leads or synced.error not in IS_OVER or not are_free:
        raise NotClaimed("the group's leader does not assign what offsetbook's members claim")
    return joined.leader, set(old) - {joined.leader}


def _send_claims(
    member: SentinelMember,
    joins: Sequence[tuple[str, TopicPartition, Any]],
    contest: Contest,
    own_ids: list[str],
) -> RecipeGenerator[JoinResult]:
    """Have sentinels join with their claims; return the answer to `member` when all have joined."""
    claimer, joining, last = replace(member), None, None
    for claimer.member_id, place, connection in joins:
        last = yield SendAhead(claimer.claim(place), after=connection)
        joining = joining or last
        if contest.has_joined and joining is last:
            # It waits already, with its earlier claim: the others have to come after it.
            yield from contest.look(member.member_id, own_ids)
    give_up_at = (yield Sleep(0)) + STOP_WITHIN_S
    while not (contest.has_joined and (yield IsAnswered(joining))):
        is_over = yield IsAnswered(last)
        yield from contest.look(member.member_id, own_ids)
        if is_over and not (yield IsAnswered(joining)):
            raise AssignedAgain("the group assigned its partitions before offsetbook had joined")
        if (yield Sleep(0)) >= give_up_at:
            raise NotCaptured(
                "a member of the group has not joined the rebalance for "
                f"{STOP_WITHIN_S:g} s; no member that owned partitions was evicted",
                hint="run the command again, or prefer quiet, which does not wait for it",
            )
    joined: JoinResult = yield WaitFor(joining)
    if joined.error:
        raise rejected(joined)
    return joined
