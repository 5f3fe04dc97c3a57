"""
Read what follows the last stable offset of a partition of `__consumer_offsets`.

A transaction that stays open hides all later records from a read_committed reader, also commits
outside of it. Batches contain their producer, which no consumer API returns, so raw batches are
fetched: records outside transactions count, and those of a transaction once its commit marker is
there. That is the rule of the coordinator itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.logs.bulk_records import records_within
from toolkit.kafka_io.logs.fetch import (
    corrupt_refused,
    fetch_batches,
    reading,
    split_batches,
)
from toolkit.kafka_io.logs.log_offsets import READ_UNCOMMITTED
from toolkit.kafka_io.logs.record_batches import (
    CONTROL,
    TRANSACTIONAL,
    Batches,
    Records,
    batches_of,
)
from toolkit.kafka_io.offsets_topic.commit_records import CommitKey, decode_commit_key
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.kafka_io.wire.fields import MalformedMessage
from toolkit.model import Cluster, LogOffsets, TopicPartition

MOST_BYTES = 64 * 2**20  # a transaction that hangs for days keeps everything behind it


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
    span = range(max(log.stable_end, log.log_start or 0), log.log_end or 0)
    partition = TopicPartition(OFFSETS_TOPIC, number)
    batches = _batches(cluster, partition, span)
    with corrupt_refused(cluster, partition):
        counting, waiting = _which_count(batches)
    records, pending = (
        records_within(cluster, partition, batches.only(rows), span) for rows in (counting, waiting)
    )
    return UnstableTail(records, frozenset(_commit_keys(pending.keys.to_pylist())))


def _batches(cluster: Cluster, partition: TopicPartition, span: range) -> Batches:
    data, size = [], 0
    with connected(cluster) as connection:
        for fetched in fetch_batches(connection, partition, span, READ_UNCOMMITTED):
            data.append(fetched.batches.data[: fetched.batches.end])
            size += fetched.batches.end
            if size > MOST_BYTES:
                raise BrokerRefused(
                    f"{reading(cluster, partition)}: more than {MOST_BYTES // 2**20} MiB behind "
                    f"the last stable offset {span.start}"
                )
    with corrupt_refused(cluster, partition):
        return batches_of(split_batches(b"".join(data)))


def _which_count(batches: Batches) -> tuple[Any, Any]:
    """Return which batches count, and which are of transactions that have no marker yet."""
    is_transactional, is_marker = batches.have(TRANSACTIONAL), batches.have(CONTROL)
    counts, is_commit = ~is_transactional & ~is_marker, batches.commit_markers()
    open_rows: dict[int, list[int]] = defaultdict(list)  # by producer
    for row in np.flatnonzero(is_transactional | is_marker).tolist():
        producer = int(batches.producer_ids[row])
        if not is_marker[row]:
            open_rows[producer].append(row)
        else:
            counts[open_rows.pop(producer, [])] = is_commit[row]
    waits = np.zeros(len(counts), bool)
    waits[[row for rows in open_rows.values() for row in rows]] = True
    return counts, waits


def _commit_keys(keys: Iterable[bytes]) -> Iterator[CommitKey]:
    for key in keys:
        # A key that cannot be decoded is of no group that is known.
        with suppress(MalformedMessage):
            yield decode_commit_key(key)
