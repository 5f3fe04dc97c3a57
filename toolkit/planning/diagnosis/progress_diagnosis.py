"""
Find partitions with unread records and no progress between two samples of a group.

One sample cannot distinguish a stuck consumer from one that is about to commit. So the committed
offset is compared over some seconds, and with the age of the oldest unread record and the time of
the last commit. A partition is stuck only if all of them agree; otherwise the row gives what is
missing.

| verdict | |
|---|---|
| stuck | lag in both samples, for longer than `stuck_after_s`, and no progress |
| possibly stuck | no progress, but not for long enough, or for an unknown time |
| out of range | committed offset past the log end offset, or unread records were deleted |
| open transaction | caught up to an open transaction |
| paused | paused by a hold |
| unsubscribed offset | the group is live, no member subscribes to the topic |
| no members | the group has no members |
| progressing | the committed offset changed |
| caught up | no unread records; what else follows is aborted records and transaction markers |
| unknown | no committed offset, or a read error |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pandas as pd

from toolkit.model import Group, GroupState, Member, Snapshot, TopicPartition
from toolkit.model.plurals import counted
from toolkit.model.records import FirstRecord
from toolkit.model.times import format_duration
from toolkit.planning.frames.snapshot_frames import offsets_frame
from toolkit.planning.lag.lag import BEYOND_LOG_END, LOST_RECORDS, with_lag

STUCK_COLUMNS = (
    *("topic", "partition", "verdict", "owner", "committed", "log_end", "lag", "committed_delta"),
    *("committed_at", "first_unread_at", "why"),
)


class Verdict(StrEnum):
    """The verdict on a partition, worst first; see the table above."""

    STUCK = "stuck"
    POSSIBLY_STUCK = "possibly stuck"
    OUT_OF_RANGE = "out of range"
    TRANSACTION = "open transaction"
    PAUSED = "paused"
    UNSUBSCRIBED = "unsubscribed offset"
    NO_MEMBERS = "no members"
    UNKNOWN = "unknown"
    PROGRESSING = "progressing"
    CAUGHT_UP = "caught up"


_ORDER = list(Verdict)
NOT_READ = FirstRecord(found=True)
Judged = tuple[Verdict, str]


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
    commit, null if unknown), first_unread_at (UTC), why.
    """
    frame = with_lag(offsets_frame(second))
    frame = frame[frame["group"] == group_id].reset_index(drop=True)
    before = _committed(first, group_id)
    group = next((group for group in second.groups if group.group_id == group_id), None)
    looks = _Samples(
        first, second, group, first_unread, stuck_after_s, _moving_owners(frame, before)
    )
    cases = [_Evidence.of(row, before, looks) for row in frame.to_dict("records")]
    judged = [_judge(case, looks) for case in cases]
    frame = frame.assign(
        verdict=[str(verdict) for verdict, _ in judged],
        why=[why for _, why in judged],
        committed_delta=pd.Series([case.moved for case in cases], dtype="Int64"),
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


@dataclass(frozen=True, slots=True)
class _Samples:
    """Facts about the whole group."""

    first: Snapshot
    second: Snapshot
    group: Group | None
    first_unread: Mapping[TopicPartition, FirstRecord]
    stuck_after_s: float
    moving_owners: frozenset[str]

    @property
    def apart_s(self) -> float:
        return max(0.0, (self.second.taken_at - self.first.taken_at).total_seconds())


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Facts about one partition; None is unknown."""

    partition: TopicPartition
    owner: str
    committed: int | None
    lag: int | None
    stable_lag: int | None
    lost: int
    position: str
    moved: int | None
    stood_s: float  # minimum time without a change of the committed offset
    stood_known: bool  # the time of the last commit is known
    unread: FirstRecord
    waited_between: bool  # lag in the first sample, at the same offset
    holder: Member | None

    @classmethod
    def of(
        cls, row: Mapping[Any, Any], before: Mapping[TopicPartition, int], looks: _Samples
    ) -> _Evidence:
        partition = TopicPartition(row["topic"], int(row["partition"]))
        committed, earlier = _whole(row["committed"]), before.get(partition)
        moved = None if committed is None or earlier is None else committed - earlier
        log = looks.first.logs.get(partition)
        ended = log.log_end if log else None
        at = None if pd.isna(row["committed_at"]) else row["committed_at"].to_pydatetime()
        silent_s = (looks.second.taken_at - at).total_seconds() if at else 0.0
        return cls(
            partition=partition,
            owner=str(row["owner"]),
            committed=committed,
            lag=_whole(row["lag"]),
            stable_lag=_whole(row["stable_lag"]),
            lost=_whole(row["lost"]) or 0,
            position=str(row["position"]),
            moved=moved,
            stood_s=max(silent_s, looks.apart_s) if moved == 0 else 0.0,
            stood_known=at is not None,
            unread=looks.first_unread.get(partition, NOT_READ),
            waited_between=moved == 0 and ended is not None and ended > (committed or 0),
            holder=looks.group.paused.get(partition) if looks.group else None,
        )


def _judge(case: _Evidence, looks: _Samples) -> Judged:
    """Return the verdict on a partition; the first rule that applies decides."""
    return next(_rules(case, looks))


def _rules(case: _Evidence, looks: _Samples) -> Iterator[Judged]:
    yield from _of_the_log(case)
    if case.moved:
        yield Verdict.PROGRESSING, _movement(case.moved, looks.apart_s)
    if case.lag == 0:
        yield Verdict.CAUGHT_UP, "caught up"
    if not case.unread.found:
        yield Verdict.CAUGHT_UP, "caught up: no committed record follows"
    if case.holder:
        yield Verdict.PAUSED, f"paused by {_holder(case.holder)}"
    yield from _of_the_group(case, looks)
    if case.stable_lag == 0:
        yield Verdict.TRANSACTION, f"blocked by an open transaction; {_waiting(case, looks)}"
    yield _still(case, looks)


def _of_the_log(case: _Evidence) -> Iterator[Judged]:
    if case.committed is None:
        yield Verdict.UNKNOWN, "no committed offset: consumers start according to auto.offset.reset"
    if case.position == BEYOND_LOG_END:
        yield (
            Verdict.OUT_OF_RANGE,
            ("committed offset is past the log end offset: the topic was truncated or re-created"),
        )
    if case.lag is None:
        yield Verdict.UNKNOWN, "log start and log end offset could not be read"
    if case.position == LOST_RECORDS and not case.moved:
        yield Verdict.OUT_OF_RANGE, f"at most {counted(case.lost, 'unread record')} deleted"


def _of_the_group(case: _Evidence, looks: _Samples) -> Iterator[Judged]:
    group = looks.group
    if group is None or not group.described:
        yield Verdict.UNKNOWN, "the group could not be described"
    elif group.state is GroupState.EMPTY:
        yield Verdict.NO_MEMBERS, f"the group has no members; {_waiting(case, looks)}"
    elif not group.unreadable_subscription and (
        case.partition.topic not in group.subscribed_topics
    ):
        yield Verdict.UNSUBSCRIBED, "no member subscribes to the topic"


def _still(case: _Evidence, looks: _Samples) -> Judged:
    """Judge a partition with unread records and no progress."""
    waiting = _waiting(case, looks)
    if case.moved is None:
        return Verdict.POSSIBLY_STUCK, f"committed between the two samples; {waiting}"
    stood = (
        f"committed offset {case.committed:,} unchanged for at least "
        f"{format_duration(case.stood_s)}; {waiting}"
    )
    if not case.owner:
        stood += "; no owner"
    elif case.owner in looks.moving_owners:
        stood += "; other partitions of this owner made progress"
    if not case.waited_between:
        return Verdict.POSSIBLY_STUCK, f"{stood}; no lag in the first sample"
    if case.stood_s <= looks.stuck_after_s:
        unknown = "" if case.stood_known else "; commit time unknown"
        return (
            Verdict.POSSIBLY_STUCK,
            f"{stood}; not for longer than {format_duration(looks.stuck_after_s)}{unknown}",
        )
    waited_s = _waited_s(case, looks)
    if waited_s is None and looks.apart_s <= looks.stuck_after_s:
        return Verdict.POSSIBLY_STUCK, f"{stood}; age of the oldest unread record unknown"
    if waited_s is not None and max(waited_s, looks.apart_s) <= looks.stuck_after_s:
        return (
            Verdict.POSSIBLY_STUCK,
            f"{stood}; not for longer than {format_duration(looks.stuck_after_s)}",
        )
    return Verdict.STUCK, stood


def _movement(moved: int, apart_s: float) -> str:
    way = "on" if moved > 0 else "back"
    return f"committed offset moved {way} by {abs(moved):,} in {format_duration(apart_s)}"


def _waiting(case: _Evidence, looks: _Samples) -> str:
    waited_s = _waited_s(case, looks)
    lag = f"lag {case.lag:,}"
    if waited_s is None:
        return lag
    return f"{lag}, the oldest unread record was written {format_duration(waited_s)} ago"


def _waited_s(case: _Evidence, looks: _Samples) -> float | None:
    if case.unread.at is None:
        return None
    return max(0.0, (looks.second.taken_at - case.unread.at).total_seconds())


def _holder(member: Member) -> str:
    note = member.hold_note
    return f"{note.who} @ {note.host}" if note and note.who else member.display_name


def _moving_owners(frame: pd.DataFrame, before: Mapping[TopicPartition, int]) -> frozenset[str]:
    """Return the owners with progress on at least one partition."""
    return frozenset(
        str(row["owner"])
        for row in frame.to_dict("records")
        if row["owner"]
        and (committed := _whole(row["committed"])) is not None
        and committed > before.get(TopicPartition(row["topic"], row["partition"]), committed)
    )


def _committed(snapshot: Snapshot, group_id: str) -> dict[TopicPartition, int]:
    return {
        TopicPartition(commit.topic, commit.partition): commit.offset
        for commit in snapshot.commits
        if commit.group_id == group_id
    }


def _whole(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)
