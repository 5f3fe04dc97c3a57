"""
Make offsetbook's member the leader of a cooperative group.

Members of cooperative protocols keep reading during a rebalance, so records that a removed leader
has read since its last commit are read again. There are two ways.

After a commit: the leader is removed soon after a commit. Records that it reads in between are read
again. The other members stop only for a moment.

By claims, when members own nothing: a cooperative leader lets members keep the partitions that they
claim to own, up to an equal share. So one sentinel for each partition joins and claims it. The
leader has the other members revoke everything, and they rejoin without partitions. From then on
the group is like an eager one in a rebalance, and only its leader is removed.

A slow member may not know that it owns nothing: when it syncs, faster members have started the next
rebalance, and it rejoins with what it owned (seen twice in 94 captures of librdkafka with ten other
busy processes). The leader always knows, and so does a member that was removed and has rejoined. So
before a member that would lead next is removed, it leads once and everything is claimed again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from toolkit.errors import NotCaptured
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.groups.subscriptions import assignment_from_bytes
from toolkit.kafka_io.membership.channel import PendingAnswer
from toolkit.kafka_io.membership.classic import DescribeClassic, JoinResult, Leave
from toolkit.kafka_io.membership.topics_and_commits import FetchCommits
from toolkit.live.classic_capture import (
    AT_ONCE_AFTER_S,
    BACK_AFTER_S,
    LOOK_EVERY_S,
    STOP_WITHIN_S,
    AssignedAgain,
    ahead_of,
    let_it_end,
    rejected,
    take_lead,
    until_all_stop,
    until_back,
    waiting,
)
from toolkit.live.classic_member import OwnIds, SentinelMember
from toolkit.live.recipe_steps import RecipeChannel, ask_both
from toolkit.live.rival_captures import Contest, begin_contest
from toolkit.model import TopicPartition

HEARTBEAT_S = 3.0  # default of nearly all clients, which notice a rebalance by it
LET_GO_AFTER_S = 5.0  # until a removed member stops reading: a heartbeat, and a margin
COMMIT_WITHIN_S = 11.0  # clients commit every 5 s by default: two intervals
SOON_S = 1.5  # a good moment: a commit so shortly before a heartbeat

CLAIM_TRIES = 3  # in each, all members revoke everything twice
IS_OVER = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})  # or the next one has begun
Claim: TypeAlias = tuple[str, TopicPartition]  # a member id, and the partition that it claims


def lead_after_commit(
    own: OwnIds, member: SentinelMember, owned: Mapping[str, frozenset[TopicPartition]]
) -> JoinResult:
    """
    Become the leader of a Stable cooperative group by removing its leader after a commit.

    `owned` are the partitions of each member. A second sentinel waits for the commit, then keeps
    the rebalance from ending. Raises AnotherCapture, before a member is removed, if another capture
    goes on.
    """
    channel, blocker = own.channel, SentinelMember(member.protocol)
    # Last, because Java's sticky assignor may assign partitions to the first member though it does
    # not subscribe.
    blocker.member_id = own.draw_id(blocker, len(owned), last=True)
    leader = _outlast(own, blocker)
    leader = _await_commit(channel, blocker, leader, owned)
    channel.connect(3)  # none is opened once the leader was removed
    member.member_id = own.draw_id(SentinelMember(member.protocol), len(owned) + 1)
    channel.send_ahead(member.join_quietly())
    _until_they_wait(channel, blocker, leader)
    listed = waiting(channel, member)
    first = ahead_of(member, listed)
    channel.ask(Leave(tuple(sorted({leader.member_id, *first} - set(own.ids)))))
    joining = channel.send_ahead(member.join())
    # Until it rejoins, the removed leader may not know and read on.
    until_back(channel, len(listed), LET_GO_AFTER_S, staying=blocker)
    return let_it_end(channel, joining, blocker)


class GroupLeader(NamedTuple):
    """The leader of a group, and when it last assigned partitions."""

    member_id: str
    assigned_at: float


def _outlast(own: OwnIds, member: SentinelMember) -> GroupLeader:
    """Join without a subscription, and stay until no other capture can go on."""
    channel = own.channel
    channel.connect(2)
    contest = begin_contest(own)
    joining = channel.send_ahead(member.join_quietly())
    is_over = False
    while not contest.has_joined:
        is_over = contest.look(member.member_id)
    leader = _join_quietly(channel, member, channel.wait_for(joining))
    while not is_over:
        if channel.ask(member.heartbeat()).error == ErrorCode.REBALANCE_IN_PROGRESS:
            leader = _join_quietly(channel, member)
        is_over = contest.look(member.member_id)
    return leader


def _join_quietly(
    channel: RecipeChannel, member: SentinelMember, answer: JoinResult | None = None
) -> GroupLeader:
    """Join without a subscription, again until no rebalance follows."""
    code: int = ErrorCode.REBALANCE_IN_PROGRESS
    while code == ErrorCode.REBALANCE_IN_PROGRESS:
        joined = answer or channel.ask(member.join_quietly())
        answer = None
        if joined.error:
            raise rejected(joined.error)
        member.generation = joined.generation
        code = channel.ask(member.sync({})).error
    return GroupLeader(joined.leader, channel.now())


def _await_commit(
    channel: RecipeChannel,
    member: SentinelMember,
    leader: GroupLeader,
    owned: Mapping[str, frozenset[TopicPartition]],
) -> GroupLeader:
    """Stay a member without a subscription until the leader has committed; return the leader."""
    before = channel.ask(FetchCommits()).told
    now = leader.assigned_at
    give_up_at = now + COMMIT_WITHIN_S
    while now < give_up_at:
        found, beaten = ask_both(channel, FetchCommits(), member.heartbeat())
        if beaten.error == ErrorCode.REBALANCE_IN_PROGRESS:
            # The leader may take the new member as an occasion to reassign partitions.
            leader = _join_quietly(channel, member)
        places = owned.get(leader.member_id, frozenset())
        offsets = before if found.error else found.offsets
        moved = any(offsets.get(one) != before.get(one) for one in places)
        if not places or (moved and _next_beat(leader, now) - now < SOON_S):
            break
        before = offsets
        now = channel.sleep(LOOK_EVERY_S)
    return leader


def _until_they_wait(channel: RecipeChannel, member: SentinelMember, leader: GroupLeader) -> None:
    """Wait until all members have noticed the rebalance with a heartbeat and rejoined."""
    now = channel.now()
    heard_at = _next_beat(leader, now)
    while now < heard_at + AT_ONCE_AFTER_S:
        now = channel.sleep(LOOK_EVERY_S)
        channel.ask(member.heartbeat())


def _next_beat(leader: GroupLeader, now: float) -> float:
    """Return the time of the next heartbeats; members count intervals from their assignment."""
    return leader.assigned_at + ((now - leader.assigned_at) // HEARTBEAT_S + 1) * HEARTBEAT_S


class NotClaimed(NotCaptured):
    """The leader did not assign everything to sentinels; no reading member was removed."""


def lead_by_claims(
    own: OwnIds, member: SentinelMember, places: Sequence[TopicPartition]
) -> JoinResult:
    """
    Become the leader of a Stable cooperative group once its members own nothing.

    `places` are all partitions of the group's topics; each needs a connection, and looks one more.
    Raises, before a member that may still read is removed: AnotherCapture if another capture goes
    on, NotClaimed if the leader does not assign all partitions to sentinels, and AssignedAgain if
    it assigned partitions to members again in each try.
    """
    contest: Contest | None = None
    leader, members, may_read = "", 0, None
    claimers: list[str] = []
    new = SentinelMember(member.protocol, topics=member.topics)
    stopper = SentinelMember(member.protocol)
    for left in reversed(range(CLAIM_TRIES)):
        # A rebalance does not end while member ids are assigned that have not joined.
        before = [one for one in (stopper.member_id, *claimers) if one in own.ids]
        claimers = own.draw_ids(new, len(places) - 1)
        if contest is None:
            member.member_id = own.draw_id(new, 2 * len(places))
            contest = begin_contest(own)
        own.leave(before)
        if members:  # while no sentinel in the group would lead
            own.channel.ask(Leave((leader,)))
            until_back(own.channel, members, BACK_AFTER_S)
        joins = [*zip([member.member_id, *claimers], places, strict=True)]
        try:
            leader, may_read = _claim(contest, member, joins, may_read)
            (stopper.member_id,) = own.draw_ids(new, 1)
            own.leave(claimers)
            stopped = until_all_stop(contest, member.join_quietly(), stopper)
        except AssignedAgain:
            if not left:
                raise
            members, may_read = 0, None
            continue
        listed = waiting(own.channel, member)
        if not left or not may_read.intersection(ahead_of(member, listed)):
            break
        members = len({*listed} - {stopper.member_id})  # with the leader, which rejoins
    return take_lead(own, member, stopper, stopped, may_read or ())


def _claim(
    contest: Contest,
    member: SentinelMember,
    joins: Sequence[Claim],
    may_read: Collection[str] | None,
) -> tuple[str, set[str]]:
    """
    Have each sentinel own one partition, and other members none; `member` is the first sentinel.

    `may_read` are the members of the application that may own partitions, None for all. Returns the
    leader, and the members that may still read, because they may not know that they own nothing.
    """
    own, channel = contest.own, contest.own.channel
    joined = _send_claims(contest, member, joins)
    member.generation = joined.generation
    synced = channel.ask(member.sync({}))
    group = channel.ask(DescribeClassic())
    # All brokers show assignments after the rebalance; brokers from 4.0 on also during the next
    # one, which members start when they have revoked their partitions.
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
    """Have sentinels join with their claims; return the answer to `member` when all have."""
    channel, claimer = contest.own.channel, replace(member)
    sent: list[PendingAnswer[JoinResult]] = []
    for claimer.member_id, place in joins:
        sent.append(channel.send_ahead(claimer.claim(place)))
        if contest.has_joined and len(sent) == 1:
            # It already waits with its earlier claim: the others have to follow it.
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
        raise rejected(joined.error)
    return joined
