"""
Commit a position for partitions of a live group that have none, before the partitions are paused.

Who gets a partition without a committed offset starts according to auto.offset.reset, where
`latest` skips every record that was produced during the pause. The position is that of the plan,
so that nothing after it is skipped; a position that the application commits itself is later, and
wins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from toolkit.errors import UsageError
from toolkit.model import Group, TopicPartition
from toolkit.plan import Change, Finding, Position
from toolkit.planning.changes.clamp import land, leader_epoch_at
from toolkit.planning.changes.targets import LARGEST_OFFSET
from toolkit.planning.selection.plan_parts import block
from toolkit.planning.selection.snapshot_index import SnapshotIndex


def check_position(words: str) -> None:
    """Raise UsageError unless it is "earliest", "latest" or an offset."""
    is_offset = re.fullmatch(r"[0-9]{1,19}", words) and int(words) <= LARGEST_OFFSET
    if words not in {"earliest", "latest"} and not is_offset:
        raise UsageError(
            f"unknown position {words!r} for partitions without a committed offset",
            hint="use earliest, latest or an offset",
        )


def first_commits(
    index: SnapshotIndex, group: Group, partitions: Iterable[TopicPartition], words: str
) -> Iterator[Change | Finding]:
    """
    Yield the commit of each partition, or what blocks it.

    The latest position is the last stable offset: a read_committed consumer that starts after it
    never receives the records of an open transaction.
    """
    for partition in partitions:
        log = index.snapshot.logs.get(partition)
        if log is None or log.log_start is None or log.log_end is None:
            why = "log start or log end offset could not be read"
            yield block("unreadable", why, group.group_id, partition)
            continue
        stable = log.log_end if log.last_stable is None else log.last_stable
        offset = {"earliest": log.log_start, "latest": stable}.get(words, -1)
        if offset < 0:
            offset = int(words)
        position, clamped = land(Position(offset, leader_epoch_at(log, offset)), log)
        why = f"no committed offset: {position.offset} is committed first"
        yield Change(partition, None, position, f"{why}; {clamped}" if clamped else why)
