"""
OffsetCommit and OffsetFetch for many partitions, written and read as bytes.

The client makes an object for each partition. A plan may have a million of them, and a large
cluster has a million committed offsets, which are read in columns in a fifth of the time.
OffsetCommit is without a member, in versions 8 and 9, which are the same; OffsetFetch is version 8
(KIP-709).
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)

from toolkit.kafka_io.wire.fields import NO_TAGS, FieldReader, compact_text, int32, varint
from toolkit.model import TopicPartition
from toolkit.plan import Position

OLDEST, NEWEST = 8, 9  # version 10 replaces topic names by ids
NO_KNOWN_EPOCH = -1
# No member and no generation of one: what brokers accept while a group is idle; no instance id.
NO_MEMBER = int32(-1) + compact_text("") + varint(0)
POSITION = struct.Struct(">iqi")  # partition, offset, leader epoch
PLAIN_END = compact_text("") + NO_TAGS  # no metadata
CODE = struct.Struct(">ihB")  # partition, error, no tags

VERSION = 8  # of many groups; version 10 replaces topic names by ids
# A partition without metadata: number, offset, leader epoch, length of metadata, error, no tags.
PLAIN = struct.Struct(">iqiBhB")
FIXED = struct.Struct(">iqi")
EMPTY_TEXT = 1  # the lengths of compact texts are one more, and that of null is 0


class CommittedTopic(NamedTuple):
    """The response about one topic, a column for each field."""

    name: str
    partitions: Sequence[int]
    error_codes: Sequence[int]


@dataclass(slots=True)
class CommittedOffsets:
    """The whole answer."""

    throttle_time_ms: int
    topics: list[CommittedTopic]

    @property
    def codes(self) -> dict[TopicPartition, int]:
        return {
            TopicPartition(topic.name, number): code
            for topic in self.topics
            for number, code in zip(topic.partitions, topic.error_codes, strict=True)
        }

    @property
    def is_accepted(self) -> bool:
        """Whether no partition has an error."""
        return not any(any(topic.error_codes) for topic in self.topics)


class _OffsetCommitHeader(RequestHeader, init=False):
    def get_response_class(self) -> type[OffsetCommitColumns]:
        return OffsetCommitColumns


class CommitOfIdleGroup(OffsetCommitRequest, init=False):
    """Commit positions of a group without members; the answer is `CommittedOffsets`."""

    __slots__ = ("_body",)
    header_class = _OffsetCommitHeader

    def __init__(self, group_id: str, positions: Mapping[TopicPartition, Position]) -> None:
        super().__init__(group_id=group_id, min_version=OLDEST, max_version=NEWEST)
        self._body = _body(group_id, positions)

    def encode(self, version: Any = None, header: bool = False, framed: bool = False) -> bytes:  # noqa: FBT001, FBT002 - the client's signature
        if version is not None:
            self.API_VERSION = version
        start = self._header.encode(flexible=True) if header else b""
        data = bytes(start) + self._body
        return int32(len(data)) + data if framed else data


class OffsetCommitColumns(FieldReader):
    """Reads the response, as the client's protocol asks of the class of one."""

    parse_header = OffsetCommitResponse[NEWEST].parse_header

    @classmethod
    def decode(cls, data: Any) -> CommittedOffsets:
        """Return the response; raises MalformedMessage for bytes that are none."""
        return cls(data.read(), "OffsetCommit response", flexible=True).offsets()

    def offsets(self) -> CommittedOffsets:
        found = CommittedOffsets(self.int32(), self.list_of(self.topic))
        self.tags()
        return found

    def topic(self) -> CommittedTopic:
        name, count = self.text(), self.count()
        rows = list(CODE.iter_unpack(self.peek(count * CODE.size)))
        if any(has_tags for _, _, has_tags in rows):
            rows = [self.partition() for _ in range(count)]
        else:
            self.take(count * CODE.size)
        self.tags()
        return CommittedTopic(name, [row[0] for row in rows], [row[1] for row in rows])

    def partition(self) -> tuple[int, int, int]:
        number, code = self.int32(), self.int16()
        self.tags()
        return number, code, 0


def _body(group_id: str, positions: Mapping[TopicPartition, Position]) -> bytes:
    by_topic: dict[str, list[bytes]] = defaultdict(list)
    for (topic, number), (offset, epoch, metadata) in positions.items():
        known = NO_KNOWN_EPOCH if epoch is None else epoch
        end = compact_text(metadata) + NO_TAGS if metadata else PLAIN_END
        by_topic[topic].append(POSITION.pack(number, offset, known) + end)
    parts = [compact_text(group_id), NO_MEMBER, varint(len(by_topic) + 1)]
    for topic, rows in by_topic.items():
        parts += [compact_text(topic), varint(len(rows) + 1), *rows, NO_TAGS]
    return b"".join([*parts, NO_TAGS])


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


class OffsetFetchColumns(FieldReader):
    """Reads the response, as the client's protocol asks of the class of one."""

    parse_header = OffsetFetchResponse[VERSION].parse_header

    @classmethod
    def decode(cls, data: Any) -> FetchedOffsets:
        """Return the response; raises MalformedMessage for bytes that are none."""
        return cls(data.read(), "OffsetFetch response", flexible=True).offsets()

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
