from typing import Any

import pytest

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.offsets_topic.log_ends import offsets_partitions
from toolkit.kafka_io.offsets_topic.partitions import partition_of
from toolkit.model import TopicPartition


@pytest.mark.parametrize(
    ("group", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("polygenelubricants", -(2**31)),  # the one value of which Java's abs is negative
        ("test-group", 627_841_412),
        ("café reports 東京", 1_838_554_811),
        ("💾", 1_772_577),  # two UTF-16 units, as Java counts
    ],
)
def test_partition_of_follows_javas_hash(group: str, java_hash: Any) -> None:
    """The partition is Java's hash (as a JVM printed it), made positive as Kafka does it."""
    expected = 0 if java_hash == -(2**31) else abs(java_hash) % 50

    assert partition_of(group, 50) == expected


def test_partition_of_agrees_with_the_broker(exclusive_apps: Any) -> None:
    """A group's records lie in the partition of the offsets topic that was worked out for it."""
    apps = exclusive_apps
    topic = apps.create_topic(apps.name("where"))
    with Connection(apps.cluster) as connection:
        for stem in ("polygenelubricants", "💾", "café reports 東京", "x" * 200, "a b"):
            # The first name is special as it is; a number after it would be another hash.
            group = stem if stem == "polygenelubricants" else apps.name(stem)
            before = offsets_partitions(connection).logs
            apps.commit(group, {TopicPartition(topic, 0): 0})
            after = offsets_partitions(connection)

            grown = {number for number, log in after.logs.items() if log != before.get(number)}
            assert grown == {partition_of(group, after.partitions)}
