"""
Start a capture shortly before the owners of the partitions send their heartbeats.

With one heartbeat a member learns what to revoke, and with the next, 5 s later by default, what it
is assigned. A capture that starts just before the owners' heartbeats disturbs only the owners, and
members whose heartbeats arrive in the second until the next assignment. One that starts at any time
disturbs all members, and a partition that moves from an early to a late member is not read for two
intervals.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from toolkit.kafka_io.membership.consumer import ConsumerFacts, DescribeConsumer
from toolkit.live.group_view import (
    GroupView,
    give_way,
    refuse_what_is_announced,
    refuse_what_is_held,
    unsettled_reason,
)
from toolkit.live.member_pool import MemberPool, Sentinel
from toolkit.live.rival_captures import AnotherCapture
from toolkit.model import TopicPartition
from toolkit.planning.holds.recipes import waits_for_heartbeats

LOOK_EVERY_S = 0.25
AHEAD_S = 1.4  # of the heartbeats: a second until the assignment, and a margin
LATE_S = 1.0  # a heartbeat of a busy machine


def join_before_heartbeats(
    view: GroupView,
    partitions: frozenset[TopicPartition],
    new_members: Sequence[Sentinel],
    pool: MemberPool,
) -> None:
    """
    Have members join, without topics yet, and wait until the capture should start.

    Raises AnotherHold if another hold has the partitions by then or announced them first, and
    AnotherCapture if another capture goes on or, the first time, if the group has changed: members
    that wait for partitions would have to wait for one more heartbeat.
    """
    owners = {one.member_id for one in view.owners(partitions)}
    pool.join(new_members)
    announcer = new_members[-1]
    waits = waits_for_heartbeats(len(owners), len(view.readers), announcer.interval_s)
    if waits:
        pool.bump_epoch()
        pool.announce(announcer, partitions)
        _give_way(partitions, announcer, pool)
        begin_at = next_heartbeats(owners, pool, announcer.interval_s, room_s=AHEAD_S) - AHEAD_S
        while (left_s := begin_at - pool.channel.now()) > 0:
            pool.channel.sleep(min(left_s, LOOK_EVERY_S))
            pool.keep_all()
    facts = _give_way(partitions, announcer, pool)
    changing = unsettled_reason(facts, pool.own_ids)
    if waits and changing and not pool.gave_way:
        raise AnotherCapture(changing)


def _give_way(
    partitions: frozenset[TopicPartition], announcer: Sentinel, pool: MemberPool
) -> ConsumerFacts:
    """Return the group, unless another capture goes on instead."""
    facts = pool.channel.ask(DescribeConsumer())
    refuse_what_is_held(facts, partitions, pool.own_ids)
    # If two announced the same partition, each sees the other, and both decide alike.
    refuse_what_is_announced(facts, partitions, pool.own_ids, below=announcer.member_id)
    give_way(facts, pool.own_ids)
    return facts


def next_heartbeats(
    owners: Collection[str], pool: MemberPool, interval_s: float, *, room_s: float
) -> float:
    """
    Return the time of the first of the owners' next heartbeats; now, if one does not show.

    In seconds of the channel's clock, at least `room_s` from now, and in the order that takes the
    least time from the first to the last.

    The epoch of the group was bumped just now, and nothing else changed. The group description
    shows the new epoch for each member that has sent a heartbeat since.
    """
    began = since = now = pool.channel.now()
    heard: dict[str, float] = {}
    bumped = 0
    while len(heard) < len(owners):
        facts = pool.channel.ask(DescribeConsumer())
        bumped = bumped or facts.epoch
        told = {one.member_id for one in facts.members if one.epoch >= bumped}
        heard |= dict.fromkeys(told.intersection(owners).difference(heard), since)
        if now > began + interval_s + LATE_S:
            return now
        since, now = now, pool.channel.sleep(LOOK_EVERY_S)
        pool.keep_all()
    return first_of_next(heard.values(), interval_s, now + room_s)


def first_of_next(heard: Collection[float], interval_s: float, earliest: float) -> float:
    """Return the first of the next heartbeats, in the order that takes the least time."""
    times = sorted(
        at + interval_s * max(1, math.ceil((earliest - at) / interval_s)) for at in heard
    )
    # If one is first, those before it follow one interval later.
    lasts = [times[-1], *(at + interval_s for at in times[:-1])]
    return min(zip(times, lasts, strict=True), key=lambda one: (one[1] - one[0], one[0]))[0]
