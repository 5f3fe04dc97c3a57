"""
Make offsetbook's member the leader of a classic group.

The first member of a group leads it until it leaves. So the leader has to be removed, and its
records since the last commit are read again, unless it has revoked its partitions before. Members
of eager protocols revoke them before they join a rebalance. So we start a rebalance and, as soon as
all members have joined and before any is assigned partitions, a second one. Then the leader owns
nothing, is removed, and rejoins after our member.

Members of cooperative protocols keep reading while they wait: see `cooperative_captures`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from toolkit.errors import NotCaptured
from toolkit.kafka_io.client.error_codes import reason
from toolkit.kafka_io.groups.subscriptions import assignment_from_bytes
from toolkit.kafka_io.membership.channel import PendingAnswer
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    DescribeClassic,
    Join,
    JoinResult,
    Leave,
)
from toolkit.kafka_io.membership.protocol_bytes import protocol_named, read_subscription
from toolkit.live.classic_member import OwnIds, SentinelMember, stands_first
from toolkit.live.recipe_steps import AGAIN, RecipeChannel, ask_both
from toolkit.live.rival_captures import Contest, begin_contest, not_joined
from toolkit.model import GroupState
from toolkit.planning.holds.recipes import WAITS_FOR

STOP_WITHIN_S = WAITS_FOR.total_seconds()  # then records of slow members are read again
STOP_TRIES = 6  # the leader was faster once in 18, and three times in a row on a busy machine
PLACE_TRIES = 3  # of the members that rejoin, one in 16 has to do so once more
BACK_AFTER_S = 1.5  # removed members rejoin at once; a few clients take longer
AT_ONCE_AFTER_S = 1.2  # librdkafka joins once a second at most
LOOK_EVERY_S = 0.05
REJOINED_WITHIN_S = 2.0  # by then our second sentinel has left


def lead_eager(own: OwnIds, member: SentinelMember, group_size: int) -> JoinResult:
    """
    Join as the leader of a Stable group whose members revoke everything when they rebalance.

    Raises AnotherCapture, before a member is removed, if another capture goes on.
    """
    own.channel.connect(2)
    new, stopper = SentinelMember(member.protocol), SentinelMember(member.protocol)
    (stopper.member_id,) = own.draw_ids(new, 1)
    member.member_id = own.draw_id(new, group_size + 1)
    contest = begin_contest(own)
    # By turns: in a Stable group, a join like the last one would be answered at once.
    joins = member.rejoin_quietly(), member.join_quietly()
    for left in reversed(range(STOP_TRIES)):
        try:
            stopped = until_all_stop(contest, joins[left % 2], stopper)
            break
        except AssignedAgain:
            if not left:
                raise
            own.leave([stopper.member_id])  # its removal may be lost with the connection
            (stopper.member_id,) = own.draw_ids(new, 1)
    return take_lead(own, member, stopper, stopped)


class Stopped(NamedTuple):
    """A group whose members wait in a rebalance; `at` is when they had joined the previous one."""

    at: float
    all_joined: bool  # False: some did not join in time
    leader: str  # "" if not all joined


class AssignedAgain(NotCaptured):
    """The leader assigned partitions before the group could be stopped; no member was removed."""


def until_all_stop(contest: Contest, join: Join, stopper: SentinelMember) -> Stopped:
    """
    Wait until all members have joined a rebalance, and start the next one before any assignment.

    A coordinator does not show which members have joined. It answers our `join` when all have,
    however late they notice the rebalance and however seldom they poll. A request that removes
    `stopper` is already on the same connection, so it arrives before the leader can assign
    partitions, and all members have to rejoin. Our member does not, which keeps that rebalance from
    ending. If the leader was faster, its members read on: raise AssignedAgain. Brokers before 4.0
    show that only between the two requests, and asking gives the leader more time. Members that
    have not joined after `STOP_WITHIN_S` are not waited for.
    """
    channel = contest.own.channel
    tells_later = contest.group.shows_assignments
    give_up_at = channel.now() + STOP_WITHIN_S
    joining = channel.send_ahead(join)
    looking = None if tells_later else channel.send_ahead(DescribeClassic(), after=joining)
    channel.send_ahead(Leave((stopper.member_id,)), after=looking or joining)
    is_over = False
    while not contest.has_joined:
        is_over = contest.look(join.member_id)
    # Not earlier, as the looks need its connection. The rebalance does not end without it.
    stopping = channel.send_ahead(stopper.join_quietly())
    while not channel.is_answered(joining) and channel.sleep(LOOK_EVERY_S) < give_up_at:
        pass
    now = channel.now()
    while not is_over:
        is_over = contest.look(join.member_id)
    if not channel.is_answered(joining):
        return Stopped(now - AT_ONCE_AFTER_S, all_joined=False, leader="")
    joined = channel.wait_for(joining)
    if failed := joined.error or channel.wait_for(stopping).error:
        raise rejected(failed)
    was_first = not looking or (channel.wait_for(looking).state == GroupState.COMPLETING_REBALANCE)
    group = _rejoined(channel)
    is_waiting = group.state == GroupState.PREPARING_REBALANCE
    if not (was_first and is_waiting) or _was_assigned(group, contest.own.ids):
        raise AssignedAgain(
            "the group assigned its partitions again before offsetbook could stop it; no member "
            "was evicted",
            hint=AGAIN,
        )
    return Stopped(now, all_joined=True, leader=joined.leader)


def take_lead(
    own: OwnIds,
    member: SentinelMember,
    stopper: SentinelMember,
    stopped: Stopped,
    may_read: Collection[str] = (),
) -> JoinResult:
    """
    Join as the leader of a stopped group.

    Removes its leader and all members that would lead before our member; they rejoin. If some
    members have not joined in time, removes all. Members that `may_read` are kept where possible.
    """
    channel, blocker = own.channel, SentinelMember(member.protocol)
    # A rebalance does not end while a member id is assigned that has not joined.
    (blocker.member_id,) = own.draw_ids(blocker, 1)
    while channel.sleep(LOOK_EVERY_S) < stopped.at + AT_ONCE_AFTER_S:
        pass
    listed = waiting(channel, member)
    gone = {stopped.leader, stopper.member_id, *ahead_of(member, listed)}
    if not stopped.all_joined:
        gone = set(listed) - {member.member_id}
    channel.ask(Leave(tuple(sorted(gone))))
    own.ids.remove(stopper.member_id)
    joining = channel.send_ahead(member.join())
    until_back(channel, len({*listed} - {stopper.member_id}), BACK_AFTER_S)
    _clear_first_places(channel, member, {*own.ids, *may_read})
    return let_it_end(channel, joining, blocker)


def _clear_first_places(
    channel: RecipeChannel, member: SentinelMember, stay: Collection[str]
) -> None:
    """
    Remove members that would lead before a second sentinel, so that they rejoin under other ids.

    During the rebalance all members except those in `stay` own nothing, so no record is read again.
    Later, when a second operator pauses other partitions, they could not be removed without that:
    see `classic_assignment`.
    """
    for _ in range(PLACE_TRIES):
        listed = waiting(channel, member)
        first = [one for one in listed if one not in stay and stands_first(one, len(listed) + 1)]
        if not first:
            return
        channel.ask(Leave(tuple(first)))
        until_back(channel, len(listed), BACK_AFTER_S)


def _rejoined(channel: RecipeChannel) -> ClassicFacts:
    """Return the group once it rebalances again, or after a while if it was assigned before."""
    group = channel.ask(DescribeClassic())
    give_up_at = channel.now() + REJOINED_WITHIN_S
    while group.state != GroupState.PREPARING_REBALANCE and channel.now() < give_up_at:
        channel.sleep(LOOK_EVERY_S)
        group = channel.ask(DescribeClassic())
    return group


def _was_assigned(group: ClassicFacts, own_ids: Collection[str]) -> bool:
    """
    Whether members were assigned partitions, which they read until they notice the rebalance.

    The leader may have been faster than the removal of our second sentinel. A rebalance that starts
    before the leader has assigned partitions clears all assignments. Only brokers from 4.0 on show
    assignments during a rebalance.
    """
    assignments = (one.assignment for one in group.members if one.member_id not in own_ids)
    return any(map(assignment_from_bytes, assignments))


def waiting(channel: RecipeChannel, member: SentinelMember) -> list[str]:
    """Return the members in the rebalance that `member` waits in; raises NotCaptured."""
    listed = channel.ask(DescribeClassic())
    ids = [one.member_id for one in listed.members]
    if listed.state != GroupState.PREPARING_REBALANCE or member.member_id not in ids:
        raise not_joined(listed)
    return ids


def ahead_of(member: SentinelMember, listed: list[str]) -> list[str]:
    """Return the members that would lead before ours: descriptions list them in that order."""
    return listed[: listed.index(member.member_id)]


def let_it_end(
    channel: RecipeChannel, joining: PendingAnswer[JoinResult], blocker: SentinelMember
) -> JoinResult:
    """Let the rebalance end; return the answer to the join that was sent ahead."""
    channel.ask(Leave((blocker.member_id,)))
    joined = channel.wait_for(joining)
    if joined.error:
        raise rejected(joined.error)
    return joined


def rejected(code: int) -> NotCaptured:
    """Return the error of a capture whose join failed."""
    return NotCaptured(
        f"the coordinator rejected the join: {reason(code, 'Read')}",
        hint=AGAIN,
    )


def until_back(
    channel: RecipeChannel,
    members: int,
    patience_s: float,
    *,
    staying: SentinelMember | None = None,
) -> None:
    """Wait a while until a group has so many members; `staying` sends heartbeats meanwhile."""
    now = channel.now()
    give_up_at = now + patience_s
    found = 0
    while found < members and now < give_up_at:
        now = channel.sleep(LOOK_EVERY_S)
        if staying:
            listed, _ = ask_both(channel, DescribeClassic(), staying.heartbeat())
        else:
            listed = channel.ask(DescribeClassic())
        found = len(listed.members)


def check_capturable(group: ClassicFacts) -> None:
    """Raise NotCaptured for a group that we must not lead, Blocked for an unknown protocol."""
    if group.error:
        raise NotCaptured(f"the group cannot be described: {group.why}")
    if group.state != "Stable" or group.protocol_type != "consumer":
        raise NotCaptured(
            f"the group is {group.state or 'missing'}, protocol type {group.protocol_type!r}: "
            "only Stable consumer groups can be held",
            hint="wait until it is Stable",
        )
    protocol_named(group.protocol)
    for one in group.members:
        if read_subscription(one.subscription) is None:
            raise NotCaptured(f"the subscription of member {one.member_id} cannot be parsed")
