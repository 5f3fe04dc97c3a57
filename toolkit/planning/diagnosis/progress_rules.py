"""
Classify the progress of a partition from two samples of its group.

One sample cannot distinguish a stuck consumer from one that is about to commit. So the committed
offset is compared over some seconds, and, where they are known, with the age of the oldest unread
record and the time of the last commit. A partition is stuck only if all of them agree; otherwise
the reason gives what is missing.

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

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from functools import cached_property

from toolkit.model import Group, GroupState, Member, Problem, Snapshot, TopicPartition, Unread
from toolkit.model.offsets import NO_LOG
from toolkit.model.plurals import counted
from toolkit.model.records import FirstRecord
from toolkit.model.times import format_duration
from toolkit.planning.lag.group_topics import UNKNOWN, GroupTopic
from toolkit.planning.lag.lag import BEYOND_LOG_END, LOST_RECORDS, lag_of
from toolkit.planning.selection.member_names import holder_of


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


Judged = tuple[Verdict, str]
NOT_READ = FirstRecord(found=True)


@dataclass(frozen=True)
class GroupSamples:
    """
    What two samples say about a whole group; `group` is that of the second.

    `unread_before` is why the first sample lacks the group, `hold_unread` why what is held cannot
    be seen; "" where nothing is lacking. `unread_now` is why a committed offset, or None for all of
    them, is lacking in the second sample.
    """

    group: Group | None
    second_at: datetime
    apart_s: float
    stuck_after_s: float
    moving_owners: frozenset[str] = frozenset()
    unread_before: str = ""
    hold_unread: str = ""
    unread_now: Mapping[TopicPartition | None, str] = field(default_factory=dict)

    def lacking(self, before: Iterable[Problem], now: Sequence[Problem]) -> GroupSamples:
        """Return the same with what could not be read of the group in the first sample, and now."""
        held = (problem.why for problem in now if problem.what is Unread.HELD_PARTITIONS)
        return replace(
            self,
            unread_before=next((f"{p.what}: {p.why}" for p in before), self.unread_before),
            hold_unread=next(held, ""),
            unread_now={_place(problem): problem.why for problem in now if problem.hides_commits},
        )

    @cached_property
    def paused(self) -> Mapping[TopicPartition, Member]:
        return self.group.paused if self.group else {}

    @cached_property
    def subscribed(self) -> frozenset[str] | None:
        """The topics that members subscribe to; None where there are none, or it is not known."""
        group = self.group
        if not group or not group.described or not group.is_live or group.unreadable_subscription:
            return None
        return group.subscribed_topics


@dataclass(frozen=True, slots=True)
class PartitionEvidence:
    """Facts about one partition; None is unknown. `earlier` facts are of the first sample."""

    partition: TopicPartition
    owner: str
    committed: int | None
    lag: int | None
    stable_lag: int | None
    lost: int
    position: str
    earlier_committed: int | None
    earlier_end: int | None
    unread: FirstRecord
    is_log_empty: bool
    silent_s: float | None = None  # since the last commit

    @property
    def moved(self) -> int | None:
        """How far the committed offset moved between the samples."""
        if self.committed is None or self.earlier_committed is None:
            return None
        return self.committed - self.earlier_committed

    @property
    def waited_between(self) -> bool:
        """Whether there was lag in the first sample, at the same committed offset."""
        ended = self.earlier_end
        return self.moved == 0 and ended is not None and ended > (self.committed or 0)


def evidence(
    part: GroupTopic,
    index: int,
    first: Snapshot,
    *,
    before: int | None,
    unread: FirstRecord,
) -> PartitionEvidence:
    """Return the facts about one partition of a topic; `before` is its first committed offset."""
    place, offset = TopicPartition(part.topic, part.partitions[index]), part.offsets[index]
    committed, log = None if offset == UNKNOWN else offset, part.logs.get(place.partition, NO_LOG)
    lag, stable_lag, lost, position = lag_of(committed, log)
    return PartitionEvidence(
        place,
        part.owners.get(place, ""),
        committed,
        lag,
        stable_lag,
        lost or 0,
        position,
        before,
        first.logs.get(place, NO_LOG).log_end,
        unread=unread,
        is_log_empty=log.is_known and log.log_start == log.log_end,
    )


def group_problems(snapshot: Snapshot) -> Mapping[str, Sequence[Problem]]:
    problems: dict[str, list[Problem]] = defaultdict(list)
    for problem in snapshot.problems:
        if problem.group_id is not None and problem.what is not Unread.GROUP:
            problems[problem.group_id].append(problem)
    return problems


def judge(case: PartitionEvidence, looks: GroupSamples) -> Judged:
    """Return the verdict on a partition, and why; the first rule that applies decides."""
    return next(_rules(case, looks))


def _rules(case: PartitionEvidence, looks: GroupSamples) -> Iterator[Judged]:
    group = looks.group
    # An abandoned topic loses records and may be re-created: that is not an error of the group.
    if looks.subscribed is not None and case.partition.topic not in looks.subscribed:
        yield Verdict.UNSUBSCRIBED, "no member subscribes to the topic"
    yield from _of_the_log(case, looks)
    if holder := looks.paused.get(case.partition):
        yield Verdict.PAUSED, f"paused by {holder_of(holder)}"
    if case.moved:
        yield Verdict.PROGRESSING, _movement(case.moved, looks.apart_s)
    if group is None or not group.described:
        yield Verdict.UNKNOWN, "the group could not be described"
    if case.lag == 0 or not case.unread.found:
        markers = ": no committed record follows" if case.lag else ""
        yield Verdict.CAUGHT_UP, f"caught up{markers}"
    if group and group.state is GroupState.EMPTY:
        yield Verdict.NO_MEMBERS, f"the group has no members; {_waiting(case, looks)}"
    if looks.hold_unread:
        yield Verdict.UNKNOWN, f"unknown whether it is paused: {looks.hold_unread}"
    if case.stable_lag == 0:
        yield Verdict.TRANSACTION, f"blocked by an open transaction; {_waiting(case, looks)}"
    if case.moved is None and looks.unread_before:
        yield Verdict.UNKNOWN, f"unknown in the first sample: {looks.unread_before}"
    yield _still(case, looks)


def _of_the_log(case: PartitionEvidence, looks: GroupSamples) -> Iterator[Judged]:
    unread = looks.unread_now.get(case.partition) or looks.unread_now.get(None)
    if case.committed is None and unread:
        yield Verdict.UNKNOWN, f"committed offset could not be read: {unread}"
    if case.committed is None and case.is_log_empty:
        yield Verdict.CAUGHT_UP, "no committed offset, and no record in the log"
    if case.committed is None:
        yield Verdict.UNKNOWN, "no committed offset: consumers start according to auto.offset.reset"
    if case.position == BEYOND_LOG_END:
        yield (
            Verdict.OUT_OF_RANGE,
            "committed offset is past the log end offset: the topic was truncated or re-created",
        )
    if case.lag is None:
        yield Verdict.UNKNOWN, "log start and log end offset could not be read"
    if case.position == LOST_RECORDS and not case.moved:
        yield Verdict.OUT_OF_RANGE, f"at most {counted(case.lost, 'unread record')} deleted"


def _still(case: PartitionEvidence, looks: GroupSamples) -> Judged:
    """Judge a partition with unread records and no progress."""
    waiting = _waiting(case, looks)
    if case.moved is None:
        return Verdict.POSSIBLY_STUCK, f"committed between the two samples; {waiting}"
    stood_s = max(case.silent_s or 0.0, looks.apart_s)
    stood = (
        f"committed offset {case.committed:,} unchanged for at least "
        f"{format_duration(stood_s)}; {waiting}"
    )
    if not case.owner:
        stood += "; no owner"
    elif case.owner in looks.moving_owners:
        stood += "; other partitions of this owner made progress"
    if not case.waited_between:
        lag = "no lag" if case.earlier_end is not None else "unknown log end offset"
        return Verdict.POSSIBLY_STUCK, f"{stood}; {lag} in the first sample"
    if stood_s <= looks.stuck_after_s:
        unknown = "" if case.silent_s is not None else "; commit time unknown"
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


def _waiting(case: PartitionEvidence, looks: GroupSamples) -> str:
    waited_s = _waited_s(case, looks)
    lag = f"lag {case.lag:,}"
    if waited_s is None:
        return lag
    return f"{lag}, the oldest unread record was written {format_duration(waited_s)} ago"


def _waited_s(case: PartitionEvidence, looks: GroupSamples) -> float | None:
    if case.unread.at is None:
        return None
    return max(0.0, (looks.second_at - case.unread.at).total_seconds())


def _place(problem: Problem) -> TopicPartition | None:
    if problem.topic is None or problem.partition is None:
        return None
    return TopicPartition(problem.topic, problem.partition)
