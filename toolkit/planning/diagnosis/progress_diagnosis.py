"""
Find partitions with unread records and no progress between two samples of a group.

The rules are those of `progress_rules`, with the times of commits and of the oldest unread records.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pandas as pd

from toolkit.model import Snapshot, TopicPartition
from toolkit.model.records import FirstRecord
from toolkit.planning.diagnosis.progress_rules import (
    NOT_READ,
    GroupSamples,
    PartitionEvidence,
    Verdict,
    group_problems,
    judge,
)
from toolkit.planning.frames.snapshot_frames import offsets_frame

STUCK_COLUMNS = (
    *("topic", "partition", "verdict", "owner", "committed", "log_end", "lag", "committed_delta"),
    *("committed_at", "first_unread", "first_unread_at", "why"),
)


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
    frame = offsets_frame(second)
    frame = frame[frame["group"] == group_id].reset_index(drop=True)
    before = {place: one.offset for place, one in first.commits_of(group_id).items()}
    group = next((group for group in second.groups if group.group_id == group_id), None)
    apart_s = max(0.0, (second.taken_at - first.taken_at).total_seconds())
    owners = _moving_owners(frame, before)
    looks = GroupSamples(group, second.taken_at, apart_s, stuck_after_s, owners).lacking(
        *(group_problems(sample).get(group_id, ()) for sample in (first, second))
    )
    cases = [
        _evidence(row, before, first, second_at=second.taken_at, first_unread=first_unread)
        for row in frame.to_dict("records")
    ]
    judged = [judge(case, looks) for case in cases]
    frame = frame.assign(
        verdict=[str(verdict) for verdict, _ in judged],
        why=[why for _, why in judged],
        committed_delta=pd.Series([case.moved for case in cases], dtype="Int64"),
        first_unread=pd.Series([case.unread.offset for case in cases], dtype="Int64"),
        first_unread_at=pd.Series([case.unread.at for case in cases], dtype="datetime64[ms, UTC]"),
        order=[_ORDER.index(verdict) for verdict, _ in judged],
    )
    frame = frame.sort_values(
        ["order", "lag", "topic", "partition"],
        ascending=[True, False, True, True],
        kind="stable",
        na_position="last",
    )
    return frame[list(STUCK_COLUMNS)].reset_index(drop=True)


def _evidence(
    row: Mapping[Any, Any],
    before: Mapping[TopicPartition, int],
    first: Snapshot,
    *,
    second_at: datetime,
    first_unread: Mapping[TopicPartition, FirstRecord],
) -> PartitionEvidence:
    partition = TopicPartition(row["topic"], int(row["partition"]))
    log = first.logs.get(partition)
    at = None if pd.isna(row["committed_at"]) else row["committed_at"].to_pydatetime()
    return PartitionEvidence(
        partition=partition,
        owner=str(row["owner"]),
        committed=_whole(row["committed"]),
        lag=_whole(row["lag"]),
        stable_lag=_whole(row["stable_lag"]),
        lost=_whole(row["lost"]) or 0,
        position=str(row["position"]),
        earlier_committed=before.get(partition),
        earlier_end=log.log_end if log else None,
        silent_s=(second_at - at).total_seconds() if at else None,
        unread=first_unread.get(partition, NOT_READ),
        is_log_empty=_whole(row["log_end"]) == _whole(row["log_start"]) is not None,
    )


def _moving_owners(frame: pd.DataFrame, before: Mapping[TopicPartition, int]) -> frozenset[str]:
    """Return the owners with progress on at least one partition."""
    return frozenset(
        str(row["owner"])
        for row in frame.to_dict("records")
        if row["owner"]
        and (committed := _whole(row["committed"])) is not None
        and committed > before.get(TopicPartition(row["topic"], row["partition"]), committed)
    )


def _whole(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)
