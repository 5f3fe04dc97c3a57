"""
Few records, decoded one by one by the client's own decoder: no numpy is loaded for them.

Arrow decompresses what the client cannot without more packages: snappy, lz4 and zstd.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafka.record import MemoryRecords
from kafka.record.default_records import DefaultRecordBatch

from toolkit.kafka_io.logs.fetch import (
    DECODE_ERRORS,
    HEADER_BYTES,
    BatchBytes,
    BatchOfTransaction,
    CorruptBatch,
    Fetched,
    are_aborted,
)

ATTRIBUTES = slice(21, 23)  # of a batch


class KeyedRecord(NamedTuple):
    """A record with a key; `written_ms` is -1 where no time is known."""

    key: bytes
    value: bytes | None
    offset: int
    written_ms: int


def committed_one_by_one(fetched: Fetched, offsets: range) -> list[KeyedRecord]:
    """Return the committed records with a key and an offset in the range; raises CorruptBatch."""
    try:
        batches = [*_batches(fetched.batches)]
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
    except DECODE_ERRORS as exc:
        raise CorruptBatch(f"it cannot be decoded: {exc}") from exc


def every_record(batches: BatchBytes) -> Iterator[Any]:
    """
    Yield the client's records, also of aborted and open transactions, and no markers.

    Raises CorruptBatch, also where a checksum does not match: a consumer is stuck at such a batch.
    """
    try:
        for batch in _batches(batches, check_crc=True):
            if not _is_control(batch):
                yield from batch
    except DECODE_ERRORS as exc:
        raise CorruptBatch(f"it cannot be decoded: {exc}") from exc


def _batches(found: BatchBytes, *, check_crc: bool = False) -> Iterator[Any]:
    for start, end in zip(found.starts, [*found.starts[1:], found.end], strict=True):
        data = found.data[start:end]
        for batch in MemoryRecords(data):
            if check_crc and not batch.validate_crc():
                raise CorruptBatch("its checksum is wrong")
            is_current = isinstance(batch, DefaultRecordBatch)
            yield _decompressed(data, batch) if is_current else batch


def _decompressed(data: bytes, batch: Any) -> Any:
    if batch.compression_type in {DefaultRecordBatch.CODEC_NONE, DefaultRecordBatch.CODEC_GZIP}:
        return batch
    from toolkit.kafka_io.logs.record_batches import decompress  # noqa: PLC0415 - loads Arrow

    plain = bytearray(data[:HEADER_BYTES])
    plain[ATTRIBUTES] = (batch.attributes & ~DefaultRecordBatch.CODEC_MASK).to_bytes(2, "big")
    return DefaultRecordBatch(plain + decompress(batch.compression_type, data[HEADER_BYTES:]))


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
