"""
Read partitions of `__consumer_offsets` in bulk: what every group committed, and what groups did.

Records are read with read_committed and the newest of each raw key counts, which is the rule by
which the coordinator itself rebuilds its state. A transaction that stays open holds this view back;
the reader reports it, and `unstable_tail` reads what counts behind it.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pyarrow as pa

from toolkit.kafka_io.logs.bulk_records import read_records
from toolkit.kafka_io.logs.record_batches import Records, concat_records
from toolkit.kafka_io.offsets_topic.activity import Activity
from toolkit.kafka_io.offsets_topic.chunk import chunk_of
from toolkit.kafka_io.offsets_topic.latest_records import empty_latest, latest_of, merge_latest
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.kafka_io.offsets_topic.removals import Removals
from toolkit.kafka_io.offsets_topic.unstable_tail import UnstableTail, read_unstable_tail
from toolkit.model import Cluster, LogOffsets, TopicPartition

RECORDS_AT_ONCE = 300_000


class OffsetsRead(NamedTuple):
    """The records read of one partition of the offsets topic."""

    latest: pa.Table  # columns: latest_records.LATEST
    activity: pa.Table  # columns: activity.ACTIVITY
    removals: pa.Table  # columns: removals.REMOVALS
    unknown: Counter[int]  # records of types that are not known, by type
    next_offset: int  # where the next read has to start
    unstable_tail: int  # records that an open transaction keeps out of sight
    records: int


def read_offsets_log(
    cluster: Cluster, number: int, log: LogOffsets, *, start: int | None = None
) -> OffsetsRead:
    """
    Read one partition up to the end it had, from its start or from where another read ended.

    Raises BrokerRefused where it may not be read.
    """
    end = log.stable_end
    begin = max(log.log_start or 0, start or 0)
    condensed = _Condensed()
    partition = TopicPartition(OFFSETS_TOPIC, number)
    for records in read_records(cluster, partition, range(begin, end)):
        condensed.add(records)
    return condensed.found(max(begin, end), (log.log_end or 0) - end)


class _Condensed:
    """The reduced records of a partition, which may have had very many."""

    def __init__(self) -> None:
        self._latest = empty_latest()
        self._activity, self._removals = Activity(), Removals()
        self._unknown: Counter[int] = Counter()
        self._records = 0
        self._waiting: list[Records] = []

    def add(self, records: Records) -> None:
        self._waiting.append(records)
        self._records += len(records.offsets)
        if sum(len(part.offsets) for part in self._waiting) >= RECORDS_AT_ONCE:
            self._condense()

    def _condense(self) -> None:
        chunk = chunk_of(concat_records(self._waiting))
        self._waiting.clear()
        self._activity.add(chunk)
        self._removals.add(chunk, self._latest)
        self._unknown += chunk.unknown
        latest = latest_of(chunk)
        del chunk  # both parts of what follows are large
        self._latest = merge_latest(self._latest, latest) if self._latest.num_rows else latest

    def found(self, next_offset: int, unstable_tail: int) -> OffsetsRead:
        if self._waiting:
            self._condense()
        return OffsetsRead(
            self._latest,
            self._activity.table(),
            self._removals.table(),
            self._unknown,
            next_offset,
            unstable_tail,
            self._records,
        )


def with_unstable_tail(
    cluster: Cluster, number: int, log: LogOffsets, read: OffsetsRead
) -> tuple[OffsetsRead, UnstableTail]:
    """
    Add to what was read what counts behind the last stable offset; return that as well.

    The next read starts at the last stable offset all the same: a record that is read twice counts
    once. Raises BrokerRefused where it may not be read, or there is too much of it.
    """
    tail = read_unstable_tail(cluster, number, log)
    if len(tail.records.offsets):
        latest = merge_latest(read.latest, latest_of(chunk_of(tail.records)))
        read = read._replace(latest=latest)
    return read, tail
