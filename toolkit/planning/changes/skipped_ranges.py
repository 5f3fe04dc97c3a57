"""
Find short ranges of offsets that a plan skips, of which few may hold records.

Markers that end transactions, aborted records and what compaction removed leave offsets without a
record that a consumer would get.
"""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.model import Snapshot, TopicPartition
from toolkit.plan import Plan

SHORT = 1000  # offsets


def skipped_ranges(plan: Plan, facts: Snapshot) -> Iterator[tuple[TopicPartition, int]]:
    """Yield partition and offset from which a plan skips a few offsets of a settled log."""
    for _, change in plan.changes:
        log = facts.logs.get(change.partition)
        if not log or not change.before or not change.after or log.log_end is None:
            continue
        start = max(log.log_start or 0, change.before.offset)
        length = min(change.after.offset, log.log_end) - start
        # Behind the last stable offset it is not settled yet what is committed.
        if 0 < length <= SHORT and log.last_stable == log.log_end:
            yield change.partition, start
