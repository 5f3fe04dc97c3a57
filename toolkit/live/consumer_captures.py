"""
Take over partitions of a KIP-848 group: without redelivery, at once, or without moving others.

Range assignor: every partition of a topic gets its own sentinel; those of the requested partitions
stay. `capture_lossless` waits until the owners revoke them, so no record is redelivered, and evicts
owners that are late: to give up would stop the group for longer, because the assignor may then
assign what a busy owner has not revoked to other members. `capture_fast` evicts them at once.

Uniform assignor: it assigns free partitions to the member with the fewest. First, sentinels are
assigned partitions of a topic that no member of the group reads, one less than the busiest member
has: no other partition moves. Then the owners are evicted, and each sentinel is assigned exactly
one of their partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from toolkit.errors import NotCaptured
from toolkit.kafka_io.membership.consumer import DescribeConsumer
from toolkit.kafka_io.membership.group_config import (
    ASSIGNMENT_INTERVAL_MS,
    ChangeConfig,
    FetchGroupConfig,
)
from toolkit.kafka_io.membership.topics_and_commits import FetchTopics, Topic
from toolkit.live.group_view import GroupView, give_way, late_members, refuse_what_is_held
from toolkit.live.heartbeat_times import join_before_heartbeats
from toolkit.live.member_pool import Holder, MemberPool, Sentinel, leave, together
from toolkit.live.recipe_steps import RecipeChannel
from toolkit.model import TopicPartition
from toolkit.planning.selection.member_names import in_short

RANGE = "range"
BEAT_S = 0.05
LOOK_EVERY_S = 1.0
GIVE_UP_AFTER_S = 10.0  # partitions of evicted owners are assigned within a second
FAST_WITHIN_S = 3.0  # it took 0.8 s at most on an idle machine

UNIFORM = "uniform"
LOADED_WITHIN_S = 12.0
CAPTURED_WITHIN_S = 2.0
# Assignments are computed at most once a second by default. One has to follow the eviction at once:
# an owner that rejoins before it, with no partitions, is assigned some first.
AGAIN_AFTER_S = 1.2


def capture_lossless(
    view: GroupView, partitions: frozenset[TopicPartition], pool: MemberPool, *, patience_s: float
) -> list[Holder]:
    """
    Have every partition assigned to the sentinel that is to hold it.

    The range assignor sorts members, so the sentinels, which are first, are assigned one partition
    each, in the order of both. Topics are independent there, so all are captured side by side.
    """
    places = [
        TopicPartition(name, number)
        for name, topic in sorted(view.topics.items())
        for number in range(topic.partitions)
    ]
    # Of several holders the first drops its subscription before the others. A spare sentinel of its
    # topic takes the partition that is free then: readers that were assigned it would not get back
    # their former partitions in the next assignment.
    spare = [min(partitions).topic] if len(partitions) > 1 else []
    # The group uses the assignor that most members ask for.
    voters = max(0, len(view.members) + 1 - len(places))
    topics = [*((place.topic,) for place in places), *((name,) for name in spare), *[()] * voters]
    new_members = pool.create_members(len(topics), static=view.is_static)
    join_before_heartbeats(view, partitions, new_members, pool)
    pool.subscribe_at_once(list(zip(new_members, topics, strict=True)), assignor=RANGE)
    meant = dict(zip(places, new_members, strict=False))
    waiting = {place: meant[place] for place in partitions}
    _wait(view, waiting, pool, patience_s)
    return holders_of(view, waiting)


def _wait(
    view: GroupView,
    waiting: Mapping[TopicPartition, Sentinel],
    pool: MemberPool,
    patience_s: float,
) -> None:
    begun = pool.channel.now()
    look_at = begun + LOOK_EVERY_S
    while True:
        now = pool.channel.sleep(BEAT_S)
        missing = frozenset(
            place for place, one in waiting.items() if one.owned != {view.by_id(place)}
        )
        if not missing:
            return
        if now >= look_at:
            facts = pool.channel.ask(DescribeConsumer())
            refuse_what_is_held(facts, missing, pool.own_ids)  # by a faster one
            # Of two simultaneous captures one goes on; both decide alike.
            give_way(facts, pool.own_ids, below=min(pool.members))
            if now >= begun + patience_s:
                together(pool.channel, [leave(one) for one in late_members(facts)])
            if now >= begun + patience_s + GIVE_UP_AFTER_S:
                names = in_short(missing)
                raise NotCaptured(f"{names}: not assigned to offsetbook's members in time")
            look_at = now + LOOK_EVERY_S
        pool.heartbeat(waiting.values())
        pool.keep_all()


def capture_fast(
    view: GroupView, partitions: frozenset[TopicPartition], pool: MemberPool, *, patience_s: float
) -> list[Holder]:
    """
    Evict the owners and take over their partitions before they rejoin; return [] if that failed.

    The sentinels have joined before, without subscriptions; the coordinator, which computes
    assignments once a second by default, is configured not to wait. A reader whose heartbeat comes
    between the eviction and the subscriptions is assigned the partition, and keeps it.
    """
    _no_interval(pool)
    joining = [
        (one, topic)
        for topic, facts in sorted(view.topics.items())
        for one in pool.create_members(facts.partitions, static=view.is_static)
    ]
    pool.join([one for one, _ in joining])
    evict = [leave(owner.member_id) for owner in view.owners(partitions)]
    pool.subscribe([(one, (topic,)) for one, topic in joining], before=evict)
    found = owned_within(min(patience_s, FAST_WITHIN_S), view, partitions, pool)
    while pool.owed:
        changed = pool.channel.ask(pool.owed[0])
        if changed.error:
            raise NotCaptured(f"{ASSIGNMENT_INTERVAL_MS} was not restored: {changed.why}")
        pool.owed.pop(0)
    return holders_of(view, found)


def _no_interval(pool: MemberPool) -> None:
    name = ASSIGNMENT_INTERVAL_MS
    found = pool.channel.ask(FetchGroupConfig((name,)))
    if found.error:
        raise NotCaptured(f"{name} of the group cannot be read: {found.why}")
    if name not in found.values:
        raise NotCaptured(f"this cluster has no {name}", hint="prefer lossless or quiet")
    if found.values[name] == "0":
        return
    pool.owed.append(ChangeConfig(name, found.own.get(name)))
    changed = pool.channel.ask(ChangeConfig(name, "0"))
    if changed.error:
        raise NotCaptured(f"{name} of the group cannot be set: {changed.why}")


def owned_within(
    time_s: float,
    view: GroupView,
    partitions: frozenset[TopicPartition],
    pool: MemberPool,
    *,
    apart: frozenset[UUID] = frozenset(),
) -> dict[TopicPartition, Sentinel]:
    """
    Wait until each partition is the only one of a sentinel; return {} after `time_s`.

    Topics in `apart`, which no member reads, do not count.
    """
    give_up_at = pool.channel.now() + time_s
    while not (found := _sole_owners(view, partitions, pool.members.values(), apart)):
        pool.heartbeat(pool.members.values())
        if pool.channel.sleep(BEAT_S) >= give_up_at:
            return {}
    return found


def _sole_owners(
    view: GroupView,
    partitions: frozenset[TopicPartition],
    members: Iterable[Sentinel],
    apart: frozenset[UUID],
) -> dict[TopicPartition, Sentinel]:
    owners = {
        frozenset(place for place in member.owned if place.topic_id not in apart): member
        for member in members
    }
    ids = {place: frozenset({view.by_id(place)}) for place in partitions}
    if not set(ids.values()) <= owners.keys():
        return {}
    return {place: owners[own] for place, own in ids.items()}


def holders_of(view: GroupView, captured: Mapping[TopicPartition, Sentinel]) -> list[Holder]:
    """Return the members that stay, and the partition that each of them holds."""
    return [
        Holder(one.member_id, one.epoch, place, view.topics[place.topic].topic_id)
        for place, one in sorted(captured.items())
    ]


@dataclass(frozen=True, slots=True)
class WeightTopic:
    """How many sentinels are assigned how many partitions each, and of which topic."""

    members: int
    each: int
    name: str = ""
    topic: Topic | None = None


def capture_quiet(
    view: GroupView, partitions: frozenset[TopicPartition], pool: MemberPool, *, patience_s: float
) -> list[Holder]:
    """
    Take over the partitions; return [] if the assignment after the eviction was not exact.

    Raises NotCaptured, before a member is evicted, if it cannot be tried; the hint says what helps.
    """
    load = _load(pool.channel, view, partitions)
    if not _loaded(view, load, pool, min(patience_s, LOADED_WITHIN_S)):
        raise NotCaptured(
            "quiet capture: the group did not assign offsetbook's members what they need in time; "
            "no member was evicted",
            hint="run the command again, or use the lossless mode",
        )
    evict = [leave(owner.member_id) for owner in view.owners(partitions)]
    together(pool.channel, evict)
    apart = frozenset({load.topic.topic_id}) if load.topic else frozenset()
    found = owned_within(CAPTURED_WITHIN_S, view, partitions, pool, apart=apart)
    return holders_of(view, found)


def _load(
    channel: RecipeChannel, view: GroupView, partitions: frozenset[TopicPartition]
) -> WeightTopic:
    if view.assignor != UNIFORM:
        raise NotCaptured(
            f"quiet capture needs assignor {UNIFORM}, but the group uses {view.assignor}",
            hint="use the lossless mode",
        )
    # Targets count, including partitions that are held already.
    needed = sum(len(owner.target) for owner in view.owners(partitions))
    each = max(len(member.target) for member in view.readers) - 1
    if not each:
        return WeightTopic(needed, 0)
    others = channel.ask(FetchTopics()).topics
    for name, topic in sorted(others.items(), key=lambda item: item[1].partitions):
        members, rest = divmod(topic.partitions, each)
        if name not in view.read_topics and members >= needed and not rest:
            return WeightTopic(members, each, name, topic)
    raise NotCaptured(
        f"there is no topic with {needed * each} partitions that no member of the group reads",
        hint="create one (it may stay empty), or use the lossless mode",
    )


def _loaded(view: GroupView, load: WeightTopic, pool: MemberPool, patience_s: float) -> bool:
    new_members = pool.create_members(load.members, static=False)
    pool.join(new_members)
    topics = (*sorted(view.read_topics), *([load.name] if load.topic else ()))
    pool.subscribe_at_once([(one, topics) for one in new_members])
    begun = pool.channel.now()
    loaded_at: float | None = None
    while (now := pool.channel.sleep(BEAT_S)) < begun + patience_s:
        pool.heartbeat(new_members)
        if not _as_meant(new_members, load):
            loaded_at = None
        elif loaded_at is None:
            loaded_at = now
        elif now >= loaded_at + AGAIN_AFTER_S:
            return True
    return False


def _as_meant(new_members: list[Sentinel], load: WeightTopic) -> bool:
    topic_id = load.topic.topic_id if load.topic else None
    return all(
        len(one.owned) == load.each and {place.topic_id for place in one.owned} <= {topic_id}
        for one in new_members
    )
