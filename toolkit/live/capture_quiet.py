"""
Take over partitions of a KIP-848 group, interrupting only the same owners (uniform assignor).

The uniform assignor gives free partitions to the member with the fewest. offsetbook members are
first loaded with the partitions of a topic that no member of the group reads, to one less than the
busiest member has: nothing moves. Then the owners are evicted, and each of ours is given exactly
one of their partitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.errors import NotCaptured
from toolkit.kafka_io.membership.group_config import AllTopics
from toolkit.kafka_io.membership.topics_and_commits import Topic
from toolkit.live.consumer_flood import exactly, holders_of
from toolkit.live.flow import Flow, Wait
from toolkit.live.group_view import GroupView
from toolkit.live.member_pool import Holder, MemberPool, Sentinel, leave, together
from toolkit.model import TopicPartition

UNIFORM = "uniform"
BEAT_S = 0.05
LOADED_WITHIN_S = 12.0
CAPTURED_WITHIN_S = 2.0
# Assignments are computed at most once a second by default. An eviction has to be answered by one
# at once: an owner that is back before it, with nothing, is the first to be given something.
AGAIN_AFTER_S = 1.2


@dataclass(frozen=True, slots=True)
class WeightTopic:
    """How many members of ours are loaded with how many partitions each, and of which topic."""

    members: int
    each: int
    name: str = ""
    topic: Topic | None = None


def weigh(
    sight: GroupView, wanted: frozenset[TopicPartition], crew: MemberPool, *, patience_s: float
) -> Flow[list[Holder]]:
    """
    Take over the wanted partitions; return [] if the assignment was not exact.

    Raises NotCaptured where it cannot even be tried: what would help is said.
    """
    load = yield from _load(sight, wanted)
    if not (yield from _loaded(sight, load, crew, min(patience_s, LOADED_WITHIN_S))):
        return []
    evict = [leave(owner.member_id) for owner in sight.owners(wanted)]
    yield from together(evict)
    apart = frozenset({load.topic.topic_id}) if load.topic else frozenset()
    give_up_at = (yield Wait(0)) + CAPTURED_WITHIN_S
    while not (found := exactly(sight, wanted, crew.members.values(), apart=apart)):
        yield from crew.beat(crew.members.values())
        if (yield Wait(BEAT_S)) >= give_up_at:
            return []
    return holders_of(sight, found)


def _load(sight: GroupView, wanted: frozenset[TopicPartition]) -> Flow[WeightTopic]:
    if sight.assignor != UNIFORM:
        raise NotCaptured(
            f"quiet capture needs assignor {UNIFORM}, but the group uses {sight.assignor}",
            hint="the lossless way",
        )
    # What counts is what members are meant to have, also of partitions that are held already.
    needed = sum(len(owner.target) for owner in sight.owners(wanted))
    each = max(len(member.target) for member in sight.readers) - 1
    if not each:
        return WeightTopic(needed, 0)
    others = (yield AllTopics()).topics
    for name, topic in sorted(others.items(), key=lambda item: item[1].partitions):
        members, rest = divmod(topic.partitions, each)
        if name not in sight.read_topics and members >= needed and not rest:
            return WeightTopic(members, each, name, topic)
    raise NotCaptured(
        f"there is no topic with {needed * each} partitions that no member of the group reads",
        hint="create one (it may stay empty), or use the lossless mode",
    )


def _loaded(sight: GroupView, load: WeightTopic, crew: MemberPool, patience_s: float) -> Flow[bool]:
    hired = crew.hire(load.members, static=False)
    yield from crew.join([(one, ()) for one in hired], None)
    topics = (*sorted(sight.read_topics), *([load.name] if load.topic else ()))
    # Within a second of their joining, so that the assignor first sees all of them at once.
    yield from crew.subscribe([(one, topics) for one in hired])
    begun = yield Wait(0)
    loaded_at: float | None = None
    while (now := (yield Wait(BEAT_S))) < begun + patience_s:
        yield from crew.beat(hired)
        if not _as_meant(hired, load):
            loaded_at = None
        elif loaded_at is None:
            loaded_at = now
        elif now >= loaded_at + AGAIN_AFTER_S:
            return True
    return False


def _as_meant(hired: list[Sentinel], load: WeightTopic) -> bool:
    topic_id = load.topic.topic_id if load.topic else None
    return all(
        len(one.owned) == load.each and {place.topic_id for place in one.owned} <= {topic_id}
        for one in hired
    )
