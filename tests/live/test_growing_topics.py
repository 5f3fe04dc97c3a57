"""Topics that grow, and new ones that a pattern matches, while partitions of a group are paused."""

import time

import pytest
from applications import Applications, eventually
from confluent_kafka.admin import NewPartitions
from holding import MakeHolding
from live_groups import together

from toolkit.model import TopicPartition

pytestmark = [
    pytest.mark.live("consumers run"),
    pytest.mark.starts("consumers"),
]

KINDS = ("librdkafka-range", "librdkafka-cooperative-sticky", "librdkafka-consumer", "java-range")
# How often members look for new topics and partitions, five minutes by default.
LOOKS_OFTEN = {
    "librdkafka": {"topic.metadata.refresh.interval.ms": 1000},
    "java": {"metadata.max.age.ms": 1000},
}


def test_new_partitions_are_read_and_paused_ones_are_not(
    apps: Applications, new_holding: MakeHolding
) -> None:
    """The only member of a group reads new partitions and a new topic; the hold continues."""

    def is_so(kind: str) -> None:
        settings = LOOKS_OFTEN[kind.split("-", maxsplit=1)[0]]
        held = new_holding(apps.cluster, kind, consumers=("a",), by_pattern=True, **settings)
        began, live = time.time(), held.live
        (topic,), created = live.topics, f"{live.group}-9"
        new = {*(TopicPartition(topic, number) for number in (6, 7)), TopicPartition(created, 0)}
        held.pause()

        apps.admin.create_partitions([NewPartitions(topic, 8)])[topic].result()
        apps.create_topic(created)

        def are_read() -> bool:
            for place in new:
                apps.produce(*place, 1, key=place.topic)
            return new <= {one.place for one in live.applications.deliveries()}

        eventually(are_read)
        live.applications.until_delivered(held.others, since=time.time())
        assert held.places == held.paused
        assert [] == held.leaked()
        held.resume_in_place()
        live.applications.until_nothing_is_missing(live.places, since=began)

    together(is_so, KINDS)
