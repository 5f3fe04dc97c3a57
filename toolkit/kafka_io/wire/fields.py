"""
The fields of Kafka's messages, read and written in sequence.

Integers are big-endian. In plain messages a string has an int16 length and an array or a byte
string an int32 length, -1 for null. Flexible messages (KIP-482) write lengths as an unsigned
varint, one too high so that 0 is null, and end every struct with a section of tagged fields. The
limits are those of Kafka's own reader (MessageUtil, ByteUtils): a varint has at most five bytes, a
string at most 32,767.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

from toolkit.model import TopicPartition

Element = TypeVar("Element")

VARINT_BYTES = 5
LONGEST_STRING = 0x7FFF
NO_TAGS = b"\0"


class MalformedMessage(ValueError):
    """Bytes that are not the message they should be, or of a type or version not known here."""


class FieldReader:
    """A position in unchecked bytes; every read raises MalformedMessage where they do not fit."""

    __slots__ = ("_data", "_flexible", "_position", "_what")

    def __init__(self, data: bytes, what: str, *, flexible: bool = False) -> None:
        """Begin at the start of `data`; `what` it is goes into the errors."""
        self._data = data
        self._what = what
        self._position = 0
        self._flexible = flexible

    @property
    def is_at_end(self) -> bool:
        return self._position == len(self._data)

    def version(self, newest: int, *, flexible_from: int) -> int:
        """Read the version that a value begins with, which decides how the rest is laid out."""
        version = self.int16()
        if not 0 <= version <= newest:
            raise MalformedMessage(f"{self._what} version {version}")
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
            if self._position >= len(self._data):
                raise self.refusal("truncated")
            byte = self._data[self._position]
            self._position += 1
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

    def nullable_blob(self) -> bytes | None:
        length = self._length()
        return None if length == -1 else self.take(length)

    def count(self) -> int:
        """Read the length of an array or byte string that is not null."""
        length = self._length()
        if length < 0:
            raise self.refusal("a missing list")
        if length > len(self._data) - self._position:
            raise self.refusal("an invalid length")
        return length

    def list_of(self, read: Callable[[], Element]) -> list[Element]:
        """Read an array with a function for one element."""
        return [read() for _ in range(self.count())]

    def partitions(self) -> list[TopicPartition]:
        """Read an array of topics with an array of int32 partitions each; null counts as empty."""
        found: list[TopicPartition] = []
        for _ in range(self._length()):
            topic, count = self.text(), max(0, self._length())
            numbers = struct.unpack(f">{count}i", self.take(4 * count))
            found += [TopicPartition(topic, number) for number in numbers]
        return found

    def tags(self, sizes: Mapping[int, int] | None = None) -> dict[int, bytes]:
        """
        Read the tagged fields that end a struct of a flexible message; {} in a plain one.

        `sizes` are those of the fields that are known, for which Kafka does not look at the size.
        """
        count = self.uvarint() if self._flexible else 0
        return dict(self._tags(count, sizes or {})) if count else {}

    def _tags(self, count: int, sizes: Mapping[int, int]) -> Iterator[tuple[int, bytes]]:
        for _ in range(count):
            tag, size = self.uvarint(), self.uvarint()
            if size != sizes.get(tag, size):
                raise self.refusal("a tagged field with a wrong size")
            yield tag, self.take(size)

    def take(self, size: int) -> bytes:
        start, end = self._position, self._position + size
        if not start <= end <= len(self._data):
            raise self.refusal("truncated")
        self._position = end
        return self._data[start:end]

    def peek(self, size: int) -> bytes:
        """Return the next bytes, which are still to be read."""
        found = self.take(size)
        self._position -= size
        return found

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._position)

    def end(self) -> None:
        """Make sure that nothing is left."""
        if not self.is_at_end:
            raise self.refusal("extra bytes at the end")

    def refusal(self, why: str) -> MalformedMessage:
        return MalformedMessage(f"malformed {self._what}: {why}")

    def _length(self) -> int:
        return self.uvarint() - 1 if self._flexible else self.int32()

    def _integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)


def int16(number: int) -> bytes:
    return struct.pack(">h", number)


def int32(number: int) -> bytes:
    return struct.pack(">i", number)


def int64(number: int) -> bytes:
    return struct.pack(">q", number)


def string(text: str) -> bytes:
    data = text.encode("utf-8", "surrogatepass")
    return int16(len(data)) + data


def optional_bytes(data: bytes | None) -> bytes:
    return int32(-1) if data is None else int32(len(data)) + data


def strings(texts: Iterable[str]) -> bytes:
    """Write an array of strings, sorted."""
    listed = sorted(texts)
    return int32(len(listed)) + b"".join(map(string, listed))


def partitions(places: Iterable[TopicPartition]) -> bytes:
    """Write an array of topics, each with an array of its partitions, both sorted."""
    topics: dict[str, list[int]] = {}
    for topic, number in sorted(places):
        topics.setdefault(topic, []).append(number)
    written = [int32(len(topics))]
    for topic, numbers in topics.items():
        written += [string(topic), int32(len(numbers)), *map(int32, numbers)]
    return b"".join(written)


def topic_id_text(data: bytes) -> str | None:
    """Return the 16 bytes of a topic id as Kafka's tools write them; None for Kafka's "none"."""
    return urlsafe_b64encode(data).decode().rstrip("=") if any(data) else None


def varint(number: int) -> bytes:
    """Return a number in groups of seven bits, the lowest first."""
    groups = bytearray()
    while number >= 0x80:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def compact_text(text: str) -> bytes:
    """Return a text after its length, for flexible messages."""
    data = text.encode("utf-8", "surrogatepass")
    return varint(len(data) + 1) + data
