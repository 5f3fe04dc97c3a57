"""Reading many partitions at once from their leaders."""

import time
from types import SimpleNamespace

import pytest
from applications import Applications

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.logs import fetch
from toolkit.kafka_io.logs.bulk_records import committed_records
from toolkit.kafka_io.logs.fetch import Fetched, LogReading, NotFetched
from toolkit.kafka_io.logs.log_offsets import READ_COMMITTED
from toolkit.model import TopicPartition


def test_a_response_without_room_for_all(
    apps: Applications, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions take turns where a response has room for one, and each is read to its end once."""
    monkeypatch.setattr(fetch, "FETCH_BYTES", 100)  # brokers send one batch all the same
    topics = [apps.create_topic(apps.name("topic"), partitions=3) for _ in range(2)]
    places = [TopicPartition(topic, number) for topic in topics for number in range(3)]
    for turn in range(4):
        for place in places:
            apps.produce(*place, 5 + turn, key="key")
    spans = {place: range(2 * number, 26) for number, place in enumerate(places)}
    nothing = {TopicPartition("no such topic", 0): range(9, 9)}

    found: dict[TopicPartition, list[int]] = {place: [] for place in places}
    order = []
    with Connection(apps.cluster) as connection:
        for one in LogReading(connection, {**spans, **nothing}, READ_COMMITTED).found():
            assert not isinstance(one, NotFetched)
            records = committed_records(apps.cluster, one, spans[one.partition])
            found[one.partition] += records.offsets.tolist()
            order.append(one.partition)

    assert {place: [*span] for place, span in spans.items()} == found
    assert len({*order[: len(places)]}) == len(places)


def test_an_unreadable_partition_does_not_stop_the_others(apps: Applications) -> None:
    """A missing partition, and one that ends early, have a reason; the others are read."""
    topic = apps.create_topic(apps.name("topic"), partitions=2)
    for number in range(2):
        apps.produce(topic, number, 10, key="key")
    missing, early = TopicPartition(topic, 7), TopicPartition(topic, 1)
    spans = {TopicPartition(topic, 0): range(10), missing: range(10), early: range(11, 12)}

    with Connection(apps.cluster) as connection:
        found = [*LogReading(connection, spans, READ_COMMITTED).found()]

    whys = {one.partition: one.error.problem for one in found if isinstance(one, NotFetched)}
    assert {missing, early} == whys.keys()
    assert f"reading {topic} partition 7 of cluster {apps.cluster.name}: " in whys[missing]
    assert "offset" in whys[early].lower()
    assert [10] == [one.batches.last_offset + 1 for one in found if isinstance(one, Fetched)]


@pytest.mark.parametrize("at_most_bytes", [100, fetch.FETCH_BYTES])
def test_a_reader_may_take_its_time(
    apps: Applications, monkeypatch: pytest.MonkeyPatch, at_most_bytes: int
) -> None:
    """Where the caller takes an hour for each response, no partition counts as silent."""
    late_s = 0.0
    clock = SimpleNamespace(monotonic=lambda: time.monotonic() + late_s, sleep=time.sleep)
    monkeypatch.setattr(fetch, "time", clock)
    topic = apps.create_topic(apps.name("topic"), partitions=3)
    spans = {TopicPartition(topic, number): range(8) for number in range(3)}
    for _ in range(2):
        for place in spans:
            apps.produce(*place, 4, key="key")

    found = []
    with Connection(apps.cluster) as connection:
        reading = LogReading(connection, spans, READ_COMMITTED, at_most_bytes=at_most_bytes)
        for one in reading.found():
            found.append(one)
            late_s += 3600

    assert [] == [one.why for one in found if isinstance(one, NotFetched)]
    assert spans.keys() == {one.partition for one in found}
