from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from clients import Producer

from toolkit.kafka_io.logs import record_times
from toolkit.kafka_io.logs.record_times import read_record_times
from toolkit.model import Cluster, TopicPartition

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
RECORDS = 6


@pytest.fixture
def timed(apps: Any) -> str:
    """Return a topic with a record a minute from noon on in p0, from one on in p1; p2 is empty."""
    topic: str = apps.create_topic(apps.name("when"), partitions=3)
    producer = Producer({"bootstrap.servers": apps.address})
    for partition in range(2):
        for number in range(RECORDS):
            at = NOON + timedelta(hours=partition) + number * MINUTE
            milliseconds = int(at.timestamp() * 1000)
            producer.produce(topic, b"", partition=partition, timestamp=milliseconds)
    assert producer.flush() == 0
    return topic


def test_time_of_the_record_at_an_offset(bare_cluster: Cluster, timed: str) -> None:
    """Each position has the time of its record, also several in the same partition."""
    first, second = TopicPartition(timed, 0), TopicPartition(timed, 1)
    wanted = [(first, 4), (first, 0), (second, 1), (first, 4), (first, 5)]

    assert read_record_times(bare_cluster, wanted) == {
        (first, 0): NOON,
        (first, 4): NOON + 4 * MINUTE,
        (first, 5): NOON + 5 * MINUTE,
        (second, 1): NOON + timedelta(hours=1) + MINUTE,
    }


def test_where_there_is_no_record(
    bare_cluster: Cluster, timed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log end, what lies past it, an empty log and what does not exist have no time."""
    # Each of them says so: one that was waited for would be waited for until tomorrow.
    monkeypatch.setattr(record_times, "SILENCE_S", 86_400)
    first = TopicPartition(timed, 0)
    nothing = [
        (first, RECORDS),
        (first, RECORDS + 3),
        (TopicPartition(timed, 2), 0),
        (TopicPartition(timed, 7), 0),
        (TopicPartition("no-such-topic", 0), 0),
    ]
    found = read_record_times(bare_cluster, [*nothing, (first, 1)])

    assert found == {(first, 1): NOON + MINUTE}


def test_first_record_after_a_gap(apps: Any, timed: str) -> None:
    """An offset whose record was deleted has the time of the first one that is left."""
    partition = TopicPartition(timed, 0)
    apps.delete_records(timed, 0, 3)

    assert read_record_times(apps.cluster, [(partition, 1)]) == {(partition, 1): NOON + 3 * MINUTE}


def test_open_transaction_does_not_hide_records(apps: Any) -> None:
    """A record of a transaction that is still open has a time like any other."""
    partition = TopicPartition(apps.create_topic(apps.name("open")), 0)
    producer = apps.transaction(apps.name("open-transaction"))
    producer.produce(partition.topic, b"", timestamp=int(NOON.timestamp() * 1000))
    producer.flush()
    try:
        assert read_record_times(apps.cluster, [(partition, 0)]) == {(partition, 0): NOON}
    finally:
        producer.abort_transaction()


def test_no_more_than_asked_for(bare_cluster: Cluster, timed: str) -> None:
    """Beyond the number of positions that may be read, keys are missing."""
    first = TopicPartition(timed, 0)
    found = read_record_times(bare_cluster, [(first, 3), (first, 1), (first, 2)], most=2)

    assert found == {(first, 3): NOON + 3 * MINUTE, (first, 1): NOON + MINUTE}


def test_large_records_in_many_partitions(apps: Any) -> None:
    """Every partition has its turn, though its first record alone is more than is asked for."""
    topic = apps.create_topic(apps.name("large"), partitions=20)
    producer = Producer({"bootstrap.servers": apps.address})
    for partition in range(20):
        producer.produce(
            topic, b"x" * 200_000, partition=partition, timestamp=1_000 * partition + 1
        )
    assert producer.flush() == 0
    found = read_record_times(apps.cluster, [(TopicPartition(topic, n), 0) for n in range(20)])

    assert {key.partition: round(at.timestamp()) for (key, _), at in found.items()} == {
        number: number for number in range(20)
    }
