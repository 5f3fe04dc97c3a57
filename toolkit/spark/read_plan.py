"""
Decide for each `__consumer_offsets` partition whether to resume the last read or start over.

What was read before and what is read now make the whole only if nothing was lost in between. In a
compacted log a record may vanish once there is a newer one of its key; and a tombstone, which is
the newest of its key, vanishes too, `delete.retention.ms` after the cleaner first came by. A run
that comes later finds neither the value nor its deletion, and would keep the deleted value for
ever. So a read continues where the last one ended only if every tombstone since must still be
there, and reads everything otherwise, with the reason as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from toolkit.model.times import format_duration

# Of the retention of tombstones: for a read that takes long, and for clocks that
# differ between the machines of two runs.
MARGIN_SHARE = 0.25
MARGIN_MOST = timedelta(hours=1)
LONGEST_MS = 2**40  # some 35 years: the setting may be larger than any duration


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """How far a partition of the offsets topic has been read, and what it was like then."""

    next_offset: int  # all records before it are read; never beyond the last stable offset
    log_start: int
    read_at: datetime  # aware UTC, from before the log end was read
    topic_id: str  # "" if the broker reports none
    partitions: int  # how many the offsets topic had
    delete_retention_ms: int  # of the topic, then
    leader_epoch: int | None = None  # how often the partition's leader had changed, where known


@dataclass(frozen=True, slots=True)
class OffsetsLog:
    """One partition of the offsets topic now."""

    log_start: int
    end: int  # how far it can be read: the last stable offset
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetsTopicNow:
    """The offsets topic of one cluster now, with those of its partitions that can be read."""

    requested_at: datetime  # aware UTC, from before the request
    topic_id: str
    partitions: int
    delete_retention_ms: int | None  # the topic's delete.retention.ms; None: could not be read
    logs: Mapping[int, OffsetsLog]


class ReadPlan(NamedTuple):
    """Where to begin reading a partition; `why_full` is "" where the last read is continued."""

    start: int
    why_full: str


def plan_reads(points: Mapping[int, ResumePoint], topic: OffsetsTopicNow) -> dict[int, ReadPlan]:
    """
    Say for each readable partition of one cluster's offsets topic where its reading begins.

    `points` are those of that cluster, by partition. A partition is read from its beginning unless
    all that `why_full` looks at is as it was.
    """
    plans = {}
    for number, log in topic.logs.items():
        point = points.get(number)
        why = why_full(point, log, topic)
        start = log.log_start if why or point is None else point.next_offset
        plans[number] = ReadPlan(start, why)
    return plans


def why_full(point: ResumePoint | None, log: OffsetsLog, topic: OffsetsTopicNow) -> str:
    """Return why a partition must be read from its beginning; "" where that is not so."""
    if point is None:
        return "it has not been read before"
    if not point.topic_id or not topic.topic_id:
        return "the topic id of __consumer_offsets is unknown"
    if point.topic_id != topic.topic_id:
        return "__consumer_offsets was re-created"
    if point.partitions != topic.partitions:
        return (
            f"the offsets topic had {point.partitions} partitions and has {topic.partitions}: "
            "groups have moved"
        )
    return _why_log_is_other(point, log) or _why_too_late(point, topic)


def _why_log_is_other(point: ResumePoint, log: OffsetsLog) -> str:
    """Say what has happened to the log itself: it may only have grown at its end."""
    if point.log_start != log.log_start:
        return f"its log began at {point.log_start} and begins at {log.log_start}"
    if point.next_offset < log.log_start:
        return f"its log begins at {log.log_start}, after {point.next_offset}"
    if point.next_offset > log.end:
        return f"its log ends at {log.end}, before {point.next_offset}"
    # A new leader may lack records that the old one had, and have others at the same offsets.
    if point.leader_epoch != log.leader_epoch:
        return "its leader has changed"
    return ""


def _why_too_late(point: ResumePoint, topic: OffsetsTopicNow) -> str:
    """Say why a tombstone that was written since may be gone again."""
    if topic.delete_retention_ms is None:
        return "delete.retention.ms could not be read"
    if topic.requested_at < point.read_at:
        return f"it was read at {point.read_at:%Y-%m-%d %H:%M:%S} UTC, which is in the future"
    # The cleaner sets a tombstone's last hour by what is set when it comes by.
    retention_ms = min(point.delete_retention_ms, topic.delete_retention_ms)
    gap, longest = topic.requested_at - point.read_at, longest_gap(retention_ms)
    if gap < longest:
        return ""
    return (
        f"it was read {format_duration(gap)} ago, and tombstones are only guaranteed for "
        f"{format_duration(longest)} (delete.retention.ms={retention_ms}, less a margin)"
    )


def longest_gap(delete_retention_ms: int) -> timedelta:
    """Return how long after a reading every tombstone is sure to be found still, with a margin."""
    retention = timedelta(milliseconds=min(delete_retention_ms, LONGEST_MS))
    return retention - min(MARGIN_MOST, retention * MARGIN_SHARE)
