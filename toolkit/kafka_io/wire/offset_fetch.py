"""
OffsetFetch version 8 (KIP-709), answered in columns.

The client makes an object for each partition, which takes five times as long, and a large cluster
has a million committed offsets.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import OffsetFetchRequest, OffsetFetchResponse

from toolkit.kafka_io.wire.fields import FieldReader

VERSION = 8  # of many groups; version 10 replaces topic names by ids
# A partition without metadata: number, offset, leader epoch, length of metadata, error, no tags.
PLAIN = struct.Struct(">iqiBhB")
FIXED = struct.Struct(">iqi")
EMPTY_TEXT = 1  # the lengths of compact texts are one more, and that of null is 0


class FetchedTopic(NamedTuple):
    """What a group has of one topic, a column for each field."""

    name: str
    partitions: Sequence[int]
    offsets: Sequence[int]
    epochs: Sequence[int]
    metadata: Sequence[str] | None  # None: none has any
    error_codes: Sequence[int]


class FetchedGroup(NamedTuple):
    """The answer about one group."""

    group_id: str
    topics: list[FetchedTopic]
    error_code: int


@dataclass(slots=True)
class FetchedOffsets:
    """The whole answer."""

    throttle_time_ms: int
    groups: list[FetchedGroup]


class _OffsetFetchHeader(RequestHeader, init=False):
    def get_response_class(self) -> type[OffsetFetchColumns]:
        return OffsetFetchColumns


class OffsetFetchOfGroups(OffsetFetchRequest, init=False):
    """Ask a coordinator for the offsets of groups; the answer is `FetchedOffsets`."""

    header_class = _OffsetFetchHeader


class OffsetFetchColumns:
    """The class of the answer, as the client's protocol asks for one."""

    parse_header = OffsetFetchResponse[VERSION].parse_header

    @staticmethod
    def decode(data: Any) -> FetchedOffsets:
        """Return the response; raises MalformedMessage for bytes that are none."""
        return _FetchReader(data.read(), "OffsetFetch response", flexible=True).offsets()


class _FetchReader(FieldReader):
    """Reads the fields of the answer."""

    def offsets(self) -> FetchedOffsets:
        found = FetchedOffsets(self.int32(), self.list_of(self.group))
        self.tags()
        return found

    def group(self) -> FetchedGroup:
        found = FetchedGroup(self.text(), self.list_of(self.topic), self.int16())
        self.tags()
        return found

    def topic(self) -> FetchedTopic:
        name, count = self.text(), self.count()
        rows = self.peek(count * PLAIN.size)
        numbers, offsets, epochs, sizes, codes, tags = (
            zip(*PLAIN.iter_unpack(rows), strict=True) if count else [()] * 6
        )
        metadata = None
        # The first that is not plain is still read at its place, so none is taken for another.
        if max(sizes, default=0) > EMPTY_TEXT or any(tags):
            cells = [self.partition() for _ in range(count)]
            numbers, offsets, epochs, metadata, codes = zip(*cells, strict=True)
        else:
            self.take(len(rows))
        self.tags()
        return FetchedTopic(name, numbers, offsets, epochs, metadata, codes)

    def partition(self) -> tuple[int, int, int, str, int]:
        number, offset, epoch = FIXED.unpack(self.take(FIXED.size))
        metadata, error_code = self.nullable_text() or "", self.int16()
        self.tags()
        return number, offset, epoch, metadata, error_code
