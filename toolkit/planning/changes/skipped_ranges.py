"""
Find short ranges of offsets that a plan skips, of which few may hold records.

Markers that end transactions, aborted records and what compaction removed leave offsets without a
record that a consumer would get.
"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.model import LogOffsets, Snapshot, TopicPartition
from toolkit.plan import Plan, Position
from toolkit.planning.changes.topic_recreated import commits_of_earlier_topics

SHORT = 1000  # offsets


def skipped_ranges(plan: Plan, facts: Snapshot) -> Iterator[tuple[TopicPartition, int]]:
    """Yield partition and offset from which a plan skips a few offsets of a settled log."""
    earlier = commits_of_earlier_topics(facts)
    for step, change in plan.changes:
        log = facts.logs.get(change.partition)
        if not log or not change.before or not change.after or log.log_end is None:
            continue
        is_earlier = (step.group_id, change.partition) in earlier
        start = unread_from(change.before, log, is_earlier=is_earlier)
        end = min(change.after.offset, log.log_end)
        # Past the last stable offset it is not settled which records are committed.
        if 0 < end - start <= SHORT and log.last_stable is not None and end <= log.last_stable:
            yield change.partition, start


def unread_from(committed: Position, log: LogOffsets, *, is_earlier: bool) -> int:
    """
    Return from which offset a group has not read a log, whose start and end are known.

    That is the log start if the offset counts the records of an earlier topic. One past the log end
    does too, whatever its topic id: for a commit by name the broker stores the id of today's topic.
    If the log was truncated instead, the records before its end had been read.
    """
    start, end = log.log_start or 0, log.log_end or 0
    return start if is_earlier or committed.offset > end else max(start, committed.offset)
