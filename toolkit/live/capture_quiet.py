"""
Take over partitions of a KIP-848 group, interrupting only the same owners (uniform assignor).

The uniform assignor gives free partitions to the member with the fewest. offsetbook members are
first loaded with the partitions of a topic that no member of the group reads, to one less than the
busiest member has: nothing moves. Then the owners are evicted, and each sentinel is given exactly
one of their partitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.errors import NotCaptured
from toolkit.kafka_io.membership.group_config import FetchAllTopics
from toolkit.kafka_io.membership.topics_and_commits import Topic
from toolkit.live.capture_lossless import holders_of, owned_within
from toolkit.live.group_view import GroupView
from toolkit.live.member_pool import Holder, MemberPool, Sentinel, leave, together
from toolkit.live.recipe_steps import RecipeChannel
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
    """How many sentinels are loaded with how many partitions each, and of which topic."""

    members: int
    each: int
    name: str = ""
    topic: Topic | None = None


def capture_quiet(
    view: GroupView, partitions: frozenset[TopicPartition], pool: MemberPool, *, patience_s: float
) -> list[Holder]:
    """
    Take over the partitions; return [] if the assignment after the eviction was not exact.

    Raises NotCaptured, before anybody is evicted, where it cannot be tried, and says what helps.
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
            hint="the lossless way",
        )
    # What counts is what members are meant to have, also of partitions that are held already.
    needed = sum(len(owner.target) for owner in view.owners(partitions))
    each = max(len(member.target) for member in view.readers) - 1
    if not each:
        return WeightTopic(needed, 0)
    others = channel.ask(FetchAllTopics()).topics
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
    pool.join([(one, ()) for one in new_members], None)
    topics = (*sorted(view.read_topics), *([load.name] if load.topic else ()))
    # Within a second of their joining, so that the assignor first sees all of them at once.
    pool.subscribe([(one, topics) for one in new_members])
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
