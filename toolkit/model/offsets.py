"""Partitions, committed offsets, and where logs begin and end."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Commit:
    """One committed offset: the next record that the group would read."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None = None
    metadata: str = ""
    committed_at: datetime | None = None  # only the offsets topic tells, not the Admin protocol
    pending: bool = False  # an open transaction is about to change it


class EpochEnd(NamedTuple):
    """Where the records that one leader epoch wrote end in a log."""

    leader_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """Where one partition's log begins and ends; `None` where the broker could not say."""

    log_start: int | None
    log_end: int | None
    last_stable: int | None = None  # below log_end while a transaction is open
    epochs: tuple[EpochEnd, ...] = ()  # the newest ones, oldest first; () where not asked for

    def holds(self, offset: int) -> bool:
        """Whether there is a record at an offset, or one was there that compaction removed."""
        start, end = self.log_start, self.log_end
        return start is not None and end is not None and start <= offset < end


class TimedOffset(NamedTuple):
    """The first record at or after an instant."""

    offset: int
    timestamp: datetime
