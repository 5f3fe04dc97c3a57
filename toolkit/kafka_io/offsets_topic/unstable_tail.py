"""
Read what follows the last stable offset of a partition of `__consumer_offsets`.

A transaction that stays open ends the view of every read_committed reader, also on commits that are
no part of it. Batches say whose they are, which no consumer API tells, so they are fetched as they
are: records outside transactions count, and those of a transaction once its marker says so. That is
the rule of the coordinator itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from kafka.protocol.consumer import FetchRequest
from kafka.record import MemoryRecords

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.client.leaders import find_leaders
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.offsets_topic.chunk import Records
from toolkit.kafka_io.offsets_topic.commit_records import CommitKey, decode_commit_key
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC, UnknownRecord
from toolkit.model import Cluster, LogOffsets, TopicPartition

MOST_BYTES = 64 * 2**20  # a transaction that hangs for days keeps everything behind it
FETCH_BYTES = 4 * 2**20
BY_NAME_VERSION = 12  # from 13 on, a fetch names topics by id


class UnstableTail(NamedTuple):
    """What counts behind the last stable offset, and which keys an open transaction commits."""

    records: Records
    pending: frozenset[CommitKey]

    @property
    def commits(self) -> frozenset[CommitKey]:
        """The keys of the commits that count."""
        return frozenset(_commit_keys(self.records.keys.to_pylist()))


def read_unstable_tail(cluster: Cluster, number: int, log: LogOffsets) -> UnstableTail:
    """
    Read a partition from the last stable offset it had to the end it had.

    Raises BrokerRefused where it may not be read or is larger than 64 MiB.
    """
    start = log.log_end if log.last_stable is None else log.last_stable
    span = range(max(start or 0, log.log_start or 0), log.log_end or 0)
    counting: list[Any] = []
    open_records: dict[int, list[Any]] = defaultdict(list)  # by producer
    if span:
        with connected(cluster) as connection:
            for batch in _batches(connection, number, span):
                records = [record for record in batch if record.offset in span]
                if batch.is_control_batch:
                    ended = open_records.pop(batch.producer_id, [])
                    counting += ended if any(record.commit for record in records) else []
                elif batch.is_transactional:
                    open_records[batch.producer_id] += records
                else:
                    counting += records
    waiting = (record.key for records in open_records.values() for record in records)
    pending = _commit_keys(key or b"" for key in waiting)
    return UnstableTail(_in_order(number, counting), frozenset(pending))


def _batches(connection: Connection, number: int, span: range) -> Iterator[Any]:
    """Yield the batches of a partition in a range of offsets."""
    partition = TopicPartition(OFFSETS_TOPIC, number)
    doing = f"reading {OFFSETS_TOPIC} partition {number} of cluster {connection.cluster.name}"
    leaders, failed = find_leaders(connection, [partition])
    if partition in failed:
        raise BrokerRefused(f"{doing}: {failed[partition]}")
    position, size = span.start, 0
    while position < span.stop:
        found = connection.send(_request(number, position), to=leaders[partition].node_id)
        (answer,) = found.responses[0].partitions
        if answer.error_code != ErrorCode.NONE:
            raise BrokerRefused(f"{doing}: {reason(answer.error_code, 'Read')}")
        size += len(answer.records or b"")
        if size > MOST_BYTES or not answer.records:
            why = "no data" if not answer.records else f"more than {MOST_BYTES // 2**20} MiB"
            raise BrokerRefused(f"{doing}: {why} behind the last stable offset {span.start}")
        for batch in MemoryRecords(answer.records):
            position = batch.next_offset
            yield batch


def _request(number: int, position: int) -> FetchRequest:
    topic = FetchRequest.FetchTopic
    partition = topic.FetchPartition(
        partition=number, fetch_offset=position, partition_max_bytes=FETCH_BYTES
    )
    return FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        topics=[topic(topic=OFFSETS_TOPIC, partitions=[partition])],
        max_version=BY_NAME_VERSION,
    )


def _commit_keys(keys: Iterable[bytes]) -> Iterator[CommitKey]:
    for key in keys:
        # A key that cannot be decoded is of no group that is known.
        with suppress(UnknownRecord):
            yield decode_commit_key(key)


def _in_order(number: int, records: list[Any]) -> Records:
    records = sorted((r for r in records if r.key is not None), key=lambda record: record.offset)
    return Records(
        number,
        pa.array([record.key for record in records], pa.binary()),
        pa.array([record.value for record in records], pa.binary()),
        np.array([record.offset for record in records], np.int64),
        np.array([record.timestamp for record in records], np.int64),
    )
