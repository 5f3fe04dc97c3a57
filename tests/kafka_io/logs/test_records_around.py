import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from clients import Producer
from timed_records import produce

from toolkit.errors import UsageError
from toolkit.kafka_io.logs import records_around
from toolkit.kafka_io.logs.record_times import read_first_records
from toolkit.kafka_io.logs.records_around import (
    FIELD_BYTES,
    MOST_HEADERS,
    MOST_POSITIONS,
    read_records_around,
)
from toolkit.model import Cluster, TopicPartition
from toolkit.model.records import FirstRecord

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def partition(apps: Any) -> TopicPartition:
    """Return a new partition with ten records, of which each one's value is its offset."""
    return TopicPartition(apps.create_topic(apps.name("around"), partitions=2, records=10), 0)


def offsets(cluster: Cluster, partition: TopicPartition, at: int, **wanted: int) -> list[int]:
    found = read_records_around(cluster, {partition: at}, **wanted)
    assert () == found.problems
    return [record.offset for record in found.records]


def eleventh(apps: Any, partition: TopicPartition, value: bytes | None, **more: Any) -> Any:
    """Add a record to a partition of ten, and return it as it is read."""
    producer = Producer({"bootstrap.servers": apps.address})
    producer.produce(partition.topic, value, partition=0, **more)
    assert producer.flush() == 0
    (record,) = read_records_around(apps.cluster, {partition: 10}, before=0).records
    return record


def test_records_before_and_after_an_offset(apps: Any, partition: TopicPartition) -> None:
    """There are as many as were asked for, in order, and within the log."""
    cluster = apps.cluster

    assert [3, 4, 5, 6, 7] == offsets(cluster, partition, 5)
    assert [4, 5] == offsets(cluster, partition, 5, before=1, after=1)
    assert [3, 4] == offsets(cluster, partition, 5, after=0)
    assert [0, 1] == offsets(cluster, partition, 0, after=2)
    assert [8, 9] == offsets(cluster, partition, 10)
    assert [9] == offsets(cluster, partition, 9, before=0)
    assert [] == offsets(cluster, partition, 10, before=0)
    (record,) = read_records_around(cluster, {partition: 5}, before=0, after=1).records
    assert (b"5", 1) == record.value


def test_the_fields_of_a_record(apps: Any, partition: TopicPartition) -> None:
    """Null is not empty, headers keep their order and repeat, and the time is the record's."""
    headers = [("a", b"1"), ("a", None), ("", b"\xff")]
    at_ms = int(NOON.timestamp() * 1000)
    record = eleventh(apps, partition, None, key=b"", timestamp=at_ms, headers=headers)

    assert (None, (b"", 0), NOON, False) == (
        *(record.value, record.key and tuple(record.key)),
        *(record.at, record.at_append),
    )
    assert [("a", (b"1", 1)), ("a", None), ("", (b"\xff", 1))] == [
        (header.name, header.value and tuple(header.value)) for header in record.headers
    ]


def test_no_more_is_kept_than_can_be_shown(apps: Any, partition: TopicPartition) -> None:
    """Of a large value and of many headers only the first are kept, and how much there is."""
    headers = [(f"h{number}", b"x") for number in range(MOST_HEADERS + 7)]
    value = os.urandom(900_000)
    record = eleventh(apps, partition, value, headers=headers)

    assert record.value == (value[:FIELD_BYTES], 900_000)
    assert (MOST_HEADERS, 7) == (len(record.headers), record.headers_left_out)


@pytest.mark.parametrize("counts", [{"before": -1}, {"before": 51}, {"after": -1}, {"after": 51}])
def test_counts_out_of_range_are_refused(cluster: Cluster, counts: dict[str, int]) -> None:
    """They were read as fewer records than were asked for, or failed without a word about it."""
    ((name, count),) = counts.items()
    with pytest.raises(UsageError, match=f"{name} is {count}") as caught:
        read_records_around(cluster, {TopicPartition("orders", 0): 1}, **counts)

    assert "use 0 to 50 records" == caught.value.hint


def test_reading_ends_after_some_megabytes(
    apps: Any, partition: TopicPartition, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read is shown, and the partition says that it was not read further."""
    monkeypatch.setattr(records_around, "MOST_BYTES", 3)
    found = read_records_around(apps.cluster, {partition: 0}, after=10)

    assert [0, 1, 2, 3] == [record.offset for record in found.records]
    assert ["stopped after reading"] == [problem.why[:21] for problem in found.problems]


def test_markers_are_skipped_and_open_transactions_are_not(apps: Any) -> None:
    """Records of aborted and open transactions, and their times; the markers are no records."""
    partition = TopicPartition(apps.create_topic(apps.name("transactions")), 0)
    producer = apps.transaction(apps.name("around-transaction"))
    try:
        for value in (b"aborted", b"open"):
            producer.produce(partition.topic, value, timestamp=int(NOON.timestamp() * 1000))
            producer.flush()
            if value == b"aborted":
                producer.abort_transaction()
                producer.begin_transaction()
        found = read_records_around(apps.cluster, {partition: 1})
        first = read_first_records(apps.cluster, [(partition, 2)])
    finally:
        producer.abort_transaction()

    assert ((), {(partition, 2): FirstRecord(True, NOON, 2)}) == (found.problems, first)
    assert [(0, b"aborted"), (2, b"open")] == [(r.offset, r.value.start) for r in found.records]


def test_ends_at_markers_that_end_the_log(apps: Any) -> None:
    """If only a marker follows, the reader does not wait for a record."""
    partition = TopicPartition(apps.create_topic(apps.name("committed")), 0)
    producer = apps.transaction(apps.name("ended-transaction"))
    producer.produce(partition.topic, b"done")
    producer.commit_transaction()
    found = read_records_around(apps.cluster, {partition: 1})

    assert ([0], ()) == ([record.offset for record in found.records], found.problems)


def test_a_cut_log_begins_where_it_begins(apps: Any, partition: TopicPartition) -> None:
    """A committed offset before the log start leads to the first record that is left, and time."""
    apps.delete_records(*partition, 6)
    lost, first = (partition, 2), (partition, 6)
    found = read_first_records(apps.cluster, [lost, first])

    assert [6, 7, 8] == offsets(apps.cluster, partition, 2)
    assert found[lost] == found[first]


def test_unreadable_positions_are_problems_of_their_own(
    apps: Any, partition: TopicPartition
) -> None:
    """An offset beyond the log end and a missing topic do not affect the others."""
    missing = TopicPartition("no-such-topic", 0)
    beyond = TopicPartition(partition.topic, 1)
    found = read_records_around(apps.cluster, {missing: 0, beyond: 11, partition: 9})

    assert [7, 8, 9] == [record.offset for record in found.records]
    why = {(problem.topic, problem.partition): problem.why for problem in found.problems}
    assert "the topic does not exist" == why[missing]
    assert "offset 11 is past the log end offset 10" == why[beyond]


def test_partitions_beyond_the_limit(apps: Any) -> None:
    """They are named and not read."""
    topic = apps.create_topic(apps.name("many"), partitions=MOST_POSITIONS + 3, records=1)
    wanted = {TopicPartition(topic, number): 0 for number in range(MOST_POSITIONS + 3)}
    found = read_records_around(apps.cluster, wanted)

    assert [*range(MOST_POSITIONS)] == [record.partition.partition for record in found.records]
    assert [20, 21, 22] == [problem.partition for problem in found.problems]


def test_partition_without_a_leader(lost_broker: Any) -> None:
    """The other partitions have records and times all the same."""
    here, gone = lost_broker.here, lost_broker.gone
    found = read_records_around(lost_broker.cluster, {gone: 0, here: 0}, after=1)

    assert [here] == [record.partition for record in found.records]
    assert [gone] == [(problem.topic, problem.partition) for problem in found.problems]
    assert [(here, 0)] == [*read_first_records(lost_broker.cluster, [(gone, 0), (here, 0)])]


MINUTE = timedelta(minutes=1)
RECORDS = 6


@pytest.fixture
def timed(apps: Any) -> str:
    """Return a topic with a record a minute from noon on in p0, from one on in p1; p2 is empty."""
    topic: str = apps.create_topic(apps.name("when"), partitions=3)
    for number in range(2):
        times = [NOON + timedelta(hours=number, minutes=minute) for minute in range(RECORDS)]
        produce(apps.address, TopicPartition(topic, number), times)
    return topic


def test_time_of_the_record_at_an_offset(bare_cluster: Cluster, timed: str) -> None:
    """Each position has the time of its record; those beyond the number asked for are missing."""
    first, second = TopicPartition(timed, 0), TopicPartition(timed, 1)
    wanted = [(first, 4), (first, 0), (second, 1), (first, 4), (first, 5)]

    assert read_first_records(bare_cluster, wanted) == {
        (first, 0): (True, NOON, 0),
        (first, 4): (True, NOON + 4 * MINUTE, 4),
        (first, 5): (True, NOON + 5 * MINUTE, 5),
        (second, 1): (True, NOON + timedelta(hours=1) + MINUTE, 1),
    }
    assert {(first, 4), (first, 0)} == read_first_records(bare_cluster, wanted, most=2).keys()


def test_where_there_is_no_record(bare_cluster: Cluster, timed: str) -> None:
    """The log end, what lies past it and an empty log say so; what does not exist is missing."""
    # Each of them says so: one that was waited for would be waited for until tomorrow.
    cluster = replace(bare_cluster, timeout_s=86_400)
    first = TopicPartition(timed, 0)
    nothing = [
        (first, RECORDS),
        (first, RECORDS + 3),
        (TopicPartition(timed, 2), 0),
    ]
    missing = [(TopicPartition(timed, 7), 0), (TopicPartition("no-such-topic", 0), 0)]
    found = read_first_records(cluster, [*nothing, *missing, (first, 1)])

    none = FirstRecord(found=False)
    assert found == {**dict.fromkeys(nothing, none), (first, 1): (True, NOON + MINUTE, 1)}


def test_large_records_in_many_partitions(apps: Any) -> None:
    """Every partition has its turn, though its first record alone is more than is asked for."""
    topic = apps.create_topic(apps.name("large"), partitions=20)
    producer = Producer({"bootstrap.servers": apps.address})
    for partition in range(20):
        producer.produce(
            topic, b"x" * 200_000, partition=partition, timestamp=1_000 * partition + 1
        )
    assert producer.flush() == 0
    places = [(TopicPartition(topic, number), 0) for number in range(20)]
    found = read_first_records(apps.cluster, places)

    assert [*range(20)] == [round(found[place].at.timestamp()) for place in places]
