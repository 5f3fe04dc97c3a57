"""Log records as unvalidated raw bytes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from toolkit.model import Problem, TopicPartition


class Excerpt(NamedTuple):
    """Bytes, truncated if there are too many, and the total size."""

    start: bytes
    size_bytes: int


class Header(NamedTuple):
    """One header of a record; None is null."""

    name: str
    value: Excerpt | None


@dataclass(frozen=True, slots=True)
class Record:
    """One record; None as key or value is Kafka's null (a tombstone's value)."""

    partition: TopicPartition
    offset: int
    at: datetime | None  # None: no timestamp, or one out of range
    at_append: bool  # LogAppendTime; otherwise CreateTime
    key: Excerpt | None
    value: Excerpt | None
    headers: tuple[Header, ...] = ()
    headers_left_out: int = 0  # beyond the first ones
    at_ms: int | None = None  # the timestamp as the record has it


class FirstRecord(NamedTuple):
    """The first record at or after an offset: whether there is one, and its time and offset."""

    found: bool
    at: datetime | None = None  # None: it has none, or it is not known
    offset: int | None = None  # None: not known


class RecordsAround(NamedTuple):
    """The records, in order of partition and offset, and what could not be read."""

    records: tuple[Record, ...]
    problems: tuple[Problem, ...]
