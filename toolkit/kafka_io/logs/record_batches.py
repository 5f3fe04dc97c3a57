"""
Decode record batches as brokers keep and send them, all records of a response at once.

A batch is a header of fixed size and its records, each of which says how long it is; integers in a
record are varints. Source: DefaultRecordBatch and DefaultRecord of Apache Kafka. Checksums are not
verified. Records are decompressed (gzip, snappy, lz4, zstd) by pyarrow. Batches of the formats
before Kafka 0.11 go through the client's own decoder.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from itertools import groupby, starmap
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from kafka.record import MemoryRecords

from toolkit.kafka_io.logs.byte_columns import ByteColumn, Numbers, column
from toolkit.kafka_io.logs.fetch import (
    CURRENT_FORMAT,
    DECODE_ERRORS,
    FORMAT_AT,
    HEADER_BYTES,
    BatchBytes,
    BatchOfTransaction,
    CorruptBatch,
    are_aborted,
)

CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
SNAPPY_STREAM, SNAPPY_HEADER_BYTES = b"\x82SNAPPY\0", 16
LARGEST = 2**30  # bytes of records in one response, decompressed

CODEC, LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x07, 0x08, 0x10, 0x20  # attributes
COMMIT_MARKER = 1
SHORTEST_RECORD = 7  # bytes
LONGEST_VARINT = 10
FEW = 40  # batches: of fewer, it is faster to go through the records one by one
NO_TIME = -1


def decompress(codec: int, data: Any) -> Any:
    """Return the records of a batch, by the number of its codec; raises CorruptBatch."""
    compressed = pa.py_buffer(data)
    try:
        if not codec:
            return compressed
        if CODECS[codec] == "snappy":
            return b"".join(_snappy_blocks(compressed.to_pybytes()))
        return pa.CompressedInputStream(pa.BufferReader(compressed), CODECS[codec]).read()
    except (KeyError, IndexError, struct.error, OSError, pa.ArrowException) as exc:
        raise CorruptBatch(f"it cannot be decompressed: {exc}") from exc


def _snappy_blocks(compressed: bytes) -> Iterator[bytes]:
    """Yield the content of the blocks that Java writes, or of the only block of other clients."""
    if not compressed.startswith(SNAPPY_STREAM):
        yield _snappy_block(compressed)
        return
    place = SNAPPY_HEADER_BYTES
    while place < len(compressed):
        (size,) = struct.unpack_from(">i", compressed, place)
        if size < 0:
            raise CorruptBatch("it cannot be decompressed: the length of a block is wrong")
        yield _snappy_block(compressed[place + 4 : place + 4 + size])
        place += 4 + size


def _snappy_block(block: bytes) -> bytes:
    # It begins with its size, decompressed, as a varint without a sign.
    size = 0
    for shift, byte in zip(range(0, 35, 7), block, strict=False):
        size |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    if size > LARGEST:
        raise CorruptBatch(f"its records are larger than {LARGEST // 2**30} GiB")
    return pa.Codec("snappy").decompress(block, size, asbytes=True)  # type: ignore[no-any-return] # Arrow is untyped


class Records(NamedTuple):
    """Records of one partition as they were read, in the order of their offsets."""

    partition: int
    keys: Any  # Arrow binary
    values: Any  # Arrow binary, null: a tombstone
    offsets: Numbers
    written_ms: Numbers


class Batches(NamedTuple):
    """The batches in a response, a row each."""

    data: Any  # uint8
    starts: Numbers
    ends: Numbers
    formats: Numbers
    attributes: Numbers
    base_offsets: Numbers
    last_offsets: Numbers
    base_ms: Numbers
    last_ms: Numbers
    producer_ids: Numbers
    counts: Numbers  # of records

    def have(self, attribute: int) -> Any:
        """Return which batches have an attribute."""
        return (self.attributes & attribute) != 0

    def only(self, rows: Any) -> Batches:
        return Batches(self.data, *(column[rows] for column in self[1:]))

    def commit_markers(self) -> Any:
        """Return which batches mark the end of a transaction that is committed."""
        marks = np.zeros(len(self.counts), bool)
        # Compaction may leave a batch without its record.
        rows = np.flatnonzero(self.have(CONTROL) & (self.counts == 1))
        # The key of its only record is a version and a type.
        keys = column(records_of(0, self.only(rows)).keys)
        marks[rows] = keys.int_at(keys.starts + 2, 2) == COMMIT_MARKER
        return marks

    def committed(self, aborted: Sequence[Any]) -> Batches:
        """Return the batches of records that a consumer with read_committed is given."""
        is_control = self.have(CONTROL)
        if not aborted:
            return self.only(~is_control)
        columns = self.have(TRANSACTIONAL), is_control & ~self.commit_markers()
        rows = zip(
            *(column.tolist() for column in (self.producer_ids, self.last_offsets, *columns)),
            strict=True,
        )
        is_aborted = np.array(are_aborted(starmap(BatchOfTransaction, rows), aborted), bool)
        return self.only(~is_control & ~is_aborted)


class _Sections(NamedTuple):
    """Where the records of each batch lie, decompressed."""

    data: Any  # uint8
    begins: Numbers
    ends: Numbers


def batches_of(found: BatchBytes) -> Batches:
    """Return the headers of some batches."""
    data, starts, place = found
    at = np.array(starts, np.int64)
    column = ByteColumn(
        np.frombuffer(data, np.uint8), at, np.append(at[1:], place)[: len(at)], None
    )
    formats, base_offsets = column.byte_at(at + FORMAT_AT), column.int_at(at, 8)
    is_current = formats == CURRENT_FORMAT
    if np.any(is_current & (column.lengths < HEADER_BYTES)):
        raise CorruptBatch("its header is cut off")
    return Batches(
        column.data,
        at,
        column.ends,
        formats,
        np.where(is_current, column.int_at(at + 21, 2), 0),
        base_offsets,
        base_offsets + np.where(is_current, column.int_at(at + 23, 4), 0),
        column.int_at(at + 27, 8),
        column.int_at(at + 35, 8),
        column.int_at(at + 43, 8),
        column.int_at(at + 57, 4),
    )


def concat_records(parts: list[Records]) -> Records:
    """Return records that follow each other in one piece."""
    return Records(
        parts[0].partition,
        pa.concat_arrays([part.keys for part in parts]),
        pa.concat_arrays([part.values for part in parts]),
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.written_ms for part in parts]),
    )


def records_of(number: int, batches: Batches) -> Records:
    """
    Decode the records of some batches, all those of a partition; a record without a key has null.

    Raises CorruptBatch.
    """
    if np.all(batches.formats == CURRENT_FORMAT):
        return _current(number, batches)
    parts, row = [], 0
    for is_current, run in groupby((batches.formats == CURRENT_FORMAT).tolist()):
        rows = slice(row, row + len([*run]))
        parts.append((_current if is_current else _legacy)(number, batches.only(rows)))
        row = rows.stop
    return concat_records(parts)


def _current(number: int, batches: Batches) -> Records:
    sections = _decompressed(batches)
    at = _record_starts(sections, batches.counts)
    ends = np.empty_like(at)
    ends[:-1] = at[1:]
    ends[(np.cumsum(batches.counts) - 1)[batches.counts > 0]] = sections.ends[batches.counts > 0]
    records = ByteColumn(sections.data, at, ends, None)
    _, place = _varints(records.data, at)
    late_ms, place = _varints(
        records.data, place + 1
    )  # a byte of attributes, of which none is used
    ahead, place = _varints(records.data, place)
    length, key_at = _varints(records.data, place)
    key_end = key_at + np.maximum(length, 0)
    value_length, value_at = _varints(records.data, key_end)
    value_size = np.maximum(value_length, 0)
    wrong = (records.lengths < SHORTEST_RECORD) | (length < -1) | (length > ends - key_at)
    # At least one byte follows, the number of headers.
    if np.any(wrong | (value_length < -1) | (value_size >= ends - value_at)):
        raise CorruptBatch("the length of a record is wrong")
    by_broker = batches.have(LOG_APPEND_TIME)
    if by_broker.any():
        late_ms = np.where(np.repeat(by_broker, batches.counts), 0, late_ms)
    base_ms = np.where(by_broker, batches.last_ms, batches.base_ms)
    return Records(
        number,
        records.parts(key_at, key_end, length >= 0, null=length < 0),
        records.parts(value_at, value_at + value_size, value_length >= 0, null=value_length < 0),
        np.repeat(batches.base_offsets, batches.counts) + ahead,
        np.repeat(base_ms, batches.counts) + late_ms,
    )


def _decompressed(batches: Batches) -> _Sections:
    begins, ends = batches.starts + HEADER_BYTES, batches.ends
    codecs = (batches.attributes & CODEC).tolist()
    if not any(codecs):
        return _Sections(batches.data, begins, ends)
    pieces = []
    for codec, begin, end in zip(codecs, begins.tolist(), ends.tolist(), strict=True):
        pieces.append(decompress(codec, batches.data[begin:end]))
    sizes = np.array([len(piece) for piece in pieces], np.int64)
    if sizes.sum() > LARGEST:
        raise CorruptBatch(f"its records are larger than {LARGEST // 2**30} GiB")
    edges = np.append(0, np.cumsum(sizes))
    return _Sections(np.frombuffer(b"".join(pieces), np.uint8), edges[:-1], edges[1:])


def _record_starts(sections: _Sections, counts: Numbers) -> Numbers:
    """Return where the records of all batches begin, batch after batch."""
    if np.any((counts < 0) | (counts > (sections.ends - sections.begins) // SHORTEST_RECORD)):
        raise CorruptBatch("the number of its records is wrong")
    first = np.cumsum(counts) - counts
    found, steps, place = _in_step(sections, counts, first)
    rest = np.flatnonzero(place != sections.ends)
    data = sections.data.tobytes() if len(rest) else b""
    for row in rest.tolist():
        done = min(steps, int(counts[row]))
        # From where it came to; from its begin, if it did not come on in one of the steps.
        for begin, step in ((place[row], done), (sections.begins[row], 0)):
            starts, end = _walk(data, int(begin), int(counts[row]) - step)
            found[first[row] + step : first[row] + counts[row]] = starts
            if end == sections.ends[row]:
                break
        else:
            raise CorruptBatch("the length of a record is wrong")
    return found


def _in_step(sections: _Sections, counts: Numbers, first: Numbers) -> tuple[Numbers, int, Numbers]:
    """
    Go from record to record in all batches at once, while there are enough of them.

    Returns the begin of each record so far, the number of steps, and where each batch came to,
    which is not its end where a record is larger than 8 KiB.
    """
    found = np.empty(counts.sum(), np.int64)
    longest_first = np.argsort(-counts, kind="stable")
    place, target = sections.begins[longest_first], first[longest_first]
    last = len(sections.data) - 2
    pairs = np.ndarray((max(0, last + 1),), "<u2", sections.data, strides=(1,))
    going_on = len(counts) - np.cumsum(np.bincount(counts)) if len(counts) else counts
    steps = int(np.count_nonzero(going_on >= FEW))
    for step, width in enumerate(going_on[:steps].tolist()):
        here = place[:width]
        found[target[:width] + step] = here
        here += STRIDES[pairs[np.minimum(here, last)]]
    came_to = np.empty_like(place)
    came_to[longest_first] = place
    return found, steps, came_to


def _strides() -> Numbers:
    """Return how long a record is by its first two bytes; 0: it takes more to know."""
    first, second = np.arange(2**16) & 0xFF, np.arange(2**16) >> 8
    length = np.where(first < 0x80, first, (first & 0x7F) | (second << 7))
    known = (length % 2 == 0) & ((first < 0x80) | (second < 0x80))
    return np.where(known, length // 2 + np.where(first < 0x80, 1, 2), 0)


STRIDES = _strides()


def _walk(data: bytes, place: int, count: int) -> tuple[list[int], int]:
    """Return where some records begin that follow each other, and where the last one ends."""
    starts = [place] * count
    try:
        for number in range(count):
            starts[number] = place
            length, shift = data[place], 7
            place += 1
            while length >> shift:  # the highest bit so far says that more follows
                length += (data[place] - 1) << shift
                place += 1
                shift += 7
            place += length >> 1
    except IndexError:
        raise CorruptBatch("the length of a record is wrong") from None
    return starts, place


def _varints(data: Any, at: Numbers) -> tuple[Numbers, Numbers]:
    """Return the number at each place, and where what follows it begins."""
    # A corrupt length may lead anywhere, which is noticed later.
    byte = data.take(at, mode="clip")
    number, place = (byte & 0x7F).astype(np.uint64), at + 1
    shift, more = 7, byte >= 0x80
    while shift < 7 * LONGEST_VARINT and more.any():
        byte = data.take(place, mode="clip")
        number |= np.where(more, byte & 0x7F, 0).astype(np.uint64) << np.uint64(shift)
        place += more
        more &= byte >= 0x80
        shift += 7
    signs = np.uint64(0) - (number & np.uint64(1))
    return ((number >> np.uint64(1)) ^ signs).view(np.int64), place


def _legacy(number: int, batches: Batches) -> Records:
    data = batches.data[batches.starts[0] : batches.ends[-1]].tobytes()
    try:
        found = [record for batch in MemoryRecords(data) for record in batch]
    except DECODE_ERRORS as exc:
        raise CorruptBatch(f"it cannot be decoded: {exc}") from exc
    times = [NO_TIME if record.timestamp is None else record.timestamp for record in found]
    return Records(
        number,
        pa.array([record.key for record in found], pa.binary()),
        pa.array([record.value for record in found], pa.binary()),
        np.array([record.offset for record in found], np.int64),
        np.array(times, np.int64),
    )
