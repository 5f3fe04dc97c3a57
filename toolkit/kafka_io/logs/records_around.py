"""
Fetch the records around an offset without committing or joining a group.

The content of a record may be anything and of any size: only the first bytes of each field are
returned, a few megabytes in all, and a partition that does not answer is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import islice
from typing import NamedTuple

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
)
from confluent_kafka import TopicPartition as Assignment

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.bulk_consumer import bulk_consumer, read_error
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.client.timestamps import from_ms
from toolkit.kafka_io.logs.log_offsets import read_log_offsets
from toolkit.model import Cluster, LogOffsets, Problem, TopicPartition, Unread
from toolkit.model.records import Excerpt, Header, Record, RecordsAround

SILENCE_S = 5.0  # after a first answer, before which there is a connection to be made
IN_ALL_S = 30.0
MOST_POSITIONS = 20
MOST_RECORDS = 50  # on either side of an offset
MOST_BYTES = 16 * 2**20  # read in all, after which reading stops
FIELD_BYTES = 64 * 2**10  # returned of one key, value or header
MOST_HEADERS = 50
# Offsets without a record, such as the markers that end transactions, lie between records.
GAPS = 4

LOOK = {
    "group.id": "offsetbook-reader",  # required by the client; nothing joins or commits
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    # Also what an open or aborted transaction wrote; the markers themselves are never delivered.
    "isolation.level": "read_uncommitted",
    # A position in the log exists unless the log is truncated meanwhile, which is reported.
    "auto.offset.reset": "error",
    # A consumer that finds a damaged batch is stuck at it, so it must not be passed over here.
    "check.crcs": True,
    "max.partition.fetch.bytes": 65_536,
    "queued.min.messages": 1,
    "queued.max.messages.kbytes": 16_384,
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 2,
}


def read_records_around(
    cluster: Cluster,
    positions: Mapping[TopicPartition, int],
    *,
    before: int = 2,
    after: int = 3,
    whole: bool = False,
) -> RecordsAround:
    """
    Return, for each partition and offset, up to `before` records before it and `after` from it on.

    The record at the offset itself is the first of those that come after; where there is none (a
    transaction's marker, or compaction removed it), the next one that exists. Records of open and
    aborted transactions are among them, which a read_committed consumer does not see. Each count is
    at most 50, and partitions beyond the first 20 become problems, as does what could not be read.
    With `whole`, every byte and header is returned. Raises ClusterUnreachable where no broker
    answers, BrokerRefused where the client cannot be made.
    """
    offsets = dict(islice(sorted(positions.items()), MOST_POSITIONS))
    too_many = f"at most {MOST_POSITIONS} partitions are read at once"
    problems = [Problem(Unread.RECORDS, too_many, None, *p) for p in positions if p not in offsets]
    with connected(cluster) as connection:
        logs, unknown = read_log_offsets(connection, offsets)
    problems += [Problem(Unread.RECORDS, p.why, None, p.topic, p.partition) for p in unknown]
    windows = {}
    before, after = min(before, MOST_RECORDS), min(after, MOST_RECORDS)
    for partition, log in logs.items():
        window = _window(
            log, offsets[partition], min(before, MOST_RECORDS), min(after, MOST_RECORDS)
        )
        if isinstance(window, str):
            problems.append(Problem(Unread.RECORDS, window, None, *partition))
        elif window.start < window.end:
            windows[partition] = window
    reading = _FetchedRecords(windows, whole=whole)
    if windows:
        try:
            with closing(bulk_consumer(cluster, LOOK)) as consumer:
                _read(consumer, reading, cluster.timeout_s)
        except KafkaException as exc:
            raise BrokerRefused(
                f"reading records of cluster {cluster.name}: {exc.args[0].str()}"
            ) from exc
    return RecordsAround(tuple(reading.records()), (*problems, *reading.problems()))


class _Window(NamedTuple):
    """The offsets to read of one partition; `end` is where its log ended."""

    start: int
    end: int
    offset: int
    before: int
    after: int


def _window(log: LogOffsets, offset: int, before: int, after: int) -> _Window | str:
    """Return what is to be read around an offset, or why nothing can be."""
    if log.log_start is None or log.log_end is None:
        return "its log start and end offsets are unknown"
    if offset > log.log_end:
        return f"offset {offset:,} is past the log end offset {log.log_end:,}"
    start = max(log.log_start, offset - before * GAPS)
    return _Window(start, log.log_end, offset, before, after)


class _FetchedRecords:
    """What was read of each partition so far, and which of them are still to come."""

    def __init__(self, windows: Mapping[TopicPartition, _Window], *, whole: bool) -> None:
        self.windows, self.whole = windows, whole
        self.waiting = set(windows)
        self.size_bytes = 0
        self._earlier: dict[TopicPartition, list[Record]] = {p: [] for p in windows}
        self._later: dict[TopicPartition, list[Record]] = {p: [] for p in windows}
        self._why: dict[TopicPartition, str] = {}

    def take(self, message: Message) -> None:
        """Take a record or an error; a complete partition is not waited for any more."""
        partition = TopicPartition(message.topic() or "", message.partition() or 0)
        if partition not in self.waiting:
            return
        if error := message.error():
            self.waiting.discard(partition)
            if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - documented under this name
                self._why[partition] = read_error(error)
            return
        window = self.windows[partition]
        self.size_bytes += len(message) + len(message.key() or b"")
        offset = message.offset() or 0
        if offset < window.offset:
            earlier = self._earlier[partition]
            earlier.append(_record(message, partition, whole=self.whole))
            del earlier[: max(0, len(earlier) - window.before)]
        elif len(self._later[partition]) < window.after:
            self._later[partition].append(_record(message, partition, whole=self.whole))
        if len(self._later[partition]) >= window.after or offset >= window.end - 1:
            self.waiting.discard(partition)

    def give_up(self, why: str) -> None:
        self._why |= dict.fromkeys(self.waiting, why)
        self.waiting.clear()

    def records(self) -> Iterator[Record]:
        """Yield all records in order of partition and offset."""
        for partition in sorted(self.windows):
            yield from self._earlier[partition]
            yield from self._later[partition]

    def problems(self) -> Iterable[Problem]:
        """Return why some partitions were not read to the end."""
        return [Problem(Unread.RECORDS, why, None, *p) for p, why in sorted(self._why.items())]


def _read(consumer: Consumer, reading: _FetchedRecords, timeout_s: float) -> None:
    """Read until every partition is complete, or no record comes any more."""
    consumer.assign([Assignment(*p, window.start) for p, window in reading.windows.items()])
    stop_at = time.monotonic() + IN_ALL_S
    give_up_at = time.monotonic() + max(SILENCE_S, timeout_s)
    while reading.waiting:
        now = time.monotonic()
        if now > min(stop_at, give_up_at):
            reading.give_up("no response within a few seconds")
        elif reading.size_bytes > MOST_BYTES:
            reading.give_up(f"stopped after reading {MOST_BYTES // 2**20} MiB")
        # One at a time: otherwise all fetched records would be copied at once.
        # And not by its truth: a message is as long as its value, so a tombstone is false.
        elif (message := consumer.poll(0.05)) is not None:
            reading.take(message)
            give_up_at = now + SILENCE_S


def _record(message: Message, partition: TopicPartition, *, whole: bool) -> Record:
    kind, timestamp_ms = message.timestamp()
    headers = _headers(message)
    selected = headers if whole else headers[:MOST_HEADERS]
    most = None if whole else FIELD_BYTES
    return Record(
        partition=partition,
        offset=message.offset() or 0,
        at=None if kind == TIMESTAMP_NOT_AVAILABLE else from_ms(timestamp_ms),
        at_append=kind == TIMESTAMP_LOG_APPEND_TIME,
        key=_excerpt(message.key(), most),
        value=_excerpt(message.value(), most),
        headers=tuple(Header(name, _excerpt(value, most)) for name, value in selected),
        headers_left_out=len(headers) - len(selected),
        at_ms=None if kind == TIMESTAMP_NOT_AVAILABLE else timestamp_ms,
    )


def _headers(message: Message) -> list[tuple[str, bytes | str | None]]:
    headers = message.headers() or []
    return list(headers.items()) if isinstance(headers, dict) else list(headers)


def _excerpt(field: bytes | str | None, most: int | None) -> Excerpt | None:
    if field is None:
        return None
    whole = field.encode() if isinstance(field, str) else field
    return Excerpt(whole[:most], len(whole))
