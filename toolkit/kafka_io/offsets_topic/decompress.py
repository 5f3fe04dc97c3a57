"""Decompress the records of a batch: gzip, snappy, lz4 and zstd, by pyarrow."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

CODECS = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
SNAPPY_STREAM, SNAPPY_HEADER_BYTES = b"\x82SNAPPY\0", 16
LARGEST = 2**30  # bytes of records in one response, decompressed


class CorruptBatch(ValueError):
    """Bytes that are no record batch, or that cannot be decompressed."""


def decompress(codec: int, held: Any) -> Any:
    """Return the records of a batch, by the number of its codec; raises CorruptBatch."""
    try:
        if not codec:
            return held
        if CODECS[codec] == "snappy":
            return b"".join(_snappy_blocks(held.to_pybytes()))
        return pa.CompressedInputStream(pa.BufferReader(held), CODECS[codec]).read()
    except (KeyError, IndexError, struct.error, OSError, pa.ArrowException) as exc:
        raise CorruptBatch(f"it cannot be decompressed: {exc}") from exc


def _snappy_blocks(held: bytes) -> Iterator[bytes]:
    """Yield the content of the blocks that Java writes, or of the only block of other clients."""
    if not held.startswith(SNAPPY_STREAM):
        yield _snappy_block(held)
        return
    place = SNAPPY_HEADER_BYTES
    while place < len(held):
        (size,) = struct.unpack_from(">i", held, place)
        if size < 0:
            raise CorruptBatch("it cannot be decompressed: the length of a block is wrong")
        yield _snappy_block(held[place + 4 : place + 4 + size])
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
