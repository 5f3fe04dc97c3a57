"""
The fields of Kafka's messages, read in sequence from unchecked bytes.

Integers are big-endian. In plain messages a string has an int16 length and an array or a byte
string an int32 length, -1 for null. Flexible messages write lengths as an unsigned varint, one too
high so that 0 is null, and end every struct with a section of tagged fields. The limits are those
of Kafka's own reader (MessageUtil, ByteUtils): a varint has at most five bytes, a string at most
32,767.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from toolkit.kafka_io.offsets_topic.partitions import UnknownRecord

Element = TypeVar("Element")

VARINT_BYTES = 5
LONGEST_STRING = 0x7FFF


class FieldReader:
    """A position in some bytes; every read raises UnknownRecord where they do not hold it."""

    __slots__ = ("_data", "_flexible", "_position", "_what")

    def __init__(self, data: bytes, what: str, *, flexible: bool = False) -> None:
        """Begin at the start of `data`; `what` it is goes into the errors."""
        self._data = data
        self._what = what
        self._position = 0
        self._flexible = flexible

    def version(self, newest: int, *, flexible_from: int) -> int:
        """Read the version that a value begins with, which decides how the rest is laid out."""
        version = self.int16()
        if not 0 <= version <= newest:
            raise UnknownRecord(f"{self._what} version {version}")
        self._flexible = version >= flexible_from
        return version

    def int8(self) -> int:
        return self._integer(1)

    def int16(self) -> int:
        return self._integer(2)

    def int32(self) -> int:
        return self._integer(4)

    def int64(self) -> int:
        return self._integer(8)

    def uvarint(self) -> int:
        """Read a number in groups of seven bits, the lowest first."""
        number = 0
        for shift in range(0, 7 * VARINT_BYTES, 7):
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number >= 2**31:
                    break
                return number
        raise self.refusal("a number out of range")

    def text(self) -> str:
        text = self.nullable_text()
        if text is None:
            raise self.refusal("a missing string")
        return text

    def nullable_text(self) -> str | None:
        length = self.uvarint() - 1 if self._flexible else self.int16()
        if length < 0:
            return None
        if length > LONGEST_STRING:
            raise self.refusal("a string that is too long")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            raise self.refusal("a string that is not UTF-8") from None

    def blob(self) -> bytes:
        return self.take(self.count())

    def count(self) -> int:
        """Read the length of an array or byte string that is not null."""
        length = self.uvarint() - 1 if self._flexible else self.int32()
        if length < 0:
            raise self.refusal("a missing list")
        if length > len(self._data) - self._position:
            raise self.refusal("an invalid length")
        return length

    def list_of(self, read: Callable[[], Element]) -> list[Element]:
        """Read an array with a function for one element."""
        return [read() for _ in range(self.count())]

    def tags(self, sizes: Mapping[int, int] | None = None) -> dict[int, bytes]:
        """
        Read the tagged fields that end a struct of a flexible message; {} in a plain one.

        `sizes` are those of the fields that are known, for which Kafka does not look at the size.
        """
        return dict(self._tags(sizes or {})) if self._flexible else {}

    def _tags(self, sizes: Mapping[int, int]) -> Iterator[tuple[int, bytes]]:
        for _ in range(self.uvarint()):
            tag, size = self.uvarint(), self.uvarint()
            if size != sizes.get(tag, size):
                raise self.refusal("a tagged field with a wrong size")
            yield tag, self.take(size)

    def take(self, size: int) -> bytes:
        end = self._position + size
        if end > len(self._data):
            raise self.refusal("truncated")
        found = self._data[self._position : end]
        self._position = end
        return found

    def end(self) -> None:
        """Make sure that nothing is left."""
        if self._position != len(self._data):
            raise self.refusal("extra bytes at the end")

    def refusal(self, why: str) -> UnknownRecord:
        return UnknownRecord(f"malformed {self._what}: {why}")

    def _integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)
