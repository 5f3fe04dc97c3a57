"""Time look-ups against the truth: the records themselves, on a real broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.log_offsets import read_log_offsets
from toolkit.kafka_io.log_times import LogTimes, LookUp, points_around, read_log_times
from toolkit.kafka_io.record_times import read_first_records
from toolkit.model import Cluster, LogOffsets, Problem, TopicPartition
from toolkit.planning.time_lag import (
    BY_LOOK_UP,
    BY_RECORD,
    NOTHING_TO_READ,
    earlier_ends,
    with_time_lag,
)
from toolkit.sandbox.broker import Broker

NOW = datetime.now(UTC).replace(microsecond=0)
SECOND = timedelta(seconds=1)


def produce(apps: Any, partition: TopicPartition, times: list[datetime], **settings: Any) -> None:
    """Add one record for each time."""
    producer = Producer({"bootstrap.servers": apps.address, **settings})
    refused: list[Any] = []
    for at in times:
        producer.produce(
            partition.topic,
            b"",
            key=str(at),
            partition=partition.partition,
            timestamp=round(at.timestamp() * 1000),
            on_delivery=lambda error, _: refused.append(error) if error else None,
        )
    assert producer.flush(30) == 0
    assert refused == []


def create(apps: Any, name: str, **config: str) -> str:
    """Create a topic of one partition with settings of its own, and return its name."""
    settings = {key.replace("_", "."): value for key, value in config.items()}
    apps.admin.create_topics([NewTopic(name, 1, 1, config=settings)])[name].result(30)
    return name


def read(
    cluster: Cluster, wanted: dict[TopicPartition, list[int]], **more: Any
) -> tuple[LogTimes, dict[TopicPartition, LogOffsets]]:
    """Look up all that is asked for."""
    with Connection(cluster) as connection:
        logs, _ = read_log_offsets(connection, wanted)
        return read_log_times(connection, wanted, logs, LookUp(**{"now": NOW, **more})), logs


def rows(
    times: LogTimes,
    logs: dict[TopicPartition, LogOffsets],
    wanted: dict[TopicPartition, list[int]],
    now: datetime = NOW,
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


def test_every_commit_is_within_its_bound_of_the_record_there(apps: Any) -> None:
    """Several groups on several partitions: each lag in time is true within its bound."""
    topic = apps.create_topic(apps.name("timed"), partitions=3)
    even, bursts, recent = (TopicPartition(topic, number) for number in range(3))
    produce(apps, even, [NOW - timedelta(minutes=5) * n for n in range(300, 0, -1)])
    produce(apps, bursts, [NOW - timedelta(hours=9) * (20 - n // 10) for n in range(200)])
    produce(apps, recent, [NOW - 0.1 * SECOND * n for n in range(300, 0, -1)])
    wanted = {
        even: [0, 1, 17, 150, 299, 300],
        bursts: [0, 5, 10, 99, 100, 101, 185, 199],
        recent: [0, 150, 290, 299],
    }
    times, logs = read(apps.cluster, wanted)
    everything = [(partition, o) for partition, offsets in wanted.items() for o in offsets]
    truth = read_first_records(apps.cluster, everything)

    assert times.problems == []
    assert times.rounds <= 20
    assert times.requests <= 80
    for row in rows(times, logs, wanted).itertuples():
        place = TopicPartition(row.topic, row.partition), row.committed
        at = truth[place]
        if row.lag == 0:
            assert row.time_lag_method == NOTHING_TO_READ
        elif pd.isna(row.time_lag_s):  # the last burst: is it a record, or what ends one?
            assert place in times.unsettled
        else:
            assert at is not None
            off = abs(row.time_lag_s - (NOW - at).total_seconds())
            assert off <= row.time_lag_bound_s
            if place not in times.unsettled:
                assert row.time_lag_bound_s <= max(2, 0.1 * row.time_lag_s)
    settled = {place for place in everything if place not in times.unsettled}
    assert settled > {(even, o) for o in (0, 1, 17, 150)} | {(recent, o) for o in wanted[recent]}
    assert (even, 299) in times.unsettled  # the last record: it might be a marker


def test_reading_settles_the_rest(apps: Any) -> None:
    """What look-ups leave open, one record each tells exactly; what they settled is not read."""
    partition = TopicPartition(apps.create_topic(apps.name("rest")), 0)
    produce(apps, partition, [NOW - timedelta(hours=9) * (20 - n // 10) for n in range(200)])
    wanted = {partition: [5, 151, 191]}
    times, logs = read(apps.cluster, wanted)
    truth = read_first_records(apps.cluster, times.unsettled)
    table = rows(times, logs, wanted)
    found = [truth.get((partition, offset)) for offset in wanted[partition]]
    table["record_found"] = pd.array([True if at else None for at in found], dtype="boolean")
    table["record_at"] = pd.to_datetime(found, utc=True)
    told = with_time_lag(table, now=NOW)

    assert [(partition, 191), (partition, 151)] == times.unsettled
    assert [5, 1] == (told["time_lag_s"] / 3600 / 9).tolist()[1:]
    assert [BY_LOOK_UP, BY_RECORD, BY_RECORD] == told["time_lag_method"].tolist()
    assert [0, 0] == told["time_lag_bound_s"].tolist()[1:]


def test_what_is_left_of_a_log(apps: Any) -> None:
    """A commit before the log start counts there; an empty log has nothing to look up."""
    topic = apps.create_topic(apps.name("cut"), partitions=2)
    cut, empty = (TopicPartition(topic, number) for number in range(2))
    produce(apps, cut, [NOW - timedelta(hours=10 - n) for n in range(10)])
    apps.delete_records(topic, 0, 4)
    wanted = {cut: [0, 4, 9], empty: [0]}
    times, logs = read(apps.cluster, wanted, at=(NOW,))
    lags = rows(times, logs, {cut: [0, 4, 9]})

    # The last place could be a marker, and so could all of so few.
    assert [6 * 3600, 6 * 3600, pd.NA] == lags["time_lag_s"].tolist()
    assert [6 * 3600, 6 * 3600, pd.NA] == lags["time_lag_bound_s"].tolist()
    assert [(cut, 9), (cut, 4)] == times.unsettled
    assert [3600, 6 * 3600] == [
        (NOW - at).total_seconds()
        for at in read_first_records(apps.cluster, times.unsettled).values()
        if at
    ]
    assert [(NOW, None, None)] == times.points[empty]


def test_late_and_future_records(apps: Any) -> None:
    """Records dated back wait no longer than those before them; far in the future is no time."""
    late = TopicPartition(apps.create_topic(apps.name("late")), 0)
    far_ahead = {"message_timestamp_after_max_ms": str(2**62)}  # brokers refuse an hour, else
    ahead = TopicPartition(create(apps, apps.name("ahead"), **far_ahead), 0)
    in_order = [NOW - timedelta(minutes=100 - n) for n in range(100)]
    back = [at - timedelta(days=3) if n == 50 else at for n, at in enumerate(in_order)]
    produce(apps, late, back)
    far = [at + timedelta(days=900) if n == 50 else at for n, at in enumerate(in_order)]
    produce(apps, ahead, far)
    wanted = {late: [40, 50, 60], ahead: [40, 50, 60]}
    times, logs = read(apps.cluster, wanted)
    told = rows(times, logs, wanted)

    assert [None, None] == told["time_lag_method"].tolist()[4:]
    assert {(ahead, 50), (ahead, 60)} == set(times.unsettled)
    for row, minutes in zip(told.itertuples(), [60, 50, 40, 60], strict=False):
        assert abs(row.time_lag_s - minutes * 60) <= row.time_lag_bound_s <= 600


def test_the_marker_of_a_transaction_is_nothing_to_wait_for(apps: Any) -> None:
    """After the last record of a transaction only its marker follows: reading there tells so."""
    partition = TopicPartition(apps.create_topic(apps.name("marked")), 0)
    producer = apps.transaction(apps.name("transaction"))
    for minutes in (50, 40, 30):
        at = NOW - timedelta(minutes=minutes)
        producer.produce(partition.topic, b"", timestamp=round(at.timestamp() * 1000))
    producer.commit_transaction(30)
    wanted = {partition: [1, 3]}

    def is_marked() -> bool:
        with Connection(apps.cluster) as connection:
            return read_log_offsets(connection, [partition])[0][partition].last_stable == 4

    apps.eventually(is_marked)
    later = NOW + timedelta(hours=1)
    times, logs = read(apps.cluster, wanted, now=later)
    lags = rows(times, logs, wanted, later)

    assert abs(lags["time_lag_s"][0] - 6000) <= lags["time_lag_bound_s"][0]
    assert lags["time_lag_method"][1] is None
    assert [(partition, 3), (partition, 1)] == times.unsettled
    assert read_first_records(apps.cluster, times.unsettled) == {
        (partition, 3): None,
        (partition, 1): NOW - timedelta(minutes=40),
    }


def test_compaction_leaves_gaps(apps: Any) -> None:
    """Where the record at a commit was compacted away, that of the next one is within the bound."""
    config = {"cleanup_policy": "compact", "segment_ms": "100", "max_compaction_lag_ms": "100"}
    dirty = {"min_cleanable_dirty_ratio": "0.001"}
    topic = create(apps, apps.name("compacted"), **config, **dirty)
    partition = TopicPartition(topic, 0)
    producer = Producer({"bootstrap.servers": apps.address, "linger.ms": 0})

    def put(key: str, minutes: int) -> None:
        at = NOW - timedelta(minutes=minutes)
        producer.produce(topic, b"", key=key, timestamp=round(at.timestamp() * 1000))
        assert producer.flush(30) == 0

    for number in range(60):
        put(f"key-{number % 5}", 600 - number)

    def is_compacted() -> bool:
        put("later", 1)  # a new segment lets the one before it be compacted
        kept = read_first_records(apps.cluster, [(partition, 2)])[partition, 2]
        return bool(kept and kept > NOW - timedelta(minutes=590))

    apps.eventually(is_compacted)
    wanted = {partition: [2, 30, 54, 57]}
    times, logs = read(apps.cluster, wanted)
    truth = read_first_records(apps.cluster, [(partition, o) for o in wanted[partition]])

    for row in rows(times, logs, wanted).itertuples():
        at = truth[partition, row.committed]
        assert at is not None
        assert abs(row.time_lag_s - (NOW - at).total_seconds()) <= row.time_lag_bound_s


def test_times_that_the_broker_sets(apps: Any) -> None:
    """Records of one batch that carry the time of their append are told as of that time."""
    topic = create(apps, apps.name("append-time"), message_timestamp_type="LogAppendTime")
    partition = TopicPartition(topic, 0)
    for _ in range(2):
        produce(apps, partition, [NOW - timedelta(days=300)] * 50, **{"linger.ms": 100})
    wanted = {partition: [0, 20, 70]}
    later = NOW + timedelta(hours=1)
    times, logs = read(apps.cluster, wanted, now=later)
    (truth,) = read_first_records(apps.cluster, [(partition, 20)]).values()
    (row,) = rows(times, logs, {partition: [20]}, later).itertuples()

    assert truth is not None
    assert abs(row.time_lag_s - (later - truth).total_seconds()) <= row.time_lag_bound_s <= 200


def test_where_the_log_ended_at_an_instant(apps: Any) -> None:
    """All partitions are asked for an instant, also those of which nothing else is wanted."""
    topic = apps.create_topic(apps.name("instants"), partitions=3)
    busy, idle, empty = (TopicPartition(topic, number) for number in range(3))
    produce(apps, busy, [NOW - timedelta(minutes=10 - n) for n in range(10)])
    produce(apps, idle, [NOW - timedelta(days=3)])
    at = NOW - timedelta(minutes=4, microseconds=7)
    times, logs = read(apps.cluster, {busy: [], idle: [], empty: []}, at=(at,))
    partitions = [busy, idle, empty]
    cells = pd.Series([times.points[partition] for partition in partitions])
    ends = pd.Series([logs[partition].log_end for partition in partitions])

    assert [6, 1, 0] == earlier_ends(cells, ends, at=at).tolist()
    assert (1, 1) == (times.rounds, times.requests)


def test_partitions_that_cannot_be_asked(
    applications: Any, two_brokers: tuple[Cluster, Broker]
) -> None:
    """A partition without a leader is a problem of its own; the others are answered."""
    cluster, second = two_brokers
    apps = applications(cluster)
    here = TopicPartition(apps.create_topic(apps.name("here"), records=3), 0)
    gone = TopicPartition(apps.create_topic(apps.name("gone"), records=3, broker=2), 0)
    with Connection(cluster) as connection:
        logs, _ = read_log_offsets(connection, [here, gone])
    second.stop()
    with Connection(cluster) as connection:
        times = read_log_times(connection, {here: [1], gone: [1]}, logs, LookUp(NOW))

    assert [Problem("log times", "it has no leader", None, *gone)] == times.problems
    assert times.points[gone] == []
    assert times.points[here]


def test_rounds_are_bounded(apps: Any) -> None:
    """Where few rounds are allowed, no more are made, and what is left open is said to be."""
    partition = TopicPartition(apps.create_topic(apps.name("bounded")), 0)
    produce(apps, partition, [NOW - timedelta(seconds=n**3) for n in range(99, 0, -1)])
    wanted = {partition: [20, 60, 90]}
    times, logs = read(apps.cluster, wanted, rounds=2)
    told = rows(times, logs, wanted)

    assert 2 == times.rounds
    assert times.unsettled
    assert told["time_lag_bound_s"].max() > 60


@pytest.mark.parametrize("most", [1, 2])
def test_first_records_no_more_than_asked_for(apps: Any, most: int) -> None:
    """Beyond the number of positions that may be read, keys are missing; the end has no record."""
    partition = TopicPartition(apps.create_topic(apps.name("few")), 0)
    produce(apps, partition, [NOW])
    wanted = [(partition, 1), (partition, 0)]

    assert (
        list(read_first_records(apps.cluster, wanted, most=most).items())
        == ([((partition, 1), None), ((partition, 0), NOW)][:most])
    )
