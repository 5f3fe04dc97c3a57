"""Time look-ups against the truth: the records themselves, on a real broker."""

from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from clients import Producer
from confluent_kafka.admin import NewTopic
from kafka import KafkaProducer
from timed_records import produce

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.logs.log_offsets import read_log_offsets, read_offsets_at
from toolkit.kafka_io.logs.offset_time_lookup import (
    LogTimes,
    TimeLookup,
    points_around,
    read_log_times,
)
from toolkit.kafka_io.logs.record_times import read_first_records
from toolkit.model import Cluster, LogOffsets, Problem, TimedOffset, TopicPartition, Unread
from toolkit.model.records import FirstRecord
from toolkit.planning.lag.time_lag import (
    NO_TIMESTAMP,
    NOT_READ,
    NOTHING_TO_READ,
    earlier_ends,
    with_time_lag,
)

SECOND = timedelta(seconds=1)


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def create(apps: Any, **config: str) -> TopicPartition:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    name = apps.name("timed")
    apps.admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result()
    return TopicPartition(name, 0)


def new_partition(apps: Any, *times: datetime) -> TopicPartition:
    partition = TopicPartition(apps.create_topic(apps.name("timed")), 0)
    produce(apps.address, partition, times)
    return partition


def read(
    cluster: Cluster, wanted: dict[TopicPartition, list[int]], *, now: datetime, **more: Any
) -> tuple[LogTimes, dict[TopicPartition, LogOffsets]]:
    with Connection(cluster) as connection:
        logs, _ = read_log_offsets(connection, wanted)
        return read_log_times(connection, wanted, logs, TimeLookup(now, **more)), logs


def rows(
    times: LogTimes,
    logs: dict[TopicPartition, LogOffsets],
    wanted: dict[TopicPartition, list[int]],
    now: datetime,
) -> pd.DataFrame:
    """Return the lag in time of each commit, from the few points around it."""
    cells = []
    for partition, offsets in wanted.items():
        log = logs[partition]
        near = points_around(times.points[partition], [max(o, log.log_start or 0) for o in offsets])
        for offset in offsets:
            points = near[max(offset, log.log_start or 0)]
            cells.append((*partition, offset, log.log_start, log.log_end, points))
    columns = ["topic", "partition", "committed", "log_start", "log_end", "points"]
    table = pd.DataFrame(cells, columns=columns)
    table = table.astype(dict.fromkeys(("committed", "log_start", "log_end"), "Int64"))
    lag = table["log_end"] - table[["committed", "log_start"]].max(axis="columns")
    return with_time_lag(table.assign(lag=lag.clip(lower=0).astype("Int64")), now=now)


def test_every_commit_is_within_its_bound_of_the_record_there(apps: Any, now: datetime) -> None:
    """Several groups on several partitions: each lag in time is true within its bound."""
    topic = apps.create_topic(apps.name("timed"), partitions=3)
    even, bursts, recent = (TopicPartition(topic, number) for number in range(3))
    produce(apps.address, even, [now - timedelta(minutes=5) * n for n in range(300, 0, -1)])
    produce(apps.address, bursts, [now - timedelta(hours=9) * (20 - n // 10) for n in range(200)])
    produce(apps.address, recent, [now - 0.1 * SECOND * n for n in range(300, 0, -1)])
    wanted = {
        even: [0, 1, 17, 150, 299, 300],
        bursts: [0, 5, 10, 99, 100, 101, 185, 199],
        recent: [0, 150, 290, 299],
    }
    times, logs = read(apps.cluster, wanted, now=now)
    everything = [(partition, o) for partition, offsets in wanted.items() for o in offsets]
    truth = read_first_records(apps.cluster, everything)

    assert times.problems == []
    assert times.rounds <= 20
    assert times.requests <= 80
    for row in rows(times, logs, wanted, now).itertuples():
        place = TopicPartition(row.topic, row.partition), row.committed
        at = truth[place].at
        if row.lag == 0:
            assert row.time_lag_method == NOTHING_TO_READ
        elif pd.isna(row.time_lag_s):  # the last burst: is it a record, or what ends one?
            assert place in times.unsettled
        else:
            off = abs(row.time_lag_s - (now - at).total_seconds())
            assert off <= row.time_lag_error_s
            if place not in times.unsettled:
                assert row.time_lag_error_s <= max(2, 0.1 * row.time_lag_s)
    settled = {place for place in everything if place not in times.unsettled}
    assert settled > {(even, o) for o in (0, 1, 17, 150)} | {(recent, o) for o in wanted[recent]}
    assert (even, 299) in times.unsettled  # the last record: it might be a marker


def test_a_truncated_log(apps: Any, now: datetime) -> None:
    """A commit before the log start counts there; an empty log has nothing to look up."""
    topic = apps.create_topic(apps.name("cut"), partitions=2)
    cut, empty = (TopicPartition(topic, number) for number in range(2))
    produce(apps.address, cut, [now - timedelta(hours=10 - n) for n in range(10)])
    apps.delete_records(topic, 0, 4)
    wanted = {cut: [0, 4, 9], empty: [0]}
    times, logs = read(apps.cluster, wanted, now=now, at=(now,))
    lags = rows(times, logs, {cut: [0, 4, 9]}, now)

    # The last place could be a marker, and so could all of so few.
    assert [6 * 3600, 6 * 3600, pd.NA] == lags["time_lag_s"].tolist()
    assert [6 * 3600, 6 * 3600, pd.NA] == lags["time_lag_error_s"].tolist()
    assert [(cut, 9), (cut, 4)] == times.unsettled
    assert [3600, 6 * 3600] == [
        (now - first.at).total_seconds()
        for first in read_first_records(apps.cluster, times.unsettled).values()
        if first.at
    ]
    assert [(now, None, None)] == times.points[empty]


def test_compaction_leaves_gaps(apps: Any, now: datetime) -> None:
    """Where the record at a commit was compacted away, reading the next one dates it."""
    config = {"cleanup_policy": "compact", "segment_ms": "100", "max_compaction_lag_ms": "100"}
    dirty = {"min_cleanable_dirty_ratio": "0.001"}
    partition = create(apps, **config, **dirty)
    producer = Producer({"bootstrap.servers": apps.address, "linger.ms": 0})

    def put(key: str, minutes: int) -> None:
        at = now - timedelta(minutes=minutes)
        producer.produce(partition.topic, b"", key=key, timestamp=round(at.timestamp() * 1000))
        assert producer.flush() == 0

    for number in range(60):
        put(f"key-{number % 5}", 600 - number)
    put("later", 1)  # a new segment lets the ones before it be compacted
    wanted = {partition: [2, 30, 54, 57]}
    places = [(partition, offset) for offset in wanted[partition]]
    # Of each key the last record is left, of which the first is at offset 55.
    kept = [now - timedelta(minutes=600 - offset) for offset in (55, 55, 55, 57)]
    apps.eventually(
        lambda: kept == [r.at for r in read_first_records(apps.cluster, places).values()]
    )
    times, logs = read(apps.cluster, wanted, now=now)
    truth = read_first_records(apps.cluster, places)

    # Before the first timestamp there may be records without one: only reading tells.
    assert {*places[:3]} <= {*times.unsettled}
    table = rows(times, logs, wanted, now)
    assert [NOT_READ] * 3 == table["time_lag_why"].tolist()[:3]
    read_too = with_time_lag(
        table.assign(record_found=True, record_at=[truth[place].at for place in places]), now=now
    )
    for row, at in zip(read_too.itertuples(), kept, strict=True):
        assert abs(row.time_lag_s - (now - at).total_seconds()) <= row.time_lag_error_s


def test_times_that_the_broker_sets(apps: Any, now: datetime) -> None:
    """Records of one batch with log append time all have that time."""
    partition = create(apps, message_timestamp_type="LogAppendTime")
    for _ in range(2):
        produce(apps.address, partition, [now - timedelta(days=300)] * 50, **{"linger.ms": 100})
    wanted = {partition: [0, 20, 70]}
    later = now + timedelta(hours=1)
    times, logs = read(apps.cluster, wanted, now=later)
    ((_, truth, _),) = read_first_records(apps.cluster, [(partition, 20)]).values()
    (row,) = rows(times, logs, {partition: [20]}, later).itertuples()

    assert abs(row.time_lag_s - (later - truth).total_seconds()) <= row.time_lag_error_s <= 200


def test_where_the_log_ended_at_an_instant(apps: Any, now: datetime) -> None:
    """All partitions are asked for an instant, also those of which nothing else is wanted."""
    topic = apps.create_topic(apps.name("instants"), partitions=3)
    busy, idle, empty = (TopicPartition(topic, number) for number in range(3))
    produce(apps.address, busy, [now - timedelta(minutes=10 - n) for n in range(10)])
    produce(apps.address, idle, [now - timedelta(days=3)])
    at = now - timedelta(minutes=4, milliseconds=7)
    times, logs = read(apps.cluster, {busy: [], idle: [], empty: []}, now=now, at=(at,))
    ends = [
        earlier_ends(times.points[partition], logs[partition].log_end, [at])
        for partition in (busy, idle, empty)
    ]

    assert [{at: 6}, {at: 1}, {at: 0}] == ends
    assert (1, 1) == (times.rounds, times.requests)


def test_partitions_that_cannot_be_asked(lost_broker: Any, now: datetime) -> None:
    """A partition without a leader is a problem of its own; the others are answered."""
    here, gone, logs = lost_broker.here, lost_broker.gone, lost_broker.before.logs
    with Connection(lost_broker.cluster) as connection:
        times = read_log_times(connection, {here: [1], gone: [1]}, logs, TimeLookup(now))

    assert [Problem(Unread.RECORD_TIMES, "it has no leader", None, *gone)] == times.problems
    assert times.points[gone] == []
    assert times.points[here]


def test_rounds_are_bounded(apps: Any, now: datetime) -> None:
    """No more rounds are made than allowed, and what is left open is reported."""
    partition = new_partition(apps, *[now - timedelta(seconds=n**3) for n in range(99, 0, -1)])
    wanted = {partition: [20, 60, 90]}
    times, logs = read(apps.cluster, wanted, now=now, rounds=2)
    told = rows(times, logs, wanted, now)

    assert 2 == times.rounds
    assert times.unsettled
    assert told["time_lag_error_s"].max() > 60


@pytest.mark.parametrize("stamps", [(-1, -1), (0, 0), (-1, 0, None)])
def test_records_without_a_timestamp(
    apps: Any, now: datetime, stamps: tuple[int | None, ...]
) -> None:
    """Before the first record with a timestamp, time lag is null, and the row has the reason."""
    # A broker deletes a segment whose newest timestamp is 0.
    partition = create(apps, retention_ms="-1")
    with closing(KafkaProducer(bootstrap_servers=apps.address)) as producer:
        for at in stamps:
            producer.send(partition.topic, b"", timestamp_ms=at).get(timeout=10)
    wanted = {partition: [0]}
    times, logs = read(apps.cluster, wanted, now=now)
    first = read_first_records(apps.cluster, times.unsettled)
    table = rows(times, logs, wanted, now).assign(record_found=True, record_at=None)
    (told,) = with_time_lag(table, now=now).itertuples()

    assert {(partition, 0): FirstRecord(found=True, offset=0)} == first
    assert len(stamps) == told.lag
    assert (None, NO_TIMESTAMP) == (told.time_lag_method, told.time_lag_why)


NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def timed(apps: Any) -> Any:
    """Return a topic with a record a minute from noon on, the fourth of them late, and p1 empty."""
    topic = apps.create_topic(apps.name("timed"), partitions=2)
    times = [NOON, NOON + MINUTE, NOON + 2 * MINUTE, NOON, NOON + 4 * MINUTE]
    produce(apps.address, TopicPartition(topic, 0), times)
    return topic


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (datetime(1900, 1, 1, tzinfo=UTC), TimedOffset(0, NOON)),
        (NOON, TimedOffset(0, NOON)),
        (NOON + timedelta(microseconds=1), TimedOffset(1, NOON + MINUTE)),
        (NOON + MINUTE, TimedOffset(1, NOON + MINUTE)),
        (NOON + 3 * MINUTE, TimedOffset(4, NOON + 4 * MINUTE)),  # not the late one at offset 3
        (NOON + 5 * MINUTE, None),
    ],
)
def test_first_record_at_or_after(
    apps: Any, timed: str, at: datetime, expected: TimedOffset | None
) -> None:
    """The first record at or after the instant is found; what does not exist costs only itself."""
    partitions = [TopicPartition(timed, 0), TopicPartition(timed, 1)]
    gone = [TopicPartition(timed, 7), TopicPartition("no-such-topic", 0)]
    with Connection(apps.cluster) as connection:
        found, problems = read_offsets_at(connection, dict.fromkeys([*partitions, *gone], at))

    assert found == {partitions[0]: expected, partitions[1]: None}
    assert set(problems) == {
        Problem(Unread.OFFSETS_BY_TIME, "the partition does not exist", None, *gone[0]),
        Problem(Unread.OFFSETS_BY_TIME, "the topic does not exist", None, *gone[1]),
    }


def test_more_partitions_than_a_request_holds(apps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions that take several requests are all answered, each with its own record."""
    monkeypatch.setattr("toolkit.kafka_io.client.leaders.PARTITIONS_PER_REQUEST", 2)
    topic = apps.create_topic(apps.name("wide"), partitions=5)
    expected = {}
    for number in range(5):
        at = NOON + number * MINUTE
        produce(apps.address, TopicPartition(topic, number), [at])
        expected[TopicPartition(topic, number)] = TimedOffset(0, at)
    with Connection(apps.cluster) as connection:
        found, problems = read_offsets_at(connection, dict.fromkeys(expected, NOON))

    assert problems == []
    assert found == expected
