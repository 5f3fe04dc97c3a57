"""How partitions are captured: which ways there are, and for which groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from enum import StrEnum

from toolkit.model import CaptureMode, TopicPartition
from toolkit.model.groups import STREAMS_PROTOCOL

COOPERATIVE = "cooperative-sticky"
# `RoundRobinAssigner` is kafkajs's name for round robin.
EAGER = frozenset({"range", "roundrobin", "sticky", "RoundRobinAssigner"})
KNOWN = EAGER | {COOPERATIVE, STREAMS_PROTOCOL}
# How long a capture waits for members that are busy with polled records, while all others wait.
# Three times auto.commit.interval.ms: a member that has lag and commits less often may be busy.
WAITS_FOR = timedelta(seconds=15)
HEARTBEATS_OFTEN = timedelta(seconds=2)  # all members send theirs while a capture goes on
# The delay before the coordinator of a paused Streams application (KIP-1071) assigns tasks; it is
# begun again and again. No multiple of the members' heartbeat interval, 5 s: the member that came
# back first sends one at each multiple, and would be given tasks before it can be evicted again.
APPLICATION_DELAY = timedelta(seconds=23)
MOST_PARTITIONS = 200  # that are claimed: a member and a connection each, for some seconds


class Recipe(StrEnum):
    """How partitions are captured, as text."""

    LOSSLESS = "offsetbook members take over the whole topic and keep the paused partitions"
    QUIET = "offsetbook members, also assigned an unused topic, replace the owner"
    FAST = "the owner is evicted while offsetbook members take over the whole topic"
    EAGER = "an offsetbook member becomes group leader during a rebalance"
    CLAIMS = (
        "offsetbook members take over all partitions of the group, and one becomes group leader"
    )
    COOPERATIVE = "an offsetbook member becomes group leader right after the leader has committed"
    STREAMS = (
        "an offsetbook member becomes group leader and distributes the application's assignment "
        "without the paused partitions"
    )
    APPLICATION = (
        "all members are evicted together, and again whenever the coordinator would assign tasks"
    )
    SHARED = "the offsetbook member that leads the group already pauses these partitions as well"


RECIPES = {
    CaptureMode.LOSSLESS: Recipe.LOSSLESS,
    CaptureMode.QUIET: Recipe.QUIET,
    CaptureMode.FAST: Recipe.FAST,
}
CONSUMER_RECIPES = frozenset(RECIPES.values())
WAITING = frozenset({Recipe.LOSSLESS, Recipe.EAGER})  # they evict only members that revoke too late
APPLICATIONS = frozenset({Recipe.STREAMS, Recipe.APPLICATION})  # of Kafka Streams


def waits_for_heartbeats(owners: int, readers: int, interval_s: float) -> bool:
    """
    Return whether a capture of a KIP-848 group begins just before the owners' heartbeats.

    That leaves members alone that own none of the partitions, if there are any.
    """
    return 0 < owners < readers and interval_s > HEARTBEATS_OFTEN.total_seconds()


def is_internal_topic(topic: str, application_id: str) -> bool:
    """Return whether a topic of a Kafka Streams application is an internal one."""
    return topic.startswith(f"{application_id}-") and topic.endswith("-repartition")


def partitions_to_claim(
    subscriptions: Collection[frozenset[str]], counts: Mapping[str, int]
) -> tuple[TopicPartition, ...]:
    """
    Return all partitions of a group's topics, sorted, if holding members can own one each.

    A cooperative leader lets each member keep the partitions that its subscription claims to own,
    up to an equal share. So if one holding member for each partition claims that one, none is left
    for others.

    `subscriptions` are the topics of each member, `counts` the partitions of each topic. Return ()
    if members subscribe to different topics, as then the leader shares out by other rules, or if
    there are too many partitions.
    """
    places = tuple(
        TopicPartition(topic, number)
        for topic, count in sorted(counts.items())
        for number in range(count)
    )
    is_one = len(set(subscriptions)) == 1 and counts.keys() == next(iter(subscriptions))
    return places if is_one and len(places) <= MOST_PARTITIONS else ()
