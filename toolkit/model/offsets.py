"""Partitions, committed offsets, and log offsets."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

# Transactions that end at the same place write their markers in a row: so close to the log end,
# all remaining offsets may be markers, and no record.
MOST_MARKERS = 20


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int


def is_another_topic(then: str | None, now: str | None) -> bool:
    """Return whether a topic's id has changed: it was re-created; an unknown one has not."""
    return bool(then and now and then != now)


@dataclass(frozen=True, slots=True)
class Commit:
    """One committed offset: the next record the group will read."""

    group_id: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None = None
    metadata: str = ""
    committed_at: datetime | None = None  # only from __consumer_offsets, not the Admin API
    pending: bool = False  # an open transaction has a pending commit
    # Of the topic that it was committed for (Kafka 4.1 and newer); only from __consumer_offsets.
    topic_id: str = field(default="", compare=False)
    # As an old client asked for with the commit (OffsetCommit 2 to 4); likewise.
    expires_at: datetime | None = field(default=None, compare=False)

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class EpochEnd(NamedTuple):
    """End offset of one leader epoch in a log."""

    leader_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class LogOffsets:
    """Log start and log end offset of one partition; `None` if unknown."""

    log_start: int | None
    log_end: int | None
    last_stable: int | None = None  # below log_end while a transaction is open
    epochs: tuple[EpochEnd, ...] = ()  # the latest ones, oldest first; () if not requested

    @property
    def is_known(self) -> bool:
        return self.log_start is not None and self.log_end is not None

    @property
    def stable_end(self) -> int:
        """Where committed records end: at the first open transaction, if any; 0 if unknown."""
        return (self.log_end if self.last_stable is None else self.last_stable) or 0

    def holds(self, offset: int) -> bool:
        """Whether an offset is within the log, including compacted records."""
        start, end = self.log_start, self.log_end
        return start is not None and end is not None and start <= offset < end


NO_LOG = LogOffsets(None, None)


class TimedOffset(NamedTuple):
    """The first record at or after an instant."""

    offset: int
    timestamp: datetime
