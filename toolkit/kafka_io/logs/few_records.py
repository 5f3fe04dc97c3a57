"""Few records, decoded one by one by the client's own decoder: no numpy and no Arrow is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka.errors import UnsupportedCodecError
from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch

from toolkit.kafka_io.logs.fetch import (
    DECODE_ERRORS,
    BatchOfTransaction,
    CorruptBatch,
    Fetched,
    are_aborted,
)


class KeyedRecord(NamedTuple):
    """A record with a key; `written_ms` is -1 where no time is known."""

    key: bytes
    value: bytes | None
    offset: int
    written_ms: int


def committed_one_by_one(fetched: Fetched, offsets: range) -> list[KeyedRecord]:
    """
    Return the committed records with a key and an offset in the range.

    Raises CorruptBatch, and UnsupportedCodecError where a batch is compressed in a way that the
    client cannot read by itself.
    """
    data, _, end = fetched.batches
    try:
        batches = [*MemoryRecords(data[:end])]
        # The marker of a transaction is a record: it is read only where one was aborted.
        rows = [_row(batch) for batch in batches] if fetched.aborted else []
        is_aborted = are_aborted(rows, fetched.aborted) if rows else [False] * len(batches)
        return [
            record
            for batch, left_out in zip(batches, is_aborted, strict=True)
            if not left_out and not _is_control(batch)
            for record in _keyed(batch)
            if record.offset in offsets
        ]
    except UnsupportedCodecError:
        raise
    except DECODE_ERRORS as exc:
        raise CorruptBatch(f"it cannot be decoded: {exc}") from exc


def _keyed(batch: Any) -> Iterator[KeyedRecord]:
    for record in batch:
        if record.key is not None:
            written_ms = -1 if record.timestamp is None else record.timestamp
            yield KeyedRecord(record.key, record.value, record.offset, written_ms)


def _is_control(batch: Any) -> bool:
    return isinstance(batch, DefaultRecordBatch) and bool(batch.is_control_batch)


def _row(batch: Any) -> BatchOfTransaction:
    if not isinstance(batch, DefaultRecordBatch):
        return BatchOfTransaction(-1, batch.base_offset, False, False)
    is_abort_marker = batch.is_control_batch and not any(record.commit for record in batch)
    return BatchOfTransaction(
        batch.producer_id, batch.last_offset, batch.is_transactional, is_abort_marker
    )
