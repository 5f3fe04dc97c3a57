"""
Fetch the records of partitions as they lie in their logs, from their leaders, in Arrow arrays.

A leader answers about all of its partitions at once, and is asked again while its last response is
worked on. A leader that moved is looked up again.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from kafka.protocol.consumer import FetchRequest

from toolkit.errors import BrokerRefused, ClusterUnreachable, ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.error_codes import ErrorCode, is_worth_retrying, reason
from toolkit.kafka_io.client.leaders import find_leaders
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.logs.record_batches import (
    CONTROL,
    TRANSACTIONAL,
    Batches,
    CorruptBatch,
    Records,
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
    """The batches of a partition in a response, and which transactions among them were aborted."""

    partition: TopicPartition
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


class NotFetched(NamedTuple):
    """A partition that cannot be read, or not to its end, and why."""

    partition: TopicPartition
    error: BrokerRefused


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

    Raises BrokerRefused, or ClusterUnreachable where no broker reports the leader of the partition.
    """
    for found in fetch_each(connection, {partition: offsets}, isolation):
        if isinstance(found, NotFetched):
            raise found.error
        yield found


def fetch_each(
    connection: Connection, offsets: Mapping[TopicPartition, range], isolation: int
) -> Iterator[Fetched | NotFetched]:
    """
    Yield the batches of partitions in a range of offsets each, as their leaders send them.

    What cannot be read, or sends nothing for the cluster's timeout, ends with a `NotFetched`.
    Raises ClusterUnreachable where no broker reports the leaders of the partitions.
    """
    yield from _LogReading(connection, offsets, isolation).found()


class _LogReading:
    """Reads partitions from their leaders, each up to its end."""

    def __init__(
        self, connection: Connection, offsets: Mapping[TopicPartition, range], isolation: int
    ) -> None:
        self.connection, self.isolation = connection, isolation
        self.ends = {place: span.stop for place, span in offsets.items() if span}
        # In the order in which they are asked for: a response may have room for the first alone.
        self.next = {place: offsets[place].start for place in self.ends}
        self.heard_at = dict.fromkeys(self.ends, time.monotonic())
        self.why: dict[TopicPartition, str] = {}  # the last response had no records
        self.pending: dict[Future[Any], tuple[int, list[TopicPartition]]] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.look_up_at = 0.0  # for partitions whose leader is lost

    def found(self) -> Iterator[Fetched | NotFetched]:
        failed = self._look_up(self.next)
        for place, why in failed.items():
            yield self._not_fetched(place, f": {why}")
        while self.next:
            self._ask()
            done, _ = wait(self.pending, RETRY_PAUSE_S, FIRST_COMPLETED)
            if not done and not self.pending:
                time.sleep(RETRY_PAUSE_S)
            results = [x for one in done for x in self._taken(one)]
            self._ask()  # the next responses are under way while these are worked on
            yield from results
            yield from self._overdue()

    def _look_up(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        leaders, failed = find_leaders(self.connection, [*places]) if self.next else ({}, {})
        self.leaders |= {place: leader.node_id for place, leader in leaders.items()}
        return failed

    def _ask(self) -> None:
        """Ask each leader that owes no response for the partitions that it leads."""
        lost = [place for place in self.next if place not in self.leaders]
        if lost and time.monotonic() >= self.look_up_at:
            self.look_up_at = time.monotonic() + RETRY_PAUSE_S
            # While another broker takes over, the new leader may be unknown.
            with suppress(BrokerRefused, ClusterUnreachable):
                self._look_up(lost)
        busy = {node for node, _ in self.pending.values()}
        of_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for place in self.next:
            if (node := self.leaders.get(place)) is not None and node not in busy:
                of_leader[node].append(place)
        for node, places in of_leader.items():
            response = self.connection.send_ahead(self._request(places), to=node)
            self.pending[response] = node, places

    def _request(self, places: Iterable[TopicPartition]) -> FetchRequest:
        topic = FetchRequest.FetchTopic
        of_topic: dict[str, list[Any]] = defaultdict(list)
        for place in places:
            of_topic[place.topic].append(
                topic.FetchPartition(
                    partition=place.partition,
                    fetch_offset=self.next[place],
                    partition_max_bytes=FETCH_BYTES,
                )
            )
        return FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=FETCH_BYTES,
            isolation_level=self.isolation,
            topics=[topic(topic=name, partitions=parts) for name, parts in of_topic.items()],
            max_version=BY_NAME_VERSION,
        )

    def _taken(self, response: Future[Any]) -> Iterator[Fetched | NotFetched]:
        """Yield what a response has; it is known then where each partition goes on."""
        _, asked = self.pending.pop(response)
        try:
            answers = [
                (TopicPartition(topic.topic, answer.partition_index), answer)
                for topic in response.result().responses
                for answer in topic.partitions
            ]
        except ToolkitError as exc:
            for place in asked:
                self._lose(place, f": {exc.problem}")
            return
        if any(answer.records for _, answer in answers):
            self.heard_at.update(dict.fromkeys(asked, time.monotonic()))
        for place, answer in answers:
            if place not in self.next:
                continue  # it was given up
            if answer.error_code != ErrorCode.NONE:
                self._lose(place, f": {reason(answer.error_code, 'Read')}")
                if not is_worth_retrying(answer.error_code):
                    yield self._not_fetched(place, self.why[place])
            elif answer.records:
                yield self._fetched(place, answer)

    def _lose(self, place: TopicPartition, why: str) -> None:
        self.why[place] = why
        self.leaders.pop(place, None)
        self.look_up_at = time.monotonic() + RETRY_PAUSE_S

    def _fetched(self, place: TopicPartition, answer: Any) -> Fetched | NotFetched:
        try:
            batches = batches_of(answer.records)
        except CorruptBatch as exc:
            return self._not_fetched(place, f": a record batch is corrupt: {exc}")
        position = max(self.next.pop(place), int(batches.last_offsets.max(initial=-1)) + 1)
        self.why.pop(place, None)
        if position < self.ends[place]:
            self.next[place] = position  # after those that wait
        return Fetched(place, batches, answer.aborted_transactions)

    def _overdue(self) -> Iterator[NotFetched]:
        limit_s = self.connection.cluster.timeout_s
        for place, position in [*self.next.items()]:
            if time.monotonic() - self.heard_at[place] > limit_s:
                why = self.why.get(place, "")
                text = f": no data for {limit_s:g} s at offset {position}{why}"
                yield self._not_fetched(place, text)

    def _not_fetched(self, place: TopicPartition, why: str) -> NotFetched:
        self.next.pop(place, None)
        doing = reading(self.connection.cluster, place)
        return NotFetched(place, BrokerRefused(f"{doing}{why}"))


def reading(cluster: Cluster, partition: TopicPartition) -> str:
    """Say what is being done, for errors."""
    return f"reading {partition.topic} partition {partition.partition} of cluster {cluster.name}"
