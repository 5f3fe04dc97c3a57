"""One record as it lies in a log: raw bytes, of which nothing is believed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from toolkit.model import TopicPartition


class Excerpt(NamedTuple):
    """Bytes, or where there were too many the first of them, and how many there are in all."""

    start: bytes
    size_bytes: int


class Header(NamedTuple):
    """One header of a record; None stands for null."""

    name: str
    value: Excerpt | None


@dataclass(frozen=True, slots=True)
class Record:
    """One record; None in the place of key or value is Kafka's null (a tombstone's value)."""

    partition: TopicPartition
    offset: int
    at: datetime | None  # None: it has no time, or one that no calendar has
    at_append: bool  # the broker set the time; otherwise whoever produced the record did
    key: Excerpt | None
    value: Excerpt | None
    headers: tuple[Header, ...] = ()
    headers_left_out: int = 0  # beyond the first ones
