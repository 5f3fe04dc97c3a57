"""Read the timestamps of the records at given offsets."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing
from datetime import datetime
from itertools import islice, zip_longest

from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as Assignment

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.bulk_consumer import bulk_consumer
from toolkit.kafka_io.client.coordinators import in_chunks
from toolkit.kafka_io.client.leaders import find_leaders
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.client.timestamps import from_ms
from toolkit.kafka_io.logs.time_lookup_search import BEGINNING
from toolkit.model import Cluster, TopicPartition
from toolkit.model.records import FirstRecord

RecordPosition = tuple[TopicPartition, int]

MOST = 500
SILENCE_S = 5.0  # after a first answer, before which there is a connection to be made
# A broker looks at all partitions of a fetch for each answer, though one large batch may fill it.
PARTITIONS_AT_ONCE = 100

PEEK = {
    "group.id": "offsetbook-reader",  # required by the client; nothing joins or commits
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
    # A position before the log start gives the first record there is.
    "auto.offset.reset": "earliest",
    # One record of each partition is enough, but brokers send whole batches.
    "max.partition.fetch.bytes": 65_536,
    "queued.min.messages": 1,
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 2,
}
COMMITTED = {"isolation.level": "read_committed"}


def read_record_times(
    cluster: Cluster, positions: Collection[RecordPosition], *, most: int = MOST
) -> dict[RecordPosition, datetime]:
    """
    Return, for partitions and offsets, the time of the record there or of the first one after it.

    A key is missing where there is no such record, where it could not be read within some seconds,
    and for all positions beyond the first `most`. Raises ClusterUnreachable where no broker
    answers, BrokerRefused where the user may not read.
    """
    found = read_first_records(cluster, positions, most=most)
    return {position: first.at for position, first in found.items() if first.at}


def read_first_records(
    cluster: Cluster,
    positions: Collection[RecordPosition],
    *,
    most: int = MOST,
    committed: bool = False,
) -> dict[RecordPosition, FirstRecord]:
    """
    Return the same, also where there is no record to the log end, or one without a timestamp.

    There may be offsets all the same: of the markers that end transactions, and of records that
    compaction removed. Producers that know no time send -1 or 0: neither is a timestamp. With
    `committed`, aborted records and those of open transactions are no records.
    """
    settings = COMMITTED if committed else {}
    return {
        position: FirstRecord(found=False)
        if message is None
        else FirstRecord(found=True, at=_time_of(message))
        for position, message in _read_first(cluster, positions, most, settings)
    }


def read_first_committed(
    cluster: Cluster, positions: Collection[RecordPosition], *, most: int = MOST
) -> dict[RecordPosition, int | None]:
    """
    Return the offset of the first committed record at or after each offset; None: there is none.

    Aborted records and those of open transactions count for nothing. Keys are missing, and errors
    are raised, as by `read_record_times`.
    """
    return {
        position: None if message is None else message.offset()
        for position, message in _read_first(cluster, positions, most, COMMITTED)
    }


def _read_first(
    cluster: Cluster, requested: Collection[RecordPosition], most: int, settings: Mapping[str, str]
) -> Iterator[tuple[RecordPosition, Message | None]]:
    chosen = list(islice(dict.fromkeys(requested), most))
    with connected(cluster) as connection:
        # No broker would answer for the others, and the client would wait.
        leaders, _ = find_leaders(connection, {partition for partition, _ in chosen})
    try:
        for rounds in _rounds(position for position in chosen if position[0] in leaders):
            # A consumer to which other partitions are assigned waits a second before it reads.
            with closing(bulk_consumer(cluster, {**PEEK, **settings})) as consumer:
                for positions in rounds:
                    yield from _read_each(consumer, positions, cluster.timeout_s)
    except KafkaException as exc:
        raise BrokerRefused(
            f"reading records of cluster {cluster.name}: {exc.args[0].str()}"
        ) from exc


def _rounds(
    positions: Iterable[RecordPosition],
) -> Iterator[Iterator[Mapping[TopicPartition, int]]]:
    """Yield for some partitions at a time sets of positions in which each occurs once."""
    by_partition: dict[TopicPartition, list[int]] = defaultdict(list)
    for partition, offset in positions:
        by_partition[partition].append(offset)
    for chunk in in_chunks(list(by_partition), PARTITIONS_AT_ONCE):
        rounds = zip_longest(*(by_partition[partition] for partition in chunk))
        yield (
            {
                partition: offset
                for partition, offset in zip(chunk, offsets, strict=True)
                if offset is not None
            }
            for offsets in rounds
        )


def _read_each(
    consumer: Consumer, positions: Mapping[TopicPartition, int], timeout_s: float
) -> Iterator[tuple[RecordPosition, Message | None]]:
    """
    Yield the first record at each position, None where there is none.

    Stops when all partitions have answered or all are silent.
    """
    consumer.assign([Assignment(*partition, offset) for partition, offset in positions.items()])
    waiting = set(positions)
    give_up_at = time.monotonic() + max(SILENCE_S, timeout_s)
    while waiting and time.monotonic() < give_up_at:
        for message in consumer.consume(len(waiting), 0.05):
            partition = TopicPartition(message.topic() or "", message.partition() or 0)
            if partition not in waiting:
                continue
            waiting.discard(partition)
            give_up_at = time.monotonic() + SILENCE_S
            position = (partition, positions[partition])
            if _is_past_the_last(message, position[1]):
                yield position, None
            elif not message.error():
                yield position, message


def _is_past_the_last(message: Message, offset: int) -> bool:
    error = message.error()
    if error:
        return bool(error.code() == KafkaError._PARTITION_EOF)  # noqa: SLF001 - documented under this name
    # One before it is the log start, to which a position past the log end was moved.
    return (message.offset() or 0) < offset


def _time_of(message: Message) -> datetime | None:
    _, timestamp_ms = message.timestamp()
    return from_ms(timestamp_ms) if timestamp_ms >= BEGINNING else None
