"""
Reset targets: one class per reset mode, and how command lines and notebooks write them.

A target returns the requested offset; the plan clamps it to the log, and says so.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple, Protocol

from toolkit.errors import NotFound, UsageError
from toolkit.model import Commit, Group, LogOffsets, Snapshot, TopicPartition, Unread
from toolkit.model.names import shown_name
from toolkit.model.times import parse_duration, parse_time
from toolkit.plan import Finding, Position, Severity
from toolkit.planning.changes.topic_recreated import Doubt, OffsetsOrigin, doubt_of, position_of
from toolkit.planning.selection.group_selection import refuse_unread_commits
from toolkit.planning.selection.partition_selection import TopicScope, ranges, scopes_of
from toolkit.planning.selection.snapshot_index import SnapshotIndex

LARGEST_OFFSET = 2**63 - 1
NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)

BY_TIME = ("to-datetime", "by-duration")
Offsets = Mapping[tuple[str | None, TopicPartition], int | Position]


class TargetPlace(NamedTuple):
    """One partition of one group: committed offset, log start and log end offset."""

    group: Group
    partition: TopicPartition
    commit: Commit | None
    log: LogOffsets
    log_start: int
    log_end: int
    last_stable: int  # the log end offset if no transaction is open


class TargetOffset(NamedTuple):
    """The requested offset and the reason; or, with `to` None, why it stays, as a finding."""

    to: int | Position | None
    why: str
    rule: str = ""
    severity: Severity = Severity.NOTE


class Target(Protocol):
    """The target of a reset."""

    @property
    def words(self) -> str:
        """The request as text, as on the command line."""

    def aim(self, place: TargetPlace, index: SnapshotIndex) -> TargetOffset:
        """Return the requested offset of one partition."""

    def named(self, _group_id: str) -> Mapping[TopicPartition, int | Position] | None:
        """Return the partitions that the target itself names for a group; None: any."""
        return None

    @property
    def origin(self) -> OffsetsOrigin:
        """Where offsets that it has are from."""
        return OffsetsOrigin()

    def findings(self, _index: SnapshotIndex, _groups: Sequence[Group]) -> Iterator[Finding]:
        return iter(())


def _check_size(number: int) -> None:
    if number > LARGEST_OFFSET:
        raise UsageError(f"{number} is more than the largest offset, {LARGEST_OFFSET}")


@dataclass(frozen=True, slots=True)
class ToEarliest(Target):
    """Reset to the log start offset."""

    words: str = "to-earliest"

    def aim(self, place: TargetPlace, _index: SnapshotIndex) -> TargetOffset:
        return TargetOffset(place.log_start, "the log start")


@dataclass(frozen=True, slots=True)
class ToLatest(Target):
    """
    Reset to the log end offset, or to the last stable offset while a transaction is open.

    A read_committed consumer that starts after the last stable offset never receives the records of
    an open transaction that commits later (Kafka's tool uses the log end offset, R51).
    """

    words: str = "to-latest"

    def aim(self, place: TargetPlace, _index: SnapshotIndex) -> TargetOffset:
        if place.last_stable < place.log_end:
            why = (
                "last stable offset, because a transaction is open; log end offset is "
                f"{place.log_end}"
            )
            return TargetOffset(place.last_stable, why)
        return TargetOffset(place.log_end, "the log end")


@dataclass(frozen=True, slots=True)
class ToCurrent(Target):
    """Clamp out-of-range offsets to the log; keep all others."""

    words: str = "to-current"

    def aim(self, place: TargetPlace, _index: SnapshotIndex) -> TargetOffset:
        if place.commit is None:
            return TargetOffset(None, "no committed offset to clamp", "no-commit")
        committed = place.commit.offset
        if committed < place.log_start:
            return TargetOffset(place.log_start, f"log start offset: {committed} is before it")
        if committed > place.log_end:
            return TargetOffset(place.log_end, f"log end offset: {committed} is past it")
        return TargetOffset(committed, "in range, unchanged")


@dataclass(frozen=True, slots=True)
class ClearMetadata(Target):
    """Commit every offset again without its metadata, as Kafka's tool does with to-current."""

    words: str = "clear-metadata"

    def aim(self, place: TargetPlace, _index: SnapshotIndex) -> TargetOffset:
        if place.commit is None:
            return TargetOffset(None, "no committed offset, so no metadata", "no-commit")
        position = Position(place.commit.offset, place.commit.leader_epoch)
        return TargetOffset(position, "the same offset, commit metadata cleared")


@dataclass(frozen=True, slots=True)
class ToOffset(Target):
    """Reset every partition to one offset; raises UsageError if it is negative."""

    offset: int

    def __post_init__(self) -> None:
        """Reject a negative offset, which Kafka's tool takes for 0 (R08), and one of no log."""
        if self.offset < 0:
            hint = "use 0 or more; shift-by moves back from the committed offset"
            raise UsageError(f"an offset cannot be negative: {self.offset}", hint=hint)
        _check_size(self.offset)

    @property
    def words(self) -> str:
        return f"to-offset {self.offset}"

    def aim(self, _place: TargetPlace, _index: SnapshotIndex) -> TargetOffset:
        return TargetOffset(self.offset, f"offset {self.offset}")


@dataclass(frozen=True, slots=True)
class ShiftBy(Target):
    """Shift the committed offset by a number; negative moves it back."""

    records: int
    why: str = field(init=False)  # once, for a million partitions

    def __post_init__(self) -> None:
        """Word the reason; reject a distance that no two offsets have."""
        _check_size(abs(self.records))
        way = "back" if self.records < 0 else "forward"
        object.__setattr__(self, "why", f"{abs(self.records):,} {way}")  # it is frozen

    @property
    def words(self) -> str:
        return f"shift-by {self.records}"

    def aim(self, place: TargetPlace, _index: SnapshotIndex) -> TargetOffset:
        """Return the committed offset plus the shift, also if it is out of range (R14)."""
        if place.commit is None:
            return TargetOffset(None, "no committed offset to shift", "no-commit")
        return TargetOffset(place.commit.offset + self.records, self.why)


class PastEnd(StrEnum):
    """What to do with a partition that has no record at or after the timestamp."""

    LATEST = "latest"  # reset it to the log end offset
    KEEP = "keep"  # leave it unchanged
    FAIL = "fail"  # block the plan


@dataclass(frozen=True, slots=True)
class ToDatetime(Target):
    """
    To the first record at or after an instant, from the snapshot's `at_time`.

    `request` is the text of the request, such as "by-duration P1D".
    """

    at: datetime
    past_end: PastEnd = PastEnd.KEEP
    request: str = ""

    @property
    def words(self) -> str:
        """The request as text, with the handling past the last record."""
        request = self.request or f"to-datetime {_utc(self.at)}"
        return f"{request} (past the end: {self.past_end})"

    def aim(self, place: TargetPlace, index: SnapshotIndex) -> TargetOffset:
        facts = index.snapshot
        if self.at > facts.taken_at:
            return TargetOffset(None, "")  # reported once, for the whole plan
        if facts.at != self.at or place.partition not in facts.at_time:
            problem = index.log_problem(place.partition)
            why = f": {problem.why}" if problem else ""
            why = f"offset at {_utc(self.at)} is unknown{why}"
            return TargetOffset(None, why, "unreadable", Severity.BLOCK)
        found = facts.at_time[place.partition]
        if found is None:
            return self._past_end(place, index)
        why = f"first record at or after {_utc(self.at)} has timestamp {_utc(found.timestamp)}"
        if 0 < found.offset <= place.log_start and found.timestamp > self.at:
            why = f"{why}; this is the log start"
            return TargetOffset(found.offset, why, "before-log-start", Severity.BLOCK)
        return TargetOffset(found.offset, why)

    def findings(self, index: SnapshotIndex, _groups: Sequence[Group]) -> Iterator[Finding]:
        if self.at > (now := index.snapshot.taken_at):
            why = f"{_utc(self.at)} is in the future (now {_utc(now)})"
            yield Finding("in-the-future", Severity.BLOCK, why)

    def _past_end(self, place: TargetPlace, index: SnapshotIndex) -> TargetOffset:
        why = f"no record at or after {_utc(self.at)}"
        if self.past_end is PastEnd.LATEST:
            end = ToLatest().aim(place, index)
            return TargetOffset(end.to, f"{why}: {end.why}", "past-end")
        if self.past_end is PastEnd.KEEP:
            return TargetOffset(None, f"{why}: committed offset unchanged", "past-end")
        return TargetOffset(None, why, "past-end", Severity.BLOCK)


WITHOUT_VALUE: dict[str, Callable[[], Target]] = {
    "to-earliest": ToEarliest,
    "to-latest": ToLatest,
    "to-current": ToCurrent,
    "clear-metadata": ClearMetadata,
}
WITH_NUMBER: dict[str, Callable[[int], Target]] = {"to-offset": ToOffset, "shift-by": ShiftBy}
MODES = (*WITHOUT_VALUE, *WITH_NUMBER, *BY_TIME)


def parse_target(
    mode: str, value: str = "", *, now: datetime, past_end: str = PastEnd.KEEP
) -> Target:
    """
    Return the target of a mode: `to-offset 20`, `by-duration P1D`, `to-earliest`.

    A duration counts back from `now`; `past_end` handles a partition without a record at or after
    the time. Raises UsageError for an unknown mode or an invalid value.
    """
    if mode in WITHOUT_VALUE:
        if value:
            raise UsageError(f"{mode} takes no value, but was given {value!r}", hint="remove it")
        return WITHOUT_VALUE[mode]()
    if mode in WITH_NUMBER:
        if not NUMBER.fullmatch(value):
            raise UsageError(
                f"{mode} needs a whole number of at most 19 digits, not {value!r}",
                hint=f"write {mode} 10",
            )
        return WITH_NUMBER[mode](int(value))
    if mode in BY_TIME:
        return _by_time(mode, value, now, past_end)
    raise UsageError(f"unknown mode {mode!r}", hint=f"use one of: {', '.join(MODES)}")


def _by_time(mode: str, value: str, now: datetime, past_end: str) -> Target:
    if past_end not in list(PastEnd):
        hint = f"use one of: {', '.join(PastEnd)}"
        raise UsageError(f"invalid past-end value {past_end!r}", hint=hint)
    if mode == "to-datetime":
        instant = parse_time(value)
        return ToDatetime(instant.at, PastEnd(past_end), f"to-datetime {instant}")
    # To the second: the same request a moment later should give the same plan.
    at = (now - parse_duration(value)).replace(microsecond=0)
    # Without the time, which each change says: the same request has the same fingerprint.
    return ToDatetime(at, PastEnd(past_end), f"by-duration {value}")


def _utc(at: datetime) -> str:
    """Format an instant in UTC, with milliseconds only if there are any."""
    utc = at.astimezone(UTC)
    text = utc.isoformat(" ", "milliseconds" if utc.microsecond else "seconds")
    return text.replace("+00:00", " UTC")


@dataclass(frozen=True, slots=True)
class FromOffsets(Target):
    """
    Reset to given offsets: a file, another group, a backup. Created by `from_offsets`.

    `rows` has them by group; those under None are for every group. A `Position` includes metadata
    and leader epoch. `doubts` are why an offset of another group is not to be taken over.
    """

    rows: Mapping[str | None, Mapping[TopicPartition, int | Position]]
    words: str  # the source, such as "from-file offsets.csv"
    origin: OffsetsOrigin = field(default_factory=OffsetsOrigin)
    doubts: Mapping[TopicPartition, Doubt] = field(default_factory=dict)

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(partition.topic for offsets in self.rows.values() for partition in offsets)

    def named(self, group_id: str) -> Mapping[TopicPartition, int | Position]:
        """Return the rows of a group; its own override those for every group."""
        return {**self.rows.get(None, {}), **self.rows.get(group_id, {})}

    def aim(self, place: TargetPlace, _index: SnapshotIndex) -> TargetOffset:
        mine = self.rows.get(place.group.group_id, {})
        rows = mine if place.partition in mine else self.rows[None]
        if doubt := self.doubts.get(place.partition):
            why = f"{doubt.why}, in the group that the offset is from"
            return TargetOffset(rows[place.partition], why, doubt.rule, Severity.BLOCK)
        return TargetOffset(rows[place.partition], "as given in the input")

    def findings(self, index: SnapshotIndex, groups: Sequence[Group]) -> Iterator[Finding]:
        if self.origin.cluster_id not in {None, index.snapshot.cluster_id}:
            why = f"these offsets are from another cluster, id {self.origin.cluster_id!r}"
            yield Finding("other-cluster", Severity.BLOCK, why)
        selected = {group.group_id for group in groups}
        others = sorted(name for name in self.rows if name is not None and name not in selected)
        if others:
            count = sum(len(self.rows[name]) for name in others)
            more = ", ..." if len(others) > 5 else ""
            names = f"{', '.join(map(shown_name, others[:5]))}{more}"
            why = f"{count:,} rows are for groups that are not selected: {names}; skipped"
            yield Finding("other-groups", Severity.NOTE, why)
        for name in sorted(selected):
            if not self.named(name):
                yield Finding("no-row", Severity.BLOCK, "the input has no row for this group", name)


def from_offsets(
    offsets: Offsets,
    *,
    source: str,
    origin: OffsetsOrigin = OffsetsOrigin(),  # noqa: B008 - it is frozen
) -> FromOffsets:
    """Return a target from rows of `source`. Raises UsageError for a negative offset."""
    rows: dict[str | None, dict[TopicPartition, int | Position]] = defaultdict(dict)
    for (group_id, partition), row in offsets.items():
        offset = row.offset if isinstance(row, Position) else row
        if offset < 0:
            where = f"{partition.topic}:{partition.partition}"
            raise UsageError(f"an offset cannot be negative: {offset} for {where}")
        rows[group_id][partition] = row
    return FromOffsets(dict(rows), source, origin)


def from_group(snapshot: Snapshot, group_id: str, *, source: str) -> FromOffsets:
    """
    Return a target from what another group has committed.

    Raises NotFound for a group that does not exist or has no commits, and BrokerRefused where that
    could not be read.
    """
    if any(problem.group_id == group_id and problem.hides_commits for problem in snapshot.problems):
        refuse_unread_commits(snapshot, group_id)
    commits = snapshot.commits_of(group_id)
    if any(p.what is Unread.GROUP and p.group_id == group_id for p in snapshot.problems):
        raise snapshot.no_such_group(group_id)
    if not commits:
        refuse_unread_commits(snapshot, group_id)
        raise NotFound(
            f"group {shown_name(group_id)} has no committed offsets", hint="name another group"
        )
    doubts = {
        place: doubt
        for place, commit in commits.items()
        if (doubt := doubt_of(commit, snapshot.topic_ids))
    }
    rows: Offsets = {
        (None, place): position_of(commit, snapshot) for place, commit in commits.items()
    }
    return replace(from_offsets(rows, source=source), doubts=doubts)


def narrow(
    named: Mapping[TopicPartition, int | Position], scopes: Sequence[TopicScope], group_id: str
) -> tuple[tuple[TopicScope, ...], list[Finding]]:
    """Return the scopes of the rows within the selected scopes, and findings about the others."""
    if not scopes:
        return scopes_of(named), []
    findings = []
    inside = {partition for partition in named if any(partition in scope for scope in scopes)}
    if left_out := len(named) - len(inside):
        why = f"{left_out:,} rows are for partitions that are not selected; skipped"
        findings.append(Finding("other-partitions", Severity.NOTE, why, group_id))
    for scope in scopes:
        have = {partition.partition for partition in inside if partition.topic == scope.topic}
        lacking = set(scope.partitions or ()) - have
        if lacking or not have:
            what = f"{scope.topic}:{ranges(lacking)}" if lacking else scope.topic
            why = f"the input has no row for {what}"
            findings.append(Finding("no-row", Severity.BLOCK, why, group_id, scope.topic))
    return scopes_of(inside), findings
