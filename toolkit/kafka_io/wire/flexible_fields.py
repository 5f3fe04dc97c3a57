"""
Fields of flexible messages (KIP-482), for messages of which the client is slow to make objects.

Lengths of compact arrays and texts are varints, one too high so that 0 is null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Reader = TypeVar("Reader", bound="FlexibleReader")
Answer = TypeVar("Answer")

ENDS_EARLY = "the answer ends early"
NO_TAGS = b"\0"


class FlexibleReader:
    """Reads fields in sequence."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = memoryview(data), 0

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "big", signed=True)

    def text(self) -> str:
        """Read a compact text, "" for null."""
        size = max(self.varint() - 1, 0)
        self.at += size
        return str(self.data[self.at - size : self.at], "utf-8")

    def varint(self) -> int:
        """Read a number in groups of seven bits, the lowest first."""
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def skip_tags(self) -> None:
        for _ in range(self.varint()):
            self.varint()
            self.at += self.varint()


def read_whole(reader: Reader, read: Callable[[Reader], Answer]) -> Answer:
    """Return what is read; raises ValueError for bytes that end before it does."""
    try:
        found = read(reader)
    except IndexError as exc:
        raise ValueError(ENDS_EARLY) from exc
    if reader.at > len(reader.data):
        raise ValueError(ENDS_EARLY)
    return found


def varint(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def compact_text(text: str) -> bytes:
    """Return a text after its length."""
    data = text.encode("utf-8", "surrogatepass")
    return varint(len(data) + 1) + data
