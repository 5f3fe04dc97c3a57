import struct
from contextlib import closing
from typing import Any, NamedTuple

import pytest
from applications import Applications
from clients import Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import NewTopic
from hypothesis import given
from hypothesis import strategies as st
from kafka.record import MemoryRecords
from kafka.record.memory_records import MemoryRecordsBuilder
from offsets_records import AT_MS

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.logs.bulk_records import committed_records
from toolkit.kafka_io.logs.fetch import (
    CorruptBatch,
    fetch_batches,
    split_batches,
)
from toolkit.kafka_io.logs.few_records import committed_one_by_one
from toolkit.kafka_io.logs.log_offsets import READ_COMMITTED, READ_UNCOMMITTED
from toolkit.kafka_io.logs.record_batches import (
    FEW,
    LOG_APPEND_TIME,
    Records,
    batches_of,
    records_of,
)
from toolkit.model import TopicPartition

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
GZIP = 1
LAST = b"the end"
LARGE = 8192  # from here on the length of a record takes three bytes


class Made(NamedTuple):
    """A record, and how far it is from the one before."""

    step: int
    late_ms: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


parts = st.none() | st.binary(max_size=70) | st.sampled_from([b"k" * 63, b"v" * LARGE])
records = st.builds(
    Made,
    st.sampled_from([1, 1, 1, 7, 9000]),
    st.integers(-3, 2**40),
    parts,
    parts,
    st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=5)), max_size=2),
)


def batch(made: list[Made], *, base: int = 0, form: int = 2, codec: int = 0) -> bytes:
    """Encode a batch with the client's own writer; brokers set the base offset later."""
    builder = MemoryRecordsBuilder(form, codec, 2**24)
    for one in made:
        if form == 2 and builder.next_offset():
            builder.skip(one.step - 1)  # as compaction leaves it
        headers = one.headers if form == 2 else []
        assert builder.append(AT_MS + one.late_ms, one.key, one.value, headers)
    builder.close()
    data = bytes(builder.buffer())
    return struct.pack(">q", base) + data[8:] if form == 2 else data


def as_rows(found: Records) -> Any:
    columns = found.offsets.tolist(), found.written_ms.tolist()
    return [*zip(*columns, found.keys.to_pylist(), found.values.to_pylist(), strict=True)]


def one_by_one(data: bytes) -> Any:
    """Return the same as the client's own decoder reads it."""
    return [
        (record.offset, record.timestamp, record.key, record.value)
        for batch in MemoryRecords(data)
        for record in batch
    ]


@given(
    st.lists(st.tuples(st.lists(records, min_size=1, max_size=9), st.sampled_from([0, 0, GZIP]))),
    st.sampled_from([1, FEW]),
    st.integers(0, 100),
)
def test_all_at_once_as_one_by_one(made: Any, times: int, cut: int) -> None:
    """Batches decoded together hold what each does alone; one that is cut off is left out."""
    whole = [batch(each, base=2**33 * n, codec=codec) for n, (each, codec) in enumerate(made)]
    data = b"".join(whole * times)
    rest = whole[0][:cut] if whole and cut < len(whole[0]) else b""

    assert as_rows(records_of(0, batches_of(split_batches(data + rest)))) == one_by_one(data)


@given(st.lists(st.tuples(st.lists(records, min_size=1, max_size=3), st.integers(0, 2))))
def test_formats_before_kafka_0_11(made: Any) -> None:
    """Old messages lie between batches of today's format, and come in the order of the log."""
    whole = [batch(each, base=n, form=form) for n, (each, form) in enumerate(made)]

    found = as_rows(records_of(0, batches_of(split_batches(b"".join(whole)))))
    assert found == [
        (offset, -1 if at is None else at, key, value)
        for offset, at, key, value in one_by_one(b"".join(whole))
    ]


@given(st.data())
def test_corrupt_batches_are_refused(data: Any) -> None:
    """Damaged bytes are refused or give some records, and never anything else."""
    made = data.draw(st.lists(st.lists(records, min_size=1, max_size=4), min_size=1, max_size=3))
    codec = data.draw(st.sampled_from([0, GZIP]))
    damaged = bytearray(b"".join(batch(each, codec=codec) for each in made))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = records_of(0, batches_of(split_batches(bytes(damaged))))
    except CorruptBatch:
        return
    assert len(found.keys) == len(found.values) == len(found.offsets) == len(found.written_ms)
    found.keys.validate(full=True)
    found.values.validate(full=True)


@pytest.mark.parametrize(
    ("at", "data"),
    [
        (8, struct.pack(">i", 3)),  # its length
        (21, struct.pack(">h", 4)),  # not compressed with zstd
        (21, struct.pack(">h", 7)),  # no codec
        (57, struct.pack(">i", 2)),  # the number of records
        (57, struct.pack(">i", -1)),
        (61, b"\x7f"),  # a record of negative length
        (61, b"\xff\xff\x7f"),  # a record longer than its batch
        (65, b"\x03"),  # a key of length -2
        (65, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
    ],
)
def test_a_wrong_length_is_refused(at: int, data: bytes) -> None:
    """Lengths, numbers and codecs that cannot be are an error."""
    damaged = bytearray(batch([Made(1, 0, b"key", b"value" * 9, [])]))
    damaged[at : at + len(data)] = data

    with pytest.raises(CorruptBatch):
        records_of(0, batches_of(split_batches(bytes(damaged))))


def test_time_that_the_broker_set() -> None:
    """Where the broker sets the time of a batch, its records all have that one."""
    data = bytearray(batch([Made(1, 0, b"a", None, []), Made(1, 5, b"b", None, [])]))
    data[22] |= LOG_APPEND_TIME

    found = records_of(0, batches_of(split_batches(bytes(data))))
    assert found.written_ms.tolist() == [AT_MS + 5] * 2


def log_of_everything(apps: Applications) -> TopicPartition:
    """Return a partition with batches of every codec and transactions that ended either way."""
    topic = apps.name("everything")
    config = {"message.timestamp.type": "CreateTime"}
    apps.admin.create_topics([NewTopic(topic, 1, 1, config=config)])[topic].result()
    for codec in CODECS:
        own = {"bootstrap.servers": apps.address, "compression.type": codec, "linger.ms": 50}
        producer = Producer(own)
        for number in range(300):
            key = None if number % 50 == 7 else b"key-%d" % (number % 9)
            value = None if number % 40 == 3 else codec.encode() * (number % 30)
            headers = [("of", b"header")] if number % 60 == 1 else []
            at_ms = AT_MS + number * 977 % 4001
            producer.produce(topic, value, key, 0, timestamp=at_ms, headers=headers)
        producer.produce(topic, b"large" * LARGE, b"key", 0)
        assert producer.flush(30) == 0
    producer = apps.transaction(apps.name("everything"))
    for turn in range(6):
        if turn:
            producer.begin_transaction()
        for number in range(turn + 1):
            producer.produce(topic, b"%d-%d" % (turn, number), b"in a transaction", 0)
        assert producer.flush(30) == 0
        apps.produce(topic, 0, 2, key="beside it")
        (producer.abort_transaction if turn % 3 else producer.commit_transaction)()
    apps.produce(topic, 0, 1, key=LAST.decode())
    return TopicPartition(topic, 0)


def consumed(apps: Applications, place: TopicPartition, span: range, isolation: str) -> Any:
    """Return the records with a key as librdkafka reads them."""
    settings = {"isolation.level": isolation, "enable.partition.eof": False}
    with closing(apps.consumer(apps.name("reader"), **settings)) as consumer:
        consumer.assign([Position(*place, span.start)])
        found: list[Any] = []
        # What ends the log may be the marker of a transaction, which nobody is given.
        while not found or found[-1].key() != LAST:
            found += consumer.consume(1000, 0.2)
    assert not any(message.error() for message in found)
    return [
        (message.offset(), message.timestamp()[1], message.key(), message.value())
        for message in found
        if message.key() is not None
    ]


def fetched(apps: Applications, place: TopicPartition, span: range, isolation: int) -> Any:
    rows = []
    with Connection(apps.cluster) as connection:
        for one in fetch_batches(connection, place, span, isolation):
            found = as_rows(committed_records(apps.cluster, one, span))
            alone = committed_one_by_one(one, span)
            assert found == [(at, ms, key, value) for key, value, at, ms in alone]
            rows += found
    return rows


def test_real_log_as_librdkafka_reads_it(apps: Applications) -> None:
    """Codecs, tombstones, headers and transactions read as by librdkafka, also one by one."""
    place = log_of_everything(apps)
    ends = apps.consumer(apps.name("ends")).get_watermark_offsets(Position(*place))
    for isolation, name in (
        (READ_COMMITTED, "read_committed"),
        (READ_UNCOMMITTED, "read_uncommitted"),
    ):
        for start in (0, 3, 305, 700, ends[1] - 9):
            span = range(start, ends[1])
            assert fetched(apps, place, span, isolation) == consumed(apps, place, span, name)
    middle = range(10, 20)
    assert fetched(apps, place, middle, READ_COMMITTED) == [
        row for row in consumed(apps, place, middle, "read_committed") if row[0] in middle
    ]
