"""
Have a member of ours become the leader of a classic group.

The leader is the first member, and when it leaves, another one. So it has to be removed, which
loses what it has read since its last commit, unless it has let go of everything at that moment.
Members of eager protocols do that before they join a rebalance. So we open a rebalance and hold it
open until all of them wait in it, remove them then, which costs them nothing, and let them join
again after us.

Members of cooperative protocols read on while they wait. So only the leader is removed, soon after
it has committed. What it reads in between is read again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from toolkit.errors import NotCaptured
from toolkit.kafka_io.broker_errors import reason
from toolkit.kafka_io.membership import ClassicFacts, DescribeClassic, FetchCommits, Joined, Leave
from toolkit.live.classic_member import OurMember, draw_first_id, draw_ids
from toolkit.live.flow import Aside, Flow, Together, Wait
from toolkit.model import TopicPartition

HEARTBEAT_S = 3.0  # of nearly all clients by default, and how they hear of a rebalance
LATE_S = 0.3  # how much later the slowest of them has let go, committed and joined
BACK_AFTER_S = 1.5  # who was removed is back at once; a few clients take longer, and come then
LOOK_EVERY_S = 0.05
COMMIT_WITHIN_S = 6.0  # clients commit every 5 s by default


def lead_eager(member: OurMember, ours: list[str]) -> Flow[Joined]:
    """
    Join as the leader of a Stable group whose members let go of everything when they rebalance.

    Ids of ours that may be in the group are put on `ours`.
    """
    blocker = OurMember(member.protocol)
    member.member_id, blocker.member_id = yield from draw_ids(blocker, ours, 2)
    # While an id is out with which nobody has joined, the rebalance does not end.
    yield Aside(member.join_quietly())
    yield Wait(HEARTBEAT_S + LATE_S)
    listed: ClassicFacts = yield DescribeClassic()
    removed = {one.member_id for one in listed.members} - set(ours)
    yield Leave(tuple(sorted(removed)))
    yield Aside(member.join())
    yield from _until_back(len(listed.members), ())
    # The second one only asks for the answer to the first, which nobody reads.
    _, joined = yield Together((Leave((blocker.member_id,)), member.join()))
    return _checked(joined)


def lead_cooperative(
    member: OurMember, owned: Mapping[str, frozenset[TopicPartition]], ours: list[str]
) -> Flow[Joined]:
    """
    Join as the leader of a Stable group whose members read on while they rebalance.

    `owned` is what each member has. Only the leader is removed, at a good moment for it.
    """
    member.member_id = yield from draw_first_id(OurMember(member.protocol), ours, len(owned))
    quiet: Joined = _checked((yield member.join_quietly()))
    member.generation = quiet.generation
    yield member.sync({})
    assigned_at = yield Wait(0)
    yield from _await_commit(member, owned.get(quiet.leader, frozenset()))
    blocker = OurMember(member.protocol)
    (blocker.member_id,) = yield from draw_ids(blocker, ours, 1)
    # The rebalance that this opens waits for `member`, which takes its time.
    yield Aside(blocker.join_quietly())
    yield from _until_they_wait(member, assigned_at)
    listed: ClassicFacts = yield DescribeClassic()
    ids = [one.member_id for one in listed.members]
    # Members are listed in the order in which the coordinator looks for a new leader.
    first = ids[: ids.index(member.member_id)] if member.member_id in ids else []
    removed = {quiet.leader, *first} - set(ours)
    yield Leave(tuple(sorted(removed)))
    yield from _until_back(len(ids), (member,))
    yield Leave((blocker.member_id,))
    return _checked((yield member.join()))


def _await_commit(member: OurMember, owned: Collection[TopicPartition]) -> Flow[None]:
    """Wait until the owner of some partitions has committed for one of them."""
    before = (yield FetchCommits()).offsets
    now = yield Wait(0)
    give_up_at = now + COMMIT_WITHIN_S
    while owned and now < give_up_at:
        now = yield Wait(LOOK_EVERY_S)
        found, _ = yield Together((FetchCommits(), member.heartbeat()))
        if any(found.offsets.get(one) != before.get(one) for one in owned):
            return


def _until_they_wait(member: OurMember, assigned_at: float) -> Flow[None]:
    """Wait until members have sent a heartbeat, each a whole number of intervals after a sync."""
    now = yield Wait(0)
    beats = (now - assigned_at) // HEARTBEAT_S + 1
    while now < assigned_at + beats * HEARTBEAT_S + LATE_S:
        now = yield Wait(LOOK_EVERY_S)
        yield member.heartbeat()


def _until_back(members: int, ours: Collection[OurMember]) -> Flow[None]:
    """Wait until the group has as many members as before, for a while; ours stay members."""
    now = yield Wait(0)
    give_up_at = now + BACK_AFTER_S
    found = 0
    while found < members and now < give_up_at:
        now = yield Wait(LOOK_EVERY_S)
        beats = tuple(one.heartbeat() for one in ours)
        listed, *_ = yield Together((DescribeClassic(), *beats))
        found = len(listed.members)


def _checked(joined: Joined) -> Joined:
    if joined.error:
        raise NotCaptured(f"our member was refused: {reason(joined.error)}", hint="try again")
    return joined
