"""The fields that consumers' own messages are made of: strings, integers, arrays, bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from toolkit.model import TopicPartition


class Unreadable(ValueError):
    """The bytes are not what they should be."""


class ProtocolReader:
    """Reads fields one after another; raises Unreadable where there is no such field."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._data)

    def int16(self) -> int:
        return int(struct.unpack(">h", self._take(2))[0])

    def int32(self) -> int:
        return int(struct.unpack(">i", self._take(4))[0])

    def string(self) -> str:
        try:
            return self._take(self.int16()).decode()
        except UnicodeDecodeError as exc:
            raise Unreadable(str(exc)) from exc

    def optional_bytes(self) -> bytes | None:
        size = self.int32()
        return None if size == -1 else self._take(size)

    def strings(self) -> list[str]:
        count = self.int32()
        if count < 0:
            raise Unreadable(f"an array of {count} strings")
        return [self.string() for _ in range(count)]

    def partitions(self) -> frozenset[TopicPartition]:
        """Read an array of topics with an array of partitions each; none at all counts as empty."""
        found = []
        for _ in range(self.int32()):
            topic = self.string()
            found += [TopicPartition(topic, self.int32()) for _ in range(self.int32())]
        return frozenset(found)

    def raw(self, size: int) -> bytes:
        return self._take(size)

    def rest(self) -> bytes:
        return self._take(len(self._data) - self._at)

    def _take(self, size: int) -> bytes:
        taken = self._data[self._at : self._at + size]
        if size < 0 or len(taken) != size:
            raise Unreadable(f"{size} bytes at {self._at} of {len(self._data)}")
        self._at += size
        return taken


def int16(number: int) -> bytes:
    return struct.pack(">h", number)


def int32(number: int) -> bytes:
    return struct.pack(">i", number)


def string(text: str) -> bytes:
    data = text.encode()
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
