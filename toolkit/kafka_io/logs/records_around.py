"""
Fetch the records around an offset without committing or joining a group.

The content of a record may be anything and of any size: only the first bytes of each field are
returned, a few megabytes in all, and a partition that does not answer is skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.client.timestamps import from_ms
from toolkit.kafka_io.logs.fetch import (
    ONE_BATCH_BYTES,
    CorruptBatch,
    Fetched,
    LogReading,
    NotFetched,
)
from toolkit.kafka_io.logs.few_records import every_record
from toolkit.kafka_io.logs.log_offsets import READ_UNCOMMITTED, read_log_offsets
from toolkit.model import Cluster, LogOffsets, Problem, TopicPartition, Unread
from toolkit.model.records import Excerpt, Header, Record, RecordsAround

IN_ALL_S = 30.0
MOST_POSITIONS = 20
MOST_RECORDS = 50  # on either side of an offset
MOST_BYTES = 16 * 2**20  # read in all, after which reading stops
FIELD_BYTES = 64 * 2**10  # returned of one key, value or header
MOST_HEADERS = 50
# Offsets without a record, such as the markers that end transactions, lie between records.
GAPS = 4

NO_TIME, LOG_APPEND_TIME = -1, 1


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
    answers.
    """
    offsets = dict(islice(sorted(positions.items()), MOST_POSITIONS))
    too_many = f"at most {MOST_POSITIONS} partitions are read at once"
    problems = [Problem(Unread.RECORDS, too_many, None, *p) for p in positions if p not in offsets]
    with connected(cluster) as connection:
        logs, unknown = read_log_offsets(connection, offsets)
        windows, impossible = _windows(logs, offsets, before, after)
        reading = _FetchedRecords(windows, whole=whole)
        _read(connection, reading)
    problems += [Problem(Unread.RECORDS, p.why, None, p.topic, p.partition) for p in unknown]
    problems += [Problem(Unread.RECORDS, why, None, *p) for p, why in impossible.items()]
    return RecordsAround(tuple(reading.records()), (*problems, *reading.problems()))


class _Window(NamedTuple):
    """The offsets to read of one partition; `end` is where its log ended."""

    start: int
    end: int
    offset: int
    before: int
    after: int


def _windows(
    logs: Mapping[TopicPartition, LogOffsets],
    offsets: Mapping[TopicPartition, int],
    before: int,
    after: int,
) -> tuple[dict[TopicPartition, _Window], dict[TopicPartition, str]]:
    """Return what is to be read of each partition, and why nothing can be of others."""
    windows, impossible = {}, {}
    for partition, log in logs.items():
        counts = min(before, MOST_RECORDS), min(after, MOST_RECORDS)
        window = _window(log, offsets[partition], *counts)
        if isinstance(window, str):
            impossible[partition] = window
        elif window.start < window.end:
            windows[partition] = window
    return windows, impossible


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

    def take(self, partition: TopicPartition, found: Any) -> None:
        """Take a record; a complete partition is not waited for any more."""
        window, offset = self.windows[partition], found.offset
        if offset < window.start:
            return  # its batch begins before
        self.size_bytes += len(found.value or b"") + len(found.key or b"")
        if offset < window.offset:
            earlier = self._earlier[partition]
            earlier.append(_record(found, partition, whole=self.whole))
            del earlier[: max(0, len(earlier) - window.before)]
        elif len(self._later[partition]) < window.after:
            self._later[partition].append(_record(found, partition, whole=self.whole))
        if len(self._later[partition]) >= window.after or offset >= window.end - 1:
            self.waiting.discard(partition)

    def fail(self, partition: TopicPartition, why: str) -> None:
        self._why[partition] = why
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


def _read(connection: Connection, reading: _FetchedRecords) -> None:
    """Read until every partition is complete, or no record comes any more."""
    spans = {p: range(window.start, window.end) for p, window in reading.windows.items()}
    logs = LogReading(connection, spans, READ_UNCOMMITTED, at_most_bytes=ONE_BATCH_BYTES)
    stop_at = time.monotonic() + IN_ALL_S
    for found in logs.found():
        if isinstance(found, NotFetched):
            reading.fail(found.partition, found.why)
        else:
            _take(reading, found)
        if time.monotonic() > stop_at:
            reading.give_up(f"stopped after {IN_ALL_S:g} s")
        for partition in spans.keys() - reading.waiting:
            logs.skip(partition)


def _take(reading: _FetchedRecords, found: Fetched) -> None:
    partition = found.partition
    try:
        for record in every_record(found.batches):
            if partition not in reading.waiting:
                return
            if reading.size_bytes > MOST_BYTES:
                reading.give_up(f"stopped after reading {MOST_BYTES // 2**20} MiB")
                return
            reading.take(partition, record)
    except CorruptBatch as exc:
        reading.fail(partition, f"a record batch is corrupt: {exc}")


def _record(found: Any, partition: TopicPartition, *, whole: bool) -> Record:
    at_ms = None if found.timestamp in {None, NO_TIME} else found.timestamp
    selected = found.headers if whole else found.headers[:MOST_HEADERS]
    most = None if whole else FIELD_BYTES
    return Record(
        partition=partition,
        offset=found.offset,
        at=None if at_ms is None else from_ms(at_ms),
        at_append=found.timestamp_type == LOG_APPEND_TIME,
        key=_excerpt(found.key, most),
        value=_excerpt(found.value, most),
        headers=tuple(Header(name, _excerpt(value, most)) for name, value in selected),
        headers_left_out=len(found.headers) - len(selected),
        at_ms=at_ms,
    )


def _excerpt(field: bytes | None, most: int | None) -> Excerpt | None:
    return None if field is None else Excerpt(field[:most], len(field))
