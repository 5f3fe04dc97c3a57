"""Read the first records at given offsets: where they are, and their timestamps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice, zip_longest

import numpy as np

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.coordinators import in_chunks
from toolkit.kafka_io.client.leaders import described_once
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.client.timestamps import from_ms
from toolkit.kafka_io.logs.fetch import (
    ONE_BATCH_BYTES,
    CorruptBatch,
    Fetched,
    LogReading,
    NotFetched,
)
from toolkit.kafka_io.logs.log_offsets import READ_COMMITTED, READ_UNCOMMITTED, read_log_offsets
from toolkit.kafka_io.logs.offset_time_lookup import BEGINNING
from toolkit.kafka_io.logs.record_batches import batches_of, records_of
from toolkit.model import Cluster, TopicPartition
from toolkit.model.records import FirstRecord

RecordPosition = tuple[TopicPartition, int]

MOST = 500
# A broker looks at all partitions of a fetch for each answer, though one large batch may fill it.
PARTITIONS_AT_ONCE = 100


@described_once()
def read_first_records(
    cluster: Cluster,
    positions: Collection[RecordPosition],
    *,
    most: int = MOST,
    committed: bool = False,
) -> dict[RecordPosition, FirstRecord]:
    """
    Return, for partitions and offsets, the record there or the first one after it.

    It says so where there is no record to the log end, or one without a timestamp: producers that
    know no time send -1 or 0. There may be offsets all the same: of the markers that end
    transactions, and of records that compaction removed. With `committed`, aborted records and
    those of open transactions are no records. A key is missing where it could not be read within
    some seconds, and for all positions beyond the first `most`. Raises ClusterUnreachable where no
    broker answers.
    """
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
    chosen = list(islice(dict.fromkeys(positions), most))
    found: dict[RecordPosition, FirstRecord] = {}
    with connected(cluster) as connection:
        logs, _ = read_log_offsets(connection, {partition for partition, _ in chosen})
        edges = {
            partition: (log.log_start, end)
            for partition, log in logs.items()
            if (end := log.last_stable if committed else log.log_end) is not None
            and log.log_start is not None
        }
        for offsets in _rounds(one for one in chosen if one[0] in edges):
            spans = {
                p: range(max(offset, edges[p][0]), edges[p][1]) for p, offset in offsets.items()
            }
            for partition, record in _first_of_each(connection, spans, isolation).items():
                found[partition, offsets[partition]] = record
    return found


def _rounds(positions: Iterable[RecordPosition]) -> Iterator[dict[TopicPartition, int]]:
    """Yield sets of positions, of some partitions at a time, in which each occurs once."""
    by_partition: dict[TopicPartition, list[int]] = defaultdict(list)
    for partition, offset in positions:
        by_partition[partition].append(offset)
    for chunk in in_chunks(list(by_partition), PARTITIONS_AT_ONCE):
        for offsets in zip_longest(*(by_partition[partition] for partition in chunk)):
            paired = zip(chunk, offsets, strict=True)
            yield {partition: offset for partition, offset in paired if offset is not None}


def _first_of_each(
    connection: Connection, spans: Mapping[TopicPartition, range], isolation: int
) -> dict[TopicPartition, FirstRecord]:
    """Return the first record of each range; unread ones are missing."""
    nothing = FirstRecord(found=False)
    found = {partition: nothing for partition, span in spans.items() if not span}
    reading = LogReading(connection, spans, isolation, at_most_bytes=ONE_BATCH_BYTES)
    for fetched in reading.found():
        partition = fetched.partition
        if isinstance(fetched, NotFetched):
            continue
        try:
            record = _first_within(fetched, spans[partition])
        except CorruptBatch:
            reading.skip(partition)
            continue
        if record or fetched.batches.last_offset + 1 >= spans[partition].stop:
            found[partition] = record or nothing
            reading.skip(partition)
    return found


def _first_within(fetched: Fetched, span: range) -> FirstRecord | None:
    batches = batches_of(fetched.batches).committed(fetched.aborted)
    may_have_it = (batches.last_offsets >= span.start) & (batches.base_offsets < span.stop)
    for row in np.flatnonzero(may_have_it):
        records = records_of(0, batches.only([row]))
        (inside,) = np.nonzero((records.offsets >= span.start) & (records.offsets < span.stop))
        if len(inside):
            offset, at_ms = (int(of[inside[0]]) for of in (records.offsets, records.written_ms))
            at = from_ms(at_ms) if at_ms >= BEGINNING else None
            return FirstRecord(found=True, at=at, offset=offset)
    return None
