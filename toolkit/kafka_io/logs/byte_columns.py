"""
Decode integers and strings from a column of byte strings, vectorised.

A column is an Arrow array of binary: one buffer of bytes and the positions where rows begin. The
caller knows what lies within its row; for other rows the number it gets has no meaning.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Numbers = Any  # an array of numpy, int64 by default


class ByteColumn(NamedTuple):
    """The bytes of all rows, and where each begins and ends in them."""

    data: Any  # uint8
    starts: Numbers
    ends: Numbers
    array: Any  # the Arrow array itself

    @property
    def lengths(self) -> Numbers:
        return self.ends - self.starts

    def int_at(self, position: Numbers, size: int) -> Numbers:
        """Return the big-endian number of 2, 4 or 8 bytes at a position of `data` for each row."""
        count = len(self.data) - size + 1
        if count <= 0:
            return np.zeros(len(position), np.int64)
        # A number at every byte, from which those at the positions are taken.
        everywhere = np.ndarray((count,), f">i{size}", self.data, strides=(1,))
        return everywhere[_within(position, count)].astype(np.int64)

    def byte_at(self, position: Numbers) -> Numbers:
        """Return the byte at a position of `data` for each row, as a number without a sign."""
        if not len(self.data):
            return np.zeros(len(position), np.int64)
        return self.data[_within(position, len(self.data))].astype(np.int64)

    def parts(self, starts: Numbers, ends: Numbers, rows: Any, *, null: Any = None) -> Any:
        """
        Return the bytes between two positions of each row that `rows` marks, as binary.

        Other rows are b"", or null where `null` says so.
        """
        # Slots that follow each other over the same bytes: a part, what is up to the next, a part.
        bounds = np.empty((len(self.starts), 2), np.int32)
        bounds[:, 0] = np.where(rows, starts, self.starts)
        bounds[:, 1] = np.where(rows, ends, self.starts)
        slots = np.append(bounds.ravel(), bounds[-1:, 1])
        buffers = [None, pa.py_buffer(slots), pa.py_buffer(self.data)]
        every = pa.Array.from_buffers(pa.binary(), max(0, len(slots) - 1), buffers)
        wanted = np.arange(0, len(slots) - 1, 2)
        known = None if null is None else pa.py_buffer(np.packbits(~null, bitorder="little"))
        return every.take(
            pa.Array.from_buffers(pa.int64(), len(wanted), [known, pa.py_buffer(wanted)])
        )


def _within(position: Numbers, count: int) -> Numbers:
    if len(position) and (position.min() < 0 or position.max() >= count):
        return np.clip(position, 0, count - 1)
    return position


def flags(values: Any) -> Any:
    """Return numpy's booleans as Arrow's; `pa.array` would load pandas for it."""
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])


def column(array: Any) -> ByteColumn:
    """Take an Arrow array or chunked array of binary; the bytes of a null are undefined."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    _, bounds, data = array.buffers()
    count = len(array)
    edges = np.frombuffer(bounds, np.int32)[array.offset : array.offset + count + 1]
    edges = edges.astype(np.int64) if count else np.zeros(1, np.int64)
    content = np.frombuffer(data, np.uint8) if data and data.size else np.zeros(0, np.uint8)
    return ByteColumn(content, edges[:-1], edges[1:], array)


def texts(parts: Any) -> tuple[Any, Any]:
    """Return binary without nulls as text, "" for what is not UTF-8, and of which rows it is."""
    valid = np.ones(len(parts), bool)
    try:
        return parts.cast(pa.string()), valid
    except pa.ArrowInvalid:
        # It does not say where; ASCII can be detected by row, which leaves few to be tried.
        unchecked = pa.StringArray.from_buffers(len(parts), *parts.buffers()[1:])
        for row in np.flatnonzero(~pc.string_is_ascii(unchecked).to_numpy(zero_copy_only=False)):
            try:
                parts[int(row)].as_py().decode()
            except UnicodeDecodeError:
                valid[row] = False
    return pc.if_else(pa.array(valid), parts, pa.scalar(b"")).cast(pa.string()), valid
