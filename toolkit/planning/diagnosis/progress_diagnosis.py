"""
Find partitions with unread records and no progress between two samples of a group.

The rules are those of `progress_rules`, with the times of commits and of the oldest unread records.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from toolkit.model import Snapshot, TopicPartition
from toolkit.model.commit_columns import columns_of
from toolkit.model.offsets import NO_LOG
from toolkit.model.records import FirstRecord
from toolkit.model.rows import Kind, Row, Rows
from toolkit.planning.diagnosis.progress_rules import (
    NOT_READ,
    GroupSamples,
    Verdict,
    evidence,
    group_problems,
    judge,
)
from toolkit.planning.frames.frame_of import frame_of
from toolkit.planning.lag.group_topics import by_group_and_topic

if TYPE_CHECKING:
    import pandas as pd

STUCK_COLUMNS: dict[str, Kind] = {
    "topic": "text",
    "partition": "number",
    "verdict": "text",
    "owner": "text",
    **dict.fromkeys(("committed", "log_end", "lag", "committed_delta"), "number"),
    "committed_at": "time",
    "first_unread": "number",
    "first_unread_at": "time",
    "why": "text",
}
_ORDER = list(Verdict)


def diagnose_partitions(
    first: Snapshot,
    second: Snapshot,
    *,
    group_id: str,
    first_unread: Mapping[TopicPartition, FirstRecord],
    stuck_after_s: float,
) -> pd.DataFrame:
    """
    Return one row for each partition that a group has committed or owns, the worst verdict first.

    `first_unread` is the oldest unread record, if it was read: whether there is one, and when it
    was written; a producer's timestamp may be older than the record. `stuck_after_s` is how long
    there must be no progress and an unread record before a partition counts as stuck. Columns:
    topic, partition, verdict (see `Verdict`), owner, committed, log_end, lag, committed_delta
    (Int64: how far the committed offset moved between the samples), committed_at (UTC, the last
    commit, null if unknown), first_unread (Int64, the offset of that record), first_unread_at
    (UTC), why.
    """
    before, commits = first.commits_of(group_id), columns_of(second.commits)
    found = []
    for part in by_group_and_topic(second, only={group_id}):
        for index, number in enumerate(part.partitions):
            place = TopicPartition(part.topic, number)
            at = commits.committed_at(part.places[index])
            then = before[place].offset if place in before else None
            unread = first_unread.get(place, NOT_READ)
            case = evidence(part, index, first, before=then, unread=unread)
            silent_s = (second.taken_at - at).total_seconds() if at else None
            log_end = part.logs.get(number, NO_LOG).log_end
            found.append((replace(case, silent_s=silent_s), log_end, at))
    group = next((group for group in second.groups if group.group_id == group_id), None)
    apart_s = max(0.0, (second.taken_at - first.taken_at).total_seconds())
    moving = frozenset(case.owner for case, _, _ in found if case.owner and (case.moved or 0) > 0)
    looks = GroupSamples(group, second.taken_at, apart_s, stuck_after_s, moving).lacking(
        *(group_problems(sample).get(group_id, ()) for sample in (first, second))
    )
    rows: list[Row] = []
    for case, log_end, at in found:
        verdict, why = judge(case, looks)
        rows.append(
            (
                *(*case.partition, str(verdict), case.owner, case.committed, log_end, case.lag),
                *(case.moved, at, case.unread.offset, case.unread.at, why),
            )
        )
    rows.sort(key=lambda row: (_ORDER.index(row[2]), row[6] is None, -(row[6] or 0), row[:2]))
    return frame_of(Rows(STUCK_COLUMNS, rows), partition="int64")
