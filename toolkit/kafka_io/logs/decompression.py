"""Decompress the records of a batch: gzip, snappy, lz4 and zstd, by Arrow."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from toolkit.kafka_io.logs.fetch import CorruptBatch

CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
SNAPPY_STREAM, SNAPPY_HEADER_BYTES = b"\x82SNAPPY\0", 16
LARGEST = 2**30  # bytes of records in one response, decompressed


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
