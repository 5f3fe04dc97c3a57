"""
Make offsetbook's member the leader of a cooperative group soon after its leader has committed.

Members read on while they rebalance, and what the leader reads between its last commit and its
removal is read again. No other member stops for longer than a moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.membership.classic import JoinResult, Leave
from toolkit.kafka_io.membership.topics_and_commits import FetchCommits
from toolkit.live.classic_capture import (
    AT_ONCE_AFTER_S,
    LOOK_EVERY_S,
    ahead_of,
    let_it_end,
    open_connections,
    rejected,
    until_back,
    waiting,
)
from toolkit.live.classic_member import OwnIds, SentinelMember
from toolkit.live.recipe_steps import RecipeChannel, ask_both
from toolkit.live.rival_captures import begin_contest
from toolkit.model import TopicPartition

HEARTBEAT_S = 3.0  # of nearly all clients by default, and how they hear of a rebalance
LET_GO_AFTER_S = 5.0  # of a member that was removed while it read: a heartbeat, and a pause
COMMIT_WITHIN_S = 11.0  # clients commit every 5 s by default, so this is twice
SOON_S = 1.5  # a commit so shortly before a heartbeat is a good one


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
    before = channel.ask(FetchCommits()).offsets
    now = leader.assigned_at
    give_up_at = now + COMMIT_WITHIN_S
    while now < give_up_at:
        found, beaten = ask_both(channel, FetchCommits(), member.heartbeat())
        if beaten.error == ErrorCode.REBALANCE_IN_PROGRESS:
            # A leader may take the new member as an occasion to share out differently.
            leader = _join_quietly(channel, member)
        places = owned.get(leader.member_id, frozenset())
        moved = any(found.offsets.get(one) != before.get(one) for one in places)
        if not places or (moved and _next_beat(leader, now) - now < SOON_S):
            break
        before = found.offsets
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
