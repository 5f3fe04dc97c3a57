"""How partitions are captured: which ways there are, and for which groups."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum

from toolkit.model import CaptureMode

COOPERATIVE = "cooperative-sticky"
STREAMS = "stream"  # assignor name of Kafka Streams on the classic protocol
# `RoundRobinAssigner` is kafkajs's name for round robin.
EAGER = frozenset({"range", "roundrobin", "sticky", "RoundRobinAssigner"})
KNOWN = EAGER | {COOPERATIVE, STREAMS}
# How long a capture waits for members that are busy with what they polled, while all others wait.
# Three times auto.commit.interval.ms: who has lag and commits less often may be busy for longer.
WAITS_FOR = timedelta(seconds=15)
# The delay before the coordinator of a paused Streams application (KIP-1071) assigns tasks; it is
# begun again and again. No multiple of the members' heartbeat interval, 5 s: the member that came
# back first sends one at each multiple, and would be given tasks before it can be evicted again.
APPLICATION_DELAY = timedelta(seconds=23)


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
WAITING = frozenset({Recipe.LOSSLESS, Recipe.EAGER})  # they evict only who lets nothing go in time
APPLICATIONS = frozenset({Recipe.STREAMS, Recipe.APPLICATION})  # of Kafka Streams


def is_internal_topic(topic: str, application_id: str) -> bool:
    """Return whether a topic that a Kafka Streams application reads was made by itself."""
    return topic.startswith(f"{application_id}-") and topic.endswith("-repartition")
