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
from typing import TypeAlias

from toolkit.errors import NotCaptured
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.groups.subscriptions import assignment_from_bytes
from toolkit.kafka_io.membership.channel import PendingAnswer
from toolkit.kafka_io.membership.classic import DescribeClassic, JoinResult, Leave
from toolkit.live.classic_capture import (
    BACK_AFTER_S,
    STOP_WITHIN_S,
    AssignedAgain,
    OpenConnection,
    ahead_of,
    rejected,
    take_lead,
    until_all_stop,
    until_back,
    waiting,
)
from toolkit.live.classic_member import OwnIds, SentinelMember
from toolkit.live.rival_captures import Contest, begin_contest
from toolkit.model import TopicPartition

CLAIM_TRIES = 3  # each has all members revoke everything twice, and there is another way
IS_OVER = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})  # or the next one has begun

# A member id, what it claims, and a connection for it.
Claim: TypeAlias = tuple[str, TopicPartition, OpenConnection]


class NotClaimed(NotCaptured):
    """The leader did not leave everything to sentinels; no member that reads was removed."""


def lead_by_claims(
    own: OwnIds,
    member: SentinelMember,
    places: Sequence[TopicPartition],
    connections: Sequence[OpenConnection],
) -> JoinResult:
    """
    Join as the leader of a Stable group whose members read on while they rebalance.

    `places` are all partitions of the group's topics; each needs one of `connections`. Before a
    member is removed that may still read, raise AnotherCapture if another capture goes on,
    NotClaimed if the leader does not leave all to sentinels, and AssignedAgain if it assigned
    something again, each time that this was tried.
    """
    contest: Contest | None = None
    leader, members, may_read = "", 0, None
    claimers: list[str] = []
    new = SentinelMember(member.protocol, topics=member.topics)
    stopper = SentinelMember(member.protocol)
    for left in reversed(range(CLAIM_TRIES)):
        # While ids are drawn with which no member has joined, the rebalance does not end.
        before = [one for one in (stopper.member_id, *claimers) if one in own.ids]
        claimers = own.draw_ids(new, len(places) - 1)
        if contest is None:
            member.member_id = own.draw_id(new, 2 * len(places))
            contest = begin_contest(own)
        own.leave(before)
        if members:  # while no sentinel is in the group that would lead
            own.channel.ask(Leave((leader,)))
            until_back(own.channel, members, BACK_AFTER_S)
        joins = [*zip([member.member_id, *claimers], places, connections, strict=True)]
        try:
            leader, may_read = _claim(contest, member, joins, may_read)
            (stopper.member_id,) = own.draw_ids(new, 1)
            own.leave(claimers)
            stopped = until_all_stop(contest, member, stopper)
        except AssignedAgain:
            if not left:
                raise
            members, may_read = 0, None
            continue
        listed = waiting(own.channel, member)
        if not left or not may_read.intersection(ahead_of(member, listed)):
            break
        members = len(listed) - 1  # with the leader, which comes back, and without the stopper
    return take_lead(own, member, stopper, stopped, may_read or ())


def _claim(
    contest: Contest,
    member: SentinelMember,
    joins: Sequence[Claim],
    may_read: Collection[str] | None,
) -> tuple[str, set[str]]:
    """
    Have sentinels, the first of which is `member`, own a partition each, and no other.

    `may_read` are the members of the application that may own something, None for all. Returns the
    leader, and which may still read, because they may not have heard yet that they own nothing.
    """
    own, channel = contest.own, contest.own.channel
    joined = _send_claims(contest, member, joins)
    member.generation = joined.generation
    synced = channel.ask(member.sync({}))
    group = channel.ask(DescribeClassic())
    # Their assignments are shown by all brokers when the rebalance is over, and by brokers from
    # 4.0 on also in the next one, which they begin when they have revoked it.
    assignments = {
        one.member_id: one.assignment for one in group.members if one.member_id not in own.ids
    }
    old = assignments.keys() if may_read is None else assignments.keys() & may_read
    are_free = all(assignments[one] for one in old) and not any(
        assignment_from_bytes(one) for one in assignments.values()
    )
    if joined.leads or synced.error not in IS_OVER or not are_free:
        raise NotClaimed("the group's leader does not assign what offsetbook's members claim")
    return joined.leader, set(old) - {joined.leader}


def _send_claims(contest: Contest, member: SentinelMember, joins: Sequence[Claim]) -> JoinResult:
    """Have sentinels join with their claims; return the answer to `member` when all have joined."""
    channel, claimer = contest.own.channel, replace(member)
    sent: list[PendingAnswer[JoinResult]] = []
    for claimer.member_id, place, connection in joins:
        sent.append(channel.send_ahead(claimer.claim(place), after=connection))
        if contest.has_joined and len(sent) == 1:
            # It waits already, with its earlier claim: the others have to come after it.
            contest.look(member.member_id)
    joining, last = sent[0], sent[-1]
    give_up_at = channel.now() + STOP_WITHIN_S
    while not (contest.has_joined and channel.is_answered(joining)):
        is_over = channel.is_answered(last)
        contest.look(member.member_id)
        if is_over and not channel.is_answered(joining):
            raise AssignedAgain("the group assigned its partitions before offsetbook had joined")
        if channel.now() >= give_up_at:
            raise NotCaptured(
                "a member of the group has not joined the rebalance for "
                f"{STOP_WITHIN_S:g} s; no member that owned partitions was evicted",
                hint="run the command again, or prefer quiet, which does not wait for it",
            )
    joined = channel.wait_for(joining)
    if joined.error:
        raise rejected(joined)
    return joined
