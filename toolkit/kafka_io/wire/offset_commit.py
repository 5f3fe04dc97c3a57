"""
OffsetCommit without a member, versions 8 and 9, which are the same; written and read as bytes.

The client makes an object for each partition, and a plan may have a million of them.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.protocol.api_header import RequestHeader
from kafka.protocol.consumer import OffsetCommitRequest, OffsetCommitResponse

from toolkit.kafka_io.wire.fields import (
    NO_TAGS,
    FieldReader,
    compact_text,
    int32,
    varint,
)
from toolkit.model import TopicPartition
from toolkit.plan import Position

OLDEST, NEWEST = 8, 9  # version 10 replaces topic names by ids
NO_KNOWN_EPOCH = -1
# No member and no generation of one: what brokers accept while a group is idle; no instance id.
NO_MEMBER = int32(-1) + compact_text("") + varint(0)
POSITION = struct.Struct(">iqi")  # partition, offset, leader epoch
PLAIN_END = compact_text("") + NO_TAGS  # no metadata
CODE = struct.Struct(">ihB")  # partition, error, no tags


class CommittedTopic(NamedTuple):
    """What was answered about one topic, a column for each field."""

    name: str
    partitions: Sequence[int]
    error_codes: Sequence[int]


@dataclass(slots=True)
class CommittedOffsets:
    """The whole answer."""

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


class OffsetCommitColumns:
    """The class of the answer, as the client's protocol asks for one."""

    parse_header = OffsetCommitResponse[NEWEST].parse_header

    @staticmethod
    def decode(data: Any) -> CommittedOffsets:
        """Return the response; raises MalformedMessage for bytes that are none."""
        return _CommitReader(data.read(), "OffsetCommit response", flexible=True).offsets()


class _CommitReader(FieldReader):
    """Reads the fields of the answer."""

    def offsets(self) -> CommittedOffsets:
        self.int32()  # throttled for
        found = CommittedOffsets(self.list_of(self.topic))
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
