"""Many records of a partition at once, in Arrow arrays."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.errors import BrokerRefused, ClusterUnreachable
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.logs.byte_columns import flags
from toolkit.kafka_io.logs.fetch import (
    Fetched,
    corrupt_refused,
    fetch_batches,
    reading,
)
from toolkit.kafka_io.logs.log_offsets import READ_COMMITTED
from toolkit.kafka_io.logs.record_batches import Batches, Records, batches_of, records_of
from toolkit.model import Cluster, TopicPartition


def read_records(cluster: Cluster, partition: TopicPartition, offsets: range) -> Iterator[Records]:
    """
    Yield the committed records of a partition in a range, some thousands at a time.

    Raises BrokerRefused where they may not be read, or no longer come.
    """
    if not offsets:
        return
    try:
        with connected(cluster) as connection:
            for fetched in fetch_batches(connection, partition, offsets, READ_COMMITTED):
                records = committed_records(cluster, fetched, offsets)
                if len(records.offsets):
                    yield records
    except ClusterUnreachable as exc:
        raise BrokerRefused(f"{reading(cluster, partition)}: {exc.problem}", hint=exc.hint) from exc


def committed_records(cluster: Cluster, fetched: Fetched, offsets: range) -> Records:
    """Return the committed records of a response with a key and an offset in the range."""
    with corrupt_refused(cluster, fetched.partition):
        batches = batches_of(fetched.batches).committed(fetched.aborted)
    return records_within(cluster, fetched.partition, batches, offsets)


def records_within(
    cluster: Cluster, partition: TopicPartition, batches: Batches, offsets: range
) -> Records:
    """Return the records of some batches that have a key and an offset in the range."""
    with corrupt_refused(cluster, partition):
        records = records_of(partition.partition, batches)
    # The first batch may begin before the range, and the last one end behind it.
    is_within = (records.offsets >= offsets.start) & (records.offsets < offsets.stop)
    is_within &= records.keys.is_valid().to_numpy(zero_copy_only=False)
    if is_within.all():
        return records
    mask = flags(is_within)
    return Records(
        records.partition,
        records.keys.filter(mask),
        records.values.filter(mask),
        records.offsets[is_within],
        records.written_ms[is_within],
    )
