"""
Make offsetbook's member the leader of a cooperative group.

Members of cooperative protocols read on while they rebalance, so a leader that is removed loses
what it has read since its last commit. There are two ways.

After a commit: it is removed soon after it has committed. What it reads between its last commit and
its removal is read again. No other member stops for longer than a moment.

By claims, when members own nothing: a cooperative leader lets members keep what they say they own,
up to an equal share. So there is a sentinel for each partition, which says that it owns that one.
The leader has the others revoke everything, and they join again with nothing. From then on the
group is like an eager one in a rebalance, and only its leader is removed.

One that was slow may not have heard of that: when it asks what it was assigned, the members that
were faster have begun the next rebalance, and it joins that with what it had (seen twice in 94
captures of librdkafka while ten other processes were busy). The leader always knows, and who was
removed and came back. So where another member would lead next, it is made to lead, and everything
is claimed once more, before it is removed.
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
    OpenConnection,
    ahead_of,
    let_it_end,
    open_connections,
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

HEARTBEAT_S = 3.0  # of nearly all clients by default, and how they hear of a rebalance
LET_GO_AFTER_S = 5.0  # of a member that was removed while it read: a heartbeat, and a pause
COMMIT_WITHIN_S = 11.0  # clients commit every 5 s by default, so this is twice
SOON_S = 1.5  # a commit so shortly before a heartbeat is a good one

CLAIM_TRIES = 3  # each has all members revoke everything twice, and there is another way
IS_OVER = frozenset({ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS})  # or the next one has begun
# A member id, what it claims, and a connection for it.
Claim: TypeAlias = tuple[str, TopicPartition, OpenConnection]


def lead_after_commit(
    own: OwnIds, member: SentinelMember, owned: Mapping[str, frozenset[TopicPartition]]
) -> JoinResult:
    """
    Join as the leader of a Stable group whose members read on while they rebalance.

    `owned` is what each member has. Only the leader is removed, at a good moment for it, which a
    second sentinel waits for. Then that one keeps the rebalance from ending. Raises
    AnotherCapture, before anybody is removed, if another capture goes on.
    """
    channel, blocker = own.channel, SentinelMember(member.protocol)
    # Java's sticky leader gives a share to a member that wants nothing, if it looks at it first.
    blocker.member_id = own.draw_id(blocker, len(owned), last=True)
    leader = _outlast(own, blocker)
    leader = _await_commit(channel, blocker, leader, owned)
    member.member_id = own.draw_id(SentinelMember(member.protocol), len(owned) + 1)
    channel.send_ahead(member.join_quietly())
    _until_they_wait(channel, blocker, leader)
    listed = waiting(channel, member)
    first = ahead_of(member, listed)
    channel.ask(Leave(tuple(sorted({leader.member_id, *first} - set(own.ids)))))
    joining = channel.send_ahead(member.join())
    # Until it is back it may not have heard of it, and read on.
    until_back(channel, len(listed), LET_GO_AFTER_S, staying=blocker)
    return let_it_end(channel, joining, blocker)


class GroupLeader(NamedTuple):
    """Who leads, and when it last assigned partitions."""

    member_id: str
    assigned_at: float


def _outlast(own: OwnIds, member: SentinelMember) -> GroupLeader:
    """Join as a member that wants nothing, and stay until no other capture can go on."""
    channel = own.channel
    (connection,) = open_connections(channel, 1)
    contest = begin_contest(own)
    joining = channel.send_ahead(member.join_quietly(), after=connection)
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
    """Join as one that wants nothing, once more until the group is at rest."""
    code: int = ErrorCode.REBALANCE_IN_PROGRESS
    while code == ErrorCode.REBALANCE_IN_PROGRESS:
        joined = answer or channel.ask(member.join_quietly())
        answer = None
        if joined.error:
            raise rejected(joined)
        member.generation = joined.generation
        code = channel.ask(member.sync({})).error
    return GroupLeader(joined.leader, channel.now())


def _await_commit(
    channel: RecipeChannel,
    member: SentinelMember,
    leader: GroupLeader,
    owned: Mapping[str, frozenset[TopicPartition]],
) -> GroupLeader:
    """Be a member that wants nothing until the leader has committed; return who leads."""
    before = channel.ask(FetchCommits()).told
    now = leader.assigned_at
    give_up_at = now + COMMIT_WITHIN_S
    while now < give_up_at:
        found, beaten = ask_both(channel, FetchCommits(), member.heartbeat())
        if beaten.error == ErrorCode.REBALANCE_IN_PROGRESS:
            # A leader may take the new member as an occasion to share out differently.
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
    """Wait until all have heard of the rebalance with a heartbeat, and wait in it."""
    now = channel.now()
    heard_at = _next_beat(leader, now)
    while now < heard_at + AT_ONCE_AFTER_S:
        now = channel.sleep(LOOK_EVERY_S)
        channel.ask(member.heartbeat())


def _next_beat(leader: GroupLeader, now: float) -> float:
    """Return when members send their next heartbeat: they count from when they were assigned."""
    return leader.assigned_at + ((now - leader.assigned_at) // HEARTBEAT_S + 1) * HEARTBEAT_S


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
