"""
Make offsetbook's member the leader of a classic group.

The leader is the first member, and when it leaves, another one. So it has to be removed, which
loses what it has read since its last commit, unless it has let go of everything at that moment.
Members of eager protocols do that before they join a rebalance. So we open a rebalance, and another
one at the instant at which all have joined, before anybody is given anything. They are removed
then, which costs them nothing, and join again after us.

Members of cooperative protocols read on while they wait. So only the leader is removed, soon after
it has committed. What it reads in between is read again.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from toolkit.errors import NotCaptured
from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.groups.subscriptions import assignment_from_bytes
from toolkit.kafka_io.membership.classic import ClassicFacts, DescribeClassic, JoinResult, Leave
from toolkit.kafka_io.membership.protocol_bytes import read_subscription
from toolkit.kafka_io.membership.topics_and_commits import FetchCommits
from toolkit.live.classic_member import SentinelMember, draw_id, draw_ids
from toolkit.live.recipe_steps import (
    IsAnswered,
    RecipeGenerator,
    SendAhead,
    SendBatch,
    SendInTurn,
    Sleep,
    WaitFor,
)
from toolkit.live.rival_captures import Contest, not_joined
from toolkit.model import GroupState, TopicPartition
from toolkit.planning.holds.hold_context import WAITS_FOR

HEARTBEAT_S = 3.0  # of nearly all clients by default, and how they hear of a rebalance
STOP_WITHIN_S = WAITS_FOR.total_seconds()  # then what slow members have read is read again
STOP_TRIES = 3  # one of 18 was lost to the leader, on a busy machine
BACK_AFTER_S = 1.5  # who was removed is back at once; a few clients take longer, and come then
LET_GO_AFTER_S = 5.0  # of a member that was removed while it read: a heartbeat, and a pause
AT_ONCE_AFTER_S = 1.2  # librdkafka joins once a second at most
LOOK_EVERY_S = 0.05
COMMIT_WITHIN_S = 11.0  # clients commit every 5 s by default, so this is twice
SOON_S = 1.5  # a commit so shortly before a heartbeat is a good one


def lead_eager(
    member: SentinelMember, contest: Contest, ours: list[str]
) -> RecipeGenerator[JoinResult]:
    """
    Join as the leader of a Stable group whose members let go of everything when they rebalance.

    Ids of ours that may be in the group are put on `ours`. Raises AnotherCapture, before anybody is
    removed, if another capture goes on.
    """
    stopper, blocker = SentinelMember(member.protocol), SentinelMember(member.protocol)
    member.member_id, stopper.member_id = yield from draw_ids(stopper, ours, 2)
    all_wait_at = (yield from _until_all_stop(member, stopper, contest, ours)) + AT_ONCE_AFTER_S
    # While an id is out with which nobody has joined, the rebalance does not end.
    (blocker.member_id,) = yield from draw_ids(blocker, ours, 1)
    while (yield Sleep(LOOK_EVERY_S)) < all_wait_at:
        pass
    listed = yield from _waiting(member)
    yield Leave(tuple(sorted(set(listed) - {member.member_id})))
    ours.remove(stopper.member_id)
    joining = yield SendAhead(member.join())
    yield from _until_back(len(listed) - 1, BACK_AFTER_S)
    return (yield from _let_it_end(joining, blocker))


def _until_all_stop(
    member: SentinelMember, stopper: SentinelMember, contest: Contest, ours: list[str]
) -> RecipeGenerator[float]:
    """
    Wait until all members of an eager group have joined a rebalance, own nothing, and stay so.

    A coordinator does not say who has joined. It answers when all have, however late they hear of
    it and however seldom they poll. Our next join is on the same connection, so it is there before
    the leader can have said who gets what: all have to join once more, with nothing. `stopper` does
    not join that rebalance, so it does not end. If the leader was faster, everybody reads on, and
    the next try follows. Return when all had joined; after `STOP_WITHIN_S`, some may not have.
    """
    now: float = yield Sleep(0)
    give_up_at = now + STOP_WITHIN_S
    for _ in range(STOP_TRIES):
        yield SendAhead(stopper.join_quietly())
        joining, looking, _ = yield SendInTurn(
            (member.join_quietly(), DescribeClassic(), member.rejoin_quietly())
        )
        is_over, answered_at = False, math.inf
        while not is_over or (answered_at == math.inf and now < give_up_at):
            is_over = yield from contest.look(member.member_id, ours)
            now = yield Sleep(0)
            if (yield IsAnswered(joining)):
                answered_at = min(answered_at, now)
        if answered_at == math.inf:
            return now - AT_ONCE_AFTER_S
        joined: JoinResult = yield WaitFor(joining)
        if joined.error:
            raise _rejected(joined)
        between: ClassicFacts = yield WaitFor(looking)
        now_waiting: ClassicFacts = yield DescribeClassic()
        was_first = between.state == GroupState.COMPLETING_REBALANCE
        if was_first and not _was_assigned(now_waiting, ours):
            return answered_at
    raise NotCaptured(
        "the group assigned its partitions again before offsetbook could stop it; no member was "
        "evicted",
        hint="run the command again",
    )


def _was_assigned(group: ClassicFacts, ours: Collection[str]) -> bool:
    """
    Whether members have been assigned something that they read until they hear of the rebalance.

    The leader may have been faster than our second join, though not than the look before it. A
    rebalance that begins before the leader has assigned anything takes away all assignments. Only
    brokers from 4.0 on tell them in a rebalance.
    """
    theirs = (one.assignment for one in group.members if one.member_id not in ours)
    return any(map(assignment_from_bytes, theirs))


def lead_cooperative(
    member: SentinelMember,
    owned: Mapping[str, frozenset[TopicPartition]],
    contest: Contest,
    ours: list[str],
) -> RecipeGenerator[JoinResult]:
    """
    Join as the leader of a Stable group whose members read on while they rebalance.

    `owned` is what each member has. Only the leader is removed, at a good moment for it, which a
    second member of ours waits for. Then that one keeps the rebalance from ending. Raises
    AnotherCapture, before anybody is removed, if another capture goes on.
    """
    blocker = SentinelMember(member.protocol)
    # Java's sticky leader gives a share to a member that wants nothing, if it looks at it first.
    blocker.member_id = yield from draw_id(blocker, ours, len(owned), last=True)
    leader = yield from _outlast(blocker, contest, ours)
    leader = yield from _await_commit(blocker, leader, owned)
    member.member_id = yield from draw_id(SentinelMember(member.protocol), ours, len(owned) + 1)
    yield SendAhead(member.join_quietly())
    yield from _until_they_wait(blocker, leader)
    listed = yield from _waiting(member)
    # Members are listed in the order in which the coordinator looks for a new leader.
    first = listed[: listed.index(member.member_id)]
    yield Leave(tuple(sorted({leader.member_id, *first} - set(ours))))
    joining = yield SendAhead(member.join())
    # Until it is back it may not have heard of it, and read on.
    yield from _until_back(len(listed), LET_GO_AFTER_S, (blocker,))
    return (yield from _let_it_end(joining, blocker))


def _waiting(member: SentinelMember) -> RecipeGenerator[list[str]]:
    """Return all who are in the rebalance that `member` waits in; nobody is removed before."""
    listed: ClassicFacts = yield DescribeClassic()
    ids = [one.member_id for one in listed.members]
    if listed.state != GroupState.PREPARING_REBALANCE or member.member_id not in ids:
        raise not_joined(listed)
    return ids


def _let_it_end(joining: Any, blocker: SentinelMember) -> RecipeGenerator[JoinResult]:
    """End the rebalance; return the answer to the join that was sent ahead."""
    yield Leave((blocker.member_id,))
    joined: JoinResult = yield WaitFor(joining)
    if joined.error:
        raise _rejected(joined)
    return joined


def _rejected(joined: JoinResult) -> NotCaptured:
    return NotCaptured(
        f"the coordinator rejected the join: {reason(joined.error, 'Read')}",
        hint="run the command again",
    )


class GroupLeader(NamedTuple):
    """Who leads, and when it last told everybody what they get."""

    member_id: str
    assigned_at: float


def _outlast(
    member: SentinelMember, contest: Contest, ours: list[str]
) -> RecipeGenerator[GroupLeader]:
    """Join as a member that wants nothing, and stay until no other capture can go on."""
    joining = yield SendAhead(member.join_quietly())
    is_over = False
    while not contest.has_joined:
        is_over = yield from contest.look(member.member_id, ours)
    leader = yield from _join_quietly(member, (yield WaitFor(joining)))
    while not is_over:
        if (yield member.heartbeat()).error == ErrorCode.REBALANCE_IN_PROGRESS:
            leader = yield from _join_quietly(member)
        is_over = yield from contest.look(member.member_id, ours)
    return leader


def _join_quietly(
    member: SentinelMember, answer: JoinResult | None = None
) -> RecipeGenerator[GroupLeader]:
    """Join as one that wants nothing, once more until the group is at rest."""
    code = ErrorCode.REBALANCE_IN_PROGRESS
    while code == ErrorCode.REBALANCE_IN_PROGRESS:
        joined: JoinResult = answer or (yield member.join_quietly())
        answer = None
        if joined.error:
            raise _rejected(joined)
        member.generation = joined.generation
        code = (yield member.sync({})).error
    return GroupLeader(joined.leader, (yield Sleep(0)))


def _await_commit(
    member: SentinelMember,
    leader: GroupLeader,
    owned: Mapping[str, frozenset[TopicPartition]],
) -> RecipeGenerator[GroupLeader]:
    """Be a member that wants nothing until the leader has committed; return who leads."""
    before = (yield FetchCommits()).offsets
    now = leader.assigned_at
    give_up_at = now + COMMIT_WITHIN_S
    while now < give_up_at:
        found, beaten = yield SendBatch((FetchCommits(), member.heartbeat()))
        if beaten.error == ErrorCode.REBALANCE_IN_PROGRESS:
            # A leader may take the new member as an occasion to share out differently.
            leader = yield from _join_quietly(member)
        places = owned.get(leader.member_id, frozenset())
        moved = any(found.offsets.get(one) != before.get(one) for one in places)
        if not places or (moved and _next_beat(leader, now) - now < SOON_S):
            break
        before = found.offsets
        now = yield Sleep(LOOK_EVERY_S)
    return leader


def _until_they_wait(member: SentinelMember, leader: GroupLeader) -> RecipeGenerator[None]:
    """Wait until all have heard of the rebalance with a heartbeat, and wait in it."""
    now = yield Sleep(0)
    heard_at = _next_beat(leader, now)
    while now < heard_at + AT_ONCE_AFTER_S:
        now = yield Sleep(LOOK_EVERY_S)
        yield member.heartbeat()


def _next_beat(leader: GroupLeader, now: float) -> float:
    """Return when members send their next heartbeat: they count from when they were assigned."""
    return leader.assigned_at + ((now - leader.assigned_at) // HEARTBEAT_S + 1) * HEARTBEAT_S


def _until_back(
    members: int, patience_s: float, ours: Collection[SentinelMember] = ()
) -> RecipeGenerator[None]:
    """Wait until the group has as many members as before, for a while; ours stay members."""
    now = yield Sleep(0)
    give_up_at = now + patience_s
    found = 0
    while found < members and now < give_up_at:
        now = yield Sleep(LOOK_EVERY_S)
        beats = tuple(one.heartbeat() for one in ours)
        listed, *_ = yield SendBatch((DescribeClassic(), *beats))
        found = len(listed.members)


def check_capturable(group: ClassicFacts) -> None:
    """Raise NotCaptured for a group whose lead we must not take."""
    if group.error:
        raise NotCaptured(f"the group cannot be described: {group.why}")
    if group.state != "Stable" or group.protocol_type != "consumer":
        raise NotCaptured(
            f"the group is {group.state or 'missing'}, protocol type {group.protocol_type!r}: "
            "only Stable consumer groups can be held",
            hint="wait until it is Stable",
        )
    for one in group.members:
        if read_subscription(one.subscription) is None:
            raise NotCaptured(f"the subscription of member {one.member_id} cannot be parsed")
