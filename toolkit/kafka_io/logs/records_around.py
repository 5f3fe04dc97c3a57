"""
Fetch the records around an offset without committing or joining a group.

The content of a record may be anything and of any size: only the first bytes of each field are
returned, a few megabytes in all, and a partition that does not answer is skipped.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from toolkit.errors import UsageError
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
    aborted transactions are among them, which a read_committed consumer does not see. Partitions
    beyond the first 20 become problems, as does what could not be read. With `whole`, every byte
    and header is returned. Raises UsageError for counts that are not from 0 to 50, and
    ClusterUnreachable where no broker answers.
    """
    for name, count in {"before": before, "after": after}.items():
        if not 0 <= count <= MOST_RECORDS:
            raise UsageError(f"{name} is {count:,}", hint=f"use 0 to {MOST_RECORDS} records")
    offsets = dict(islice(sorted(positions.items()), MOST_POSITIONS))
    too_many = f"at most {MOST_POSITIONS} partitions are read at once"
    why = {partition: too_many for partition in positions if partition not in offsets}
    with connected(cluster) as connection:
        logs, unread = read_log_offsets(connection, offsets)
        windows = [_window(p, log, offsets[p], before, after) for p, log in sorted(logs.items())]
        _read(connection, windows, whole=whole)
    why |= {window.partition: window.why for window in windows if window.why}
    why |= {TopicPartition(p.topic or "", p.partition or 0): p.why for p in unread}
    return RecordsAround(
        tuple(record for window in windows for record in (*window.earlier, *window.later)),
        tuple(Problem(Unread.RECORDS, text, None, *partition) for partition, text in why.items()),
    )


@dataclass(slots=True)
class _Window:
    """The offsets to read of one partition, up to where its log ended, and what was read so far."""

    partition: TopicPartition
    span: range
    offset: int
    after: int
    earlier: deque[Record]
    later: list[Record] = field(default_factory=list)
    is_complete: bool = False
    why: str = ""  # no more could be read

    def take(self, found: Fetched, most_bytes: int, *, whole: bool) -> int:
        """Take the records of a response up to so many bytes, or just over; return how many."""
        size = 0
        try:
            for record in every_record(found.batches):
                if record.offset < self.span.start:
                    continue  # its batch begins before
                if size > most_bytes:
                    return size
                size += len(record.value or b"") + len(record.key or b"")
                self._add(_record(self.partition, record, whole=whole))
                if self.is_complete:
                    return size
        except CorruptBatch as exc:
            self.why = f"a record batch is corrupt: {exc}"
        self.is_complete |= found.batches.last_offset + 1 >= self.span.stop
        return size

    def _add(self, record: Record) -> None:
        if record.offset < self.offset:
            self.earlier.append(record)
        elif len(self.later) < self.after:
            self.later.append(record)
        self.is_complete = len(self.later) >= self.after and record.offset >= self.offset - 1


def _window(
    partition: TopicPartition, log: LogOffsets, offset: int, before: int, after: int
) -> _Window:
    """Return the range to read around an offset, or why it cannot be read."""
    window = _Window(partition, range(0), offset, after, deque(maxlen=before))
    if log.log_start is None or log.log_end is None:
        window.why = "its log start and end offsets are unknown"
    elif offset > log.log_end:
        window.why = f"offset {offset:,} is past the log end offset {log.log_end:,}"
    else:
        window.span = range(max(log.log_start, offset - before * GAPS), log.log_end)
    return window


def _read(connection: Connection, windows: Sequence[_Window], *, whole: bool) -> None:
    """Read until every partition is complete, or no record comes any more."""
    waiting = {window.partition: window for window in windows if window.span}
    spans = {partition: window.span for partition, window in waiting.items()}
    logs = LogReading(connection, spans, READ_UNCOMMITTED, at_most_bytes=ONE_BATCH_BYTES)
    stop_at, left_bytes, why = time.monotonic() + IN_ALL_S, MOST_BYTES, ""
    for found in logs.found():
        if window := waiting.get(found.partition):
            if isinstance(found, NotFetched):
                window.why = found.why
            else:
                left_bytes -= window.take(found, left_bytes, whole=whole)
            if window.why or window.is_complete:
                logs.skip(window.partition)
                del waiting[window.partition]
        if left_bytes < 0:
            why = f"stopped after reading {MOST_BYTES // 2**20} MiB"
        elif time.monotonic() > stop_at:
            why = f"stopped after {IN_ALL_S:g} s"
        if why:
            break
    for window in waiting.values():
        window.why = why


def _record(partition: TopicPartition, found: Any, *, whole: bool) -> Record:
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
