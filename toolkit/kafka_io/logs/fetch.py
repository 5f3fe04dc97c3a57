"""
Fetch the record batches of partitions as they lie in their logs, from their leaders.

A leader answers about all of its partitions at once, and is asked again while its last response is
worked on. A leader that moved is looked up again. Neither numpy nor Arrow is loaded here:
`few_records` decodes a response without, and `bulk_records` with them.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

from kafka.errors import KafkaError
from kafka.protocol.consumer import FetchRequest

from toolkit.errors import BrokerRefused, ClusterUnreachable, ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.error_codes import ErrorCode, is_worth_retrying, reason
from toolkit.kafka_io.client.leaders import find_leaders
from toolkit.model import Cluster, TopicPartition

FETCH_BYTES = 4 * 2**20
WAIT_MS = 500
RETRY_PAUSE_S = 0.2
BY_NAME_VERSION = 12  # from 13 on, a fetch names topics by id
# Where one record is enough: brokers send whole batches.
ONE_BATCH_BYTES = 65_536
# Of a batch: the format is at the same place in all formats, as the length is.
HEADER_BYTES, FORMAT_AT, CURRENT_FORMAT = 61, 16, 2
LENGTH_FROM = 12  # the length does not count itself and what is before it
# What the client's own decoder raises for damaged bytes; gzip raises the last three.
DECODE_ERRORS = (
    *(KafkaError, ValueError, IndexError, TypeError, struct.error),
    *(OSError, EOFError, zlib.error),
)
OFFSET_AND_LENGTH, OFFSET, LAST_OFFSET_DELTA = map(struct.Struct, (">qi", ">q", ">i"))


class CorruptBatch(ValueError):
    """Bytes that are no record batch, or that cannot be decompressed."""


class BatchBytes(NamedTuple):
    """Record batches as brokers send them: where each begins, and where the last one ends."""

    data: bytes
    starts: list[int]
    end: int

    @property
    def last_offset(self) -> int:
        """The last offset of the last batch, also if it has no record there; -1 without any."""
        if not self.starts:
            return -1
        at = self.starts[-1]
        (base,) = OFFSET.unpack_from(self.data, at)
        if self.data[at + FORMAT_AT] != CURRENT_FORMAT:
            return int(base)
        if self.end - at < HEADER_BYTES:
            raise CorruptBatch("its header is cut off")
        return int(base + LAST_OFFSET_DELTA.unpack_from(self.data, at + 23)[0])


class Fetched(NamedTuple):
    """The batches of a partition in a response, and which transactions among them were aborted."""

    partition: TopicPartition
    batches: BatchBytes
    aborted: Sequence[Any]  # each with a producer_id and a first_offset


class BatchOfTransaction(NamedTuple):
    """What of a batch says whether its records are aborted."""

    producer_id: int
    last_offset: int
    is_transactional: bool
    is_abort_marker: bool


class NotFetched(NamedTuple):
    """A partition that cannot be read, or not to its end, and why."""

    partition: TopicPartition
    why: str
    error: BrokerRefused  # the same, with what was being done


def fetch_batches(
    connection: Connection, partition: TopicPartition, offsets: range, isolation: int
) -> Iterator[Fetched]:
    """
    Yield the batches of a partition from one offset up to another, as its leader sends them.

    Raises BrokerRefused, or ClusterUnreachable where no broker reports the leader of the partition.
    """
    for found in LogReading(connection, {partition: offsets}, isolation).found():
        if isinstance(found, NotFetched):
            raise found.error
        yield found


class LogReading:
    """
    Reads partitions from their leaders, each up to its end or until `skip` is called for it.

    `at_most_bytes` are sent of one partition in a response, but never less than a batch. Below
    `FETCH_BYTES`, the next responses are not asked for before the last ones are worked on.
    """

    def __init__(
        self,
        connection: Connection,
        offsets: Mapping[TopicPartition, range],
        isolation: int,
        *,
        at_most_bytes: int = FETCH_BYTES,
    ) -> None:
        self.connection, self.isolation = connection, isolation
        self.at_most_bytes = at_most_bytes
        self.ends = {place: span.stop for place, span in offsets.items() if span}
        # In the order in which they are asked for: a response may have room for the first alone.
        self.next = {place: offsets[place].start for place in self.ends}
        self.silent_since: dict[TopicPartition, float] = {}  # asked, and nothing came
        self.why: dict[TopicPartition, str] = {}  # the last response was an error
        self.pending: dict[Future[Any], tuple[int, list[TopicPartition]]] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.look_up_at = 0.0  # for partitions whose leader is lost

    def skip(self, place: TopicPartition) -> None:
        """Read no more of a partition."""
        self.next.pop(place, None)

    def found(self) -> Iterator[Fetched | NotFetched]:
        """
        Yield the batches of each partition as its leader sends them.

        What cannot be read, or sends nothing for the cluster's timeout, ends with a `NotFetched`.
        Raises ClusterUnreachable where no broker reports the leaders of the partitions.
        """
        failed = self._look_up(self.next)
        for place, why in failed.items():
            yield self._not_fetched(place, f": {why}")
        while self.next:
            self._ask()
            done, _ = wait(self.pending, RETRY_PAUSE_S, FIRST_COMPLETED)
            if not done and not self.pending:
                time.sleep(RETRY_PAUSE_S)
            results = [x for one in done for x in self._taken(one)]
            if self.at_most_bytes >= FETCH_BYTES:
                self._ask()  # the next responses are under way while these are worked on
            yield from results
            yield from self._overdue()

    def _look_up(
        self, places: Iterable[TopicPartition], *, refresh: bool = False
    ) -> dict[TopicPartition, str]:
        leaders, failed = find_leaders(self.connection, [*places], refresh=refresh)
        self.leaders |= {place: leader.node_id for place, leader in leaders.items()}
        return failed

    def _ask(self) -> None:
        """Send each leader without a pending request a Fetch for its partitions."""
        lost = [place for place in self.next if place not in self.leaders]
        if lost and time.monotonic() >= self.look_up_at:
            self.look_up_at = time.monotonic() + RETRY_PAUSE_S
            # While another broker takes over, the new leader may be unknown.
            with suppress(BrokerRefused, ClusterUnreachable):
                self._look_up(lost, refresh=True)
        busy = {node for node, _ in self.pending.values()}
        of_leader: dict[int, list[TopicPartition]] = defaultdict(list)
        for place in self.next:
            if (node := self.leaders.get(place)) is not None and node not in busy:
                of_leader[node].append(place)
        for node, places in of_leader.items():
            response = self.connection.send_ahead(self._request(places), to=node)
            self.pending[response] = node, places
            for place in places:
                self.silent_since.setdefault(place, time.monotonic())

    def _request(self, places: Iterable[TopicPartition]) -> FetchRequest:
        topic = FetchRequest.FetchTopic
        of_topic: dict[str, list[Any]] = defaultdict(list)
        for place in places:
            of_topic[place.topic].append(
                topic.FetchPartition(
                    partition=place.partition,
                    fetch_offset=self.next[place],
                    partition_max_bytes=self.at_most_bytes,
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
        """Yield the content of a response; then the next offset of each partition is known."""
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
            for place in asked:  # also those for which there was no room
                self.silent_since.pop(place, None)
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
        self.silent_since.setdefault(place, time.monotonic())
        self.leaders.pop(place, None)
        self.look_up_at = time.monotonic() + RETRY_PAUSE_S

    def _fetched(self, place: TopicPartition, answer: Any) -> Fetched | NotFetched:
        try:
            batches = split_batches(bytes(answer.records))
            last_offset = batches.last_offset
        except CorruptBatch as exc:
            return self._not_fetched(place, f": a record batch is corrupt: {exc}")
        position = max(self.next.pop(place), last_offset + 1)
        self.why.pop(place, None)
        if position < self.ends[place]:
            self.next[place] = position  # after those that wait
        return Fetched(place, batches, answer.aborted_transactions)

    def _overdue(self) -> Iterator[NotFetched]:
        limit_s = self.connection.cluster.timeout_s
        for place, since in [*self.silent_since.items()]:
            if place in self.next and time.monotonic() - since > limit_s:
                position, why = self.next[place], self.why.get(place, "")
                text = f": no data for {limit_s:g} s at offset {position}{why}"
                yield self._not_fetched(place, text)

    def _not_fetched(self, place: TopicPartition, why: str) -> NotFetched:
        self.skip(place)
        doing = reading(self.connection.cluster, place)
        return NotFetched(place, why.removeprefix(": "), BrokerRefused(f"{doing}{why}"))


def split_batches(data: bytes) -> BatchBytes:
    """Find the batches in a response; one that is cut off at its end is left out."""
    starts, place = [], 0
    while place + FORMAT_AT < len(data):
        end = place + LENGTH_FROM + OFFSET_AND_LENGTH.unpack_from(data, place)[1]
        if end > len(data):
            break
        if end <= place + FORMAT_AT:
            raise CorruptBatch("its length is wrong")
        starts.append(place)
        place = end
    return BatchBytes(data, starts, place)


def are_aborted(batches: Iterable[BatchOfTransaction], aborted: Sequence[Any]) -> list[bool]:
    """Return which batches are of an aborted transaction: from its begin to its marker."""
    waiting = sorted(aborted, key=lambda one: one.first_offset, reverse=True)
    aborting: set[int] = set()
    found = []
    for producer_id, last_offset, is_transactional, is_abort_marker in batches:
        while waiting and waiting[-1].first_offset <= last_offset:
            aborting.add(waiting.pop().producer_id)
        if is_abort_marker:
            aborting.discard(producer_id)
        found.append(is_transactional and producer_id in aborting)
    return found


@contextmanager
def corrupt_refused(cluster: Cluster, partition: TopicPartition) -> Iterator[None]:
    """Raise BrokerRefused, which names the partition, for a corrupt batch."""
    try:
        yield
    except CorruptBatch as exc:
        doing = reading(cluster, partition)
        raise BrokerRefused(f"{doing}: a record batch is corrupt: {exc}") from exc


def reading(cluster: Cluster, partition: TopicPartition) -> str:
    """Describe the reading, for errors."""
    return f"reading {partition.topic} partition {partition.partition} of cluster {cluster.name}"
