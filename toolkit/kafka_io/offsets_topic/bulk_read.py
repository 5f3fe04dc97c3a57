"""Fetch the records of a partition as they lie in the log, in Arrow arrays."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from kafka.protocol.consumer import FetchRequest

from toolkit.errors import BrokerRefused, ClusterUnreachable
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.error_codes import ErrorCode, is_worth_retrying, reason
from toolkit.kafka_io.client.leaders import find_leaders
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.offsets_topic.chunk import Records
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.kafka_io.offsets_topic.record_batches import (
    CONTROL,
    TRANSACTIONAL,
    Batches,
    CorruptBatch,
    batches_of,
    records_of,
)
from toolkit.model import Cluster, TopicPartition

FETCH_BYTES = 4 * 2**20
WAIT_MS = 500
RETRY_PAUSE_S = 0.2
BY_NAME_VERSION = 12  # from 13 on, a fetch names topics by id
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


class Fetched(NamedTuple):
    """The batches in a response, and which transactions among them were aborted."""

    batches: Batches
    aborted: Any  # each with a producer_id and a first_offset

    def committed(self) -> Batches:
        """Return the batches of records that a consumer with read_committed is given."""
        batches = self.batches
        shown = ~batches.have(CONTROL)
        if self.aborted:
            shown &= ~self._is_aborted()
        return batches.only(shown)

    def _is_aborted(self) -> Any:
        """Return which batches are of an aborted transaction: from its begin to its marker."""
        batches, found = self.batches, np.zeros(len(self.batches.counts), bool)
        waiting = sorted(self.aborted, key=lambda one: one.first_offset, reverse=True)
        ends = (batches.have(CONTROL) & ~batches.commit_markers()).tolist()
        transactional = batches.have(TRANSACTIONAL).tolist()
        producers, last_offsets = batches.producer_ids.tolist(), batches.last_offsets.tolist()
        aborting: set[int] = set()
        for row, producer in enumerate(producers):
            while waiting and waiting[-1].first_offset <= last_offsets[row]:
                aborting.add(waiting.pop().producer_id)
            if ends[row]:
                aborting.discard(producer)
            found[row] = transactional[row] and producer in aborting
        return found


def read_records(cluster: Cluster, number: int, offsets: range) -> Iterator[Records]:
    """
    Yield the committed records of an offsets partition in a range, some thousands at a time.

    Raises BrokerRefused where they may not be read, or no longer come.
    """
    if not offsets:
        return
    partition = TopicPartition(OFFSETS_TOPIC, number)
    try:
        with connected(cluster) as connection:
            for fetched in fetch_batches(connection, partition, offsets, READ_COMMITTED):
                records = records_within(cluster, partition, fetched.committed(), offsets)
                if len(records.offsets):
                    yield records
    except ClusterUnreachable as exc:
        raise BrokerRefused(f"{reading(cluster, partition)}: {exc.problem}", hint=exc.hint) from exc


def records_within(
    cluster: Cluster, partition: TopicPartition, batches: Batches, offsets: range
) -> Records:
    """Return the records of some batches that have a key and an offset in the range."""
    try:
        records = records_of(partition.partition, batches)
    except CorruptBatch as exc:
        doing = reading(cluster, partition)
        raise BrokerRefused(f"{doing}: a record batch is corrupt: {exc}") from exc
    # The first batch may begin before the range, and the last one end behind it.
    is_within = (records.offsets >= offsets.start) & (records.offsets < offsets.stop)
    is_within &= records.keys.is_valid().to_numpy(zero_copy_only=False)
    if is_within.all():
        return records
    mask = pa.array(is_within)
    return Records(
        records.partition,
        records.keys.filter(mask),
        records.values.filter(mask),
        records.offsets[is_within],
        records.written_ms[is_within],
    )


def fetch_batches(
    connection: Connection, partition: TopicPartition, offsets: range, isolation: int
) -> Iterator[Fetched]:
    """
    Yield the batches of a partition from one offset up to another, as its leader sends them.

    The next response is under way while one is worked on. A leader that moved is looked up again.
    Raises BrokerRefused, or ClusterUnreachable where no broker reports the leader of the partition.
    """
    log = _Log(connection, partition, isolation)
    position, heard_at = offsets.start, time.monotonic()
    pending = None
    while position < offsets.stop:
        answer = log.answer(pending or log.ask(position))
        pending = None
        if answer is None:
            if time.monotonic() - heard_at > connection.cluster.timeout_s:
                raise BrokerRefused(
                    f"{log.doing}: no data for {connection.cluster.timeout_s:g} s "
                    f"at offset {position}{log.why}"
                )
            continue
        try:
            batches = batches_of(answer.records)
        except CorruptBatch as exc:
            raise BrokerRefused(f"{log.doing}: a record batch is corrupt: {exc}") from exc
        position = max(position, int(batches.last_offsets.max(initial=-1)) + 1)
        pending = log.ask(position) if position < offsets.stop else None
        yield Fetched(batches, answer.aborted_transactions)
        heard_at = time.monotonic()


class _Log:
    """The log of a partition at the broker that leads it."""

    def __init__(self, connection: Connection, partition: TopicPartition, isolation: int) -> None:
        self.connection, self.partition, self.isolation = connection, partition, isolation
        self.doing = reading(connection.cluster, partition)
        self.why = ""  # the last answer had no records
        self._is_lost = False
        self._leader = self._look_up()

    def ask(self, position: int) -> Future[Any]:
        """Ask for records from an offset on."""
        if self._is_lost:
            time.sleep(RETRY_PAUSE_S)
            # While another broker takes over, the new leader may be unknown.
            with suppress(BrokerRefused, ClusterUnreachable):
                self._leader, self._is_lost = self._look_up(), False
        topic = FetchRequest.FetchTopic
        fetch = topic.FetchPartition(
            partition=self.partition.partition,
            fetch_offset=position,
            partition_max_bytes=FETCH_BYTES,
        )
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=self.isolation,
            topics=[topic(topic=self.partition.topic, partitions=[fetch])],
            max_version=BY_NAME_VERSION,
        )
        return self.connection.send_ahead(request, to=self._leader)

    def answer(self, pending: Future[Any]) -> Any:
        """Wait for the answer; None: there are no records, and `why` says so if that is known."""
        self.why = ""
        try:
            (answer,) = pending.result().responses[0].partitions
        except ClusterUnreachable as exc:
            self.why, self._is_lost = f": {exc.problem}", True
            return None
        if answer.error_code == ErrorCode.NONE:
            return answer if answer.records else None
        self.why, self._is_lost = f": {reason(answer.error_code, 'Read')}", True
        if not is_worth_retrying(answer.error_code):
            raise BrokerRefused(self.doing + self.why)
        return None

    def _look_up(self) -> int:
        leaders, failed = find_leaders(self.connection, [self.partition])
        if self.partition in failed:
            raise BrokerRefused(f"{self.doing}: {failed[self.partition]}")
        return leaders[self.partition].node_id


def reading(cluster: Cluster, partition: TopicPartition) -> str:
    """Say what is being done, for errors."""
    return f"reading {partition.topic} partition {partition.partition} of cluster {cluster.name}"
