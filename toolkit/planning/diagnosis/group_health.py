"""
One word for each group, from two samples a few seconds apart.

The verdicts on partitions are those of `progress_rules`, as in notebook 90; a group has the word of
its worst partition. `HEALTH` maps verdicts to words. Two samples show only what happens between
them, so a partition whose committed offset stays is `stuck` only if they are further apart than
`stuck_after_s`; before that it is `behind`, and the reason says for how long that was seen. Records
that have been unread for less than `stuck_after_s` are no reason for another word than `ok`, as in
the fleet job (`StatusRules.patience_s`).

| word | |
|---|---|
| stuck | there are members, and unread records without progress for longer than `stuck_after_s` |
| stopped | unread records, and no members |
| behind | records are unread for longer than `stuck_after_s` or an unknown time, or were deleted |
| unknown | a fact is missing; the reason has it |
| held | partitions are paused by a hold |
| unsubscribed | a committed offset of a topic that no member subscribes to |
| ok | caught up, or every unread record is recent |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

from toolkit.model import (
    Group,
    GroupState,
    GroupType,
    Snapshot,
    TopicPartition,
    Unread,
)
from toolkit.model.commit_columns import columns_of
from toolkit.model.offsets import NO_LOG
from toolkit.model.plurals import counted
from toolkit.model.records import FirstRecord
from toolkit.model.rows import Kind, Row, Rows
from toolkit.model.times import format_duration
from toolkit.planning.changes.skipped_ranges import SHORT
from toolkit.planning.diagnosis.progress_rules import (
    NOT_READ,
    GroupSamples,
    PartitionEvidence,
    Verdict,
    evidence,
    group_problems,
    judge,
)
from toolkit.planning.lag.group_topics import UNKNOWN, GroupTopic, by_group_and_topic

HEALTH_COLUMNS: dict[str, Kind] = {
    "cluster": "text",
    "group": "name",
    "health": "text",
    "why": "text",
    "lag": "number",
    "partitions": "number",
    "affected_partitions": "number",
    "worst_topic": "text",
    "worst_partition": "number",
    "verdict": "text",
    "members": "number",
    "state": "text",
    "type": "text",
}


class Health(StrEnum):
    """How a group is, worst first; see the table above."""

    STUCK = "stuck"
    STOPPED = "stopped"
    BEHIND = "behind"
    UNKNOWN = "unknown"
    HELD = "held"
    UNSUBSCRIBED = "unsubscribed"
    OK = "ok"


# The word for a verdict, with three exceptions: BEHIND is OK where all unread records are recent;
# OUT_OF_RANGE is UNKNOWN past the log end, where there is no lag, and STOPPED without members;
# NO_MEMBERS is BEHIND until `stuck_after_s` of a group that commits without any, as assign() does.
HEALTH = {
    Verdict.STUCK: Health.STUCK,
    Verdict.POSSIBLY_STUCK: Health.BEHIND,
    Verdict.OUT_OF_RANGE: Health.BEHIND,
    Verdict.TRANSACTION: Health.BEHIND,
    Verdict.PAUSED: Health.HELD,
    Verdict.UNSUBSCRIBED: Health.UNSUBSCRIBED,
    Verdict.NO_MEMBERS: Health.STOPPED,
    Verdict.UNKNOWN: Health.UNKNOWN,
    Verdict.PROGRESSING: Health.BEHIND,
    Verdict.CAUGHT_UP: Health.OK,
}
# Verdicts whose reason is the change between the samples.
SEEN_BETWEEN = {
    *(Verdict.STUCK, Verdict.POSSIBLY_STUCK, Verdict.TRANSACTION, Verdict.NO_MEMBERS),
    Verdict.PROGRESSING,
}
_RANK = {word: rank for rank, word in enumerate(Health)}


def unread_partitions(snapshot: Snapshot) -> set[TopicPartition]:
    """Return the partitions that have records after a committed offset, of any group."""
    commits = columns_of(snapshot.commits)
    found: set[TopicPartition] = set()
    for _, topic, places in commits.blocks:
        for place in places:
            partition = TopicPartition(topic, commits.partitions[place])
            end = snapshot.logs.get(partition, NO_LOG).log_end
            if end is not None and commits.offsets[place] < end:
                found.add(partition)
    return found


def doubtful_positions(first: Snapshot, second: Snapshot) -> list[tuple[TopicPartition, int]]:
    """
    Return committed offsets after which few offsets follow, perhaps without a record.

    That is so after markers of transactions and aborted records, in a log without new records.
    """
    commits = columns_of(second.commits)
    found: dict[tuple[TopicPartition, int], None] = {}
    for _, topic, places in commits.blocks:
        for place in places:
            partition = TopicPartition(topic, commits.partitions[place])
            log, offset = second.logs.get(partition, NO_LOG), commits.offsets[place]
            stands = log.log_end == log.last_stable == first.logs.get(partition, NO_LOG).log_end
            if stands and log.log_end is not None and 0 < log.log_end - offset <= SHORT:
                found[partition, offset] = None
    return list(found)


def group_health(
    first: Snapshot, second: Snapshot, *, stuck_after_s: float, apart_s: float | None = None
) -> Rows:
    """
    Return one row for each group of the second sample, worst first, then by lag.

    `second.at_time` has where logs stood `second.at`, which is `stuck_after_s` before the sample;
    a partition that is not in it has unread records of unknown age. `second.first_records` may have
    the first record after `doubtful_positions`. `apart_s` is from the end of the first sample to
    the begin of the second, for which every partition was certainly seen; None for samples that
    took no time. Columns: cluster, group, health (see `Health`), why, lag (of the partitions of
    which it is known, None without any), partitions, affected_partitions (with that word),
    worst_topic, worst_partition, verdict (of that partition, see `Verdict`), members (None if
    unknown), state, type.
    """
    judging = _Judging(first, second, stuck_after_s, apart_s)
    parts: dict[str, list[GroupTopic]] = defaultdict(list)
    for part in by_group_and_topic(second):
        parts[part.group_id].append(part)
    rows = [judging.row(group, parts.get(group.group_id, ())) for group in second.groups]
    return worst_first([rows])


def worst_first(tables: Iterable[Iterable[Row]]) -> Rows:
    """Return rows of `group_health`, of one or several clusters, as one table."""
    health, lag = (list(HEALTH_COLUMNS).index(name) for name in ("health", "lag"))
    rows = sorted(chain.from_iterable(tables), key=lambda r: (_RANK[r[health]], -(r[lag] or 0)))
    return Rows(HEALTH_COLUMNS, rows)


@dataclass(frozen=True, slots=True)
class _Judged:
    """The result of one partition; without a partition, of a whole group."""

    health: Health
    verdict: Verdict
    why: str
    case: PartitionEvidence | None = None
    is_recent: bool | None = None  # every unread record is younger than stuck_after_s

    @property
    def lag(self) -> int | None:
        return self.case.lag if self.case else None

    @property
    def badness(self) -> tuple[int, int]:
        """The lowest is the worst."""
        return _RANK[self.health], -(self.lag or 0)


class _Judging:
    """Judges groups from two samples."""

    def __init__(
        self, first: Snapshot, second: Snapshot, stuck_after_s: float, apart_s: float | None
    ) -> None:
        self._first, self._second, self._stuck_after_s = first, second, stuck_after_s
        self._taken_apart_s = max(0.0, (second.taken_at - first.taken_at).total_seconds())
        self._apart_s = self._taken_apart_s if apart_s is None else apart_s
        self._earlier = {(p.group_id, p.topic): p for p in by_group_and_topic(first)}
        self._unread_before = group_problems(first)
        self._listed_before = {group.group_id for group in first.groups}
        self._unread = group_problems(second)
        self._hides_commits = any(
            problem.what is Unread.HIDDEN_COMMITS for problem in second.problems
        )

    def row(self, group: Group, parts: Sequence[GroupTopic]) -> Row:
        looks = self._looks(group)
        found = [
            _Judged(Health.UNKNOWN, Verdict.UNKNOWN, f"could not read {one.what}: {one.why}")
            for one in self._unread.get(group.group_id, ())
            if one.what is not Unread.HELD_PARTITIONS  # the rules know what that hides
        ]
        found += [one for part in parts for one in self._judge(group, part, looks)]
        if not found:
            found = [_Judged(Health.UNKNOWN, Verdict.UNKNOWN, _why_without_offsets(group))]
        worst = min(found, key=lambda one: one.badness)
        if worst.health is Health.OK and self._hides_commits:
            why = "offsets of topics that you may not describe are hidden"
            worst = _Judged(Health.UNKNOWN, Verdict.UNKNOWN, why)
        partitions = sum(1 for one in found if one.case)
        affected = sum(1 for one in found if one.case and one.health is worst.health)
        some = f"{affected:,} of {counted(partitions, 'partition')}: "
        lags = [one.lag for one in found if one.lag is not None]
        place = worst.case.partition if worst.case else (None, None)
        return (
            self._second.cluster,
            group.group_id,
            str(worst.health),
            (some if worst.case and affected < partitions else "") + self._why(worst, group),
            sum(lags) if lags else None,
            partitions,
            affected,
            *place,
            str(worst.verdict),
            len(group.members) if group.described else None,
            str(group.state),
            str(group.type),
        )

    def _looks(self, group: Group) -> GroupSamples:
        name = group.group_id
        looks = GroupSamples(
            group,
            self._second.taken_at,
            self._apart_s,
            self._stuck_after_s,
            unread_before="" if name in self._listed_before else "the group was not listed",
        )
        return looks.lacking(self._unread_before.get(name, ()), self._unread.get(name, ()))

    def _judge(self, group: Group, part: GroupTopic, looks: GroupSamples) -> Iterator[_Judged]:
        earlier = _offsets(self._earlier.get((part.group_id, part.topic)), part.partitions)
        for index, before in enumerate(earlier):
            unread = self._first_unread(part, index)
            known = None if before == UNKNOWN else before
            case = evidence(part, index, self._first, before=known, unread=unread)
            verdict, why = judge(case, looks)
            is_recent = self._is_recent(case) if case.lag else None
            health = self._word(case, verdict, group, is_recent=is_recent)
            yield _Judged(health, verdict, why, case, is_recent)

    def _first_unread(self, part: GroupTopic, index: int) -> FirstRecord:
        key = TopicPartition(part.topic, part.partitions[index]), part.offsets[index]
        records = self._second.first_records
        return FirstRecord(found=records[key] is not None) if key in records else NOT_READ

    def _word(
        self, case: PartitionEvidence, verdict: Verdict, group: Group, *, is_recent: bool | None
    ) -> Health:
        """Return the word for a verdict; what `HEALTH` says, but for its comment."""
        health = HEALTH[verdict]
        if verdict is Verdict.OUT_OF_RANGE and case.lag is None:
            return Health.UNKNOWN
        if verdict is Verdict.OUT_OF_RANGE:
            return Health.STOPPED if case.lag and _has_ended(group) else health
        if verdict is Verdict.NO_MEMBERS and group.type is GroupType.SIMPLE:
            health = Health.STOPPED if self._apart_s > self._stuck_after_s else Health.BEHIND
        if verdict is Verdict.PROGRESSING and not case.lag:
            return Health.OK
        return Health.OK if health is Health.BEHIND and is_recent else health

    def _is_recent(self, case: PartitionEvidence) -> bool | None:
        """Whether every unread record is younger than stuck_after_s; None: it is not known."""
        committed, ended = case.committed or 0, case.earlier_end
        if ended is not None and committed >= ended and self._taken_apart_s <= self._stuck_after_s:
            return True  # written since the first sample
        if case.partition not in self._second.at_time:
            return None
        found = self._second.at_time[case.partition]
        if found is None:
            return False
        if found.timestamp > self._second.taken_at:  # a producer's clock, which says nothing
            return None
        return committed >= found.offset

    def _why(self, found: _Judged, group: Group) -> str:
        if found.verdict is Verdict.NO_MEMBERS and _has_ended(group):
            return "no members"
        if found.case and found.verdict in SEEN_BETWEEN:
            return f"{self._seen(found.case, found.verdict)}{self._age(found)}"
        tells_members = found.verdict in {Verdict.CAUGHT_UP, Verdict.OUT_OF_RANGE}
        return f"{found.why}; no members" if tells_members and _has_ended(group) else found.why

    def _seen(self, case: PartitionEvidence, verdict: Verdict) -> str:
        if verdict is Verdict.TRANSACTION:
            return "blocked by an open transaction"
        if case.moved is None:
            return "first committed between the two samples"
        if case.moved:
            way = "on" if case.moved > 0 else "back"
            return f"moved {way} by {abs(case.moved):,}"
        stood = f"no new committed offset in {format_duration(self._apart_s)}"
        is_alone = verdict is Verdict.NO_MEMBERS
        return f"no member is ever listed (assign()); {stood}" if is_alone else stood

    def _age(self, found: _Judged) -> str:
        if not found.lag:
            return ""
        if found.is_recent is None:
            return "; unread for an unknown time"
        limit = format_duration(self._stuck_after_s)
        return f"; unread for {'less' if found.is_recent else 'more'} than {limit}"


def _has_ended(group: Group) -> bool:
    """Whether a group that had members has none."""
    return group.state is GroupState.EMPTY and group.type is not GroupType.SIMPLE


def _offsets(part: GroupTopic | None, partitions: Sequence[int]) -> Sequence[int]:
    """Return what had been committed of partitions in the first sample."""
    if part is None:
        return [UNKNOWN] * len(partitions)
    if list(part.partitions) == list(partitions):
        return part.offsets
    known = dict(zip(part.partitions, part.offsets, strict=True))
    return [known.get(number, UNKNOWN) for number in partitions]


def _why_without_offsets(group: Group) -> str:
    if group.type is GroupType.SHARE:
        return "a share group has no committed offsets"
    return "nothing is committed, and no partition is assigned"
