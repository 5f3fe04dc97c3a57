"""
Reset targets: one class per reset mode.

The target by time is in `datetime_target`, the one from given offsets in `offsets_target`. A target
returns the wanted offset; the plan clamps it to the log, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from toolkit.errors import UsageError
from toolkit.model import Commit, Group, LogOffsets, TopicPartition
from toolkit.plan import Finding, Position, Severity
from toolkit.planning.selection.snapshot_index import SnapshotIndex

LARGEST_OFFSET = 2**63 - 1


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
    """The wanted offset and the reason; or, with `to` None, why it stays, as a finding."""

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
        """Return the wanted offset of one partition."""

    def named(self, _group_id: str) -> Mapping[TopicPartition, int | Position] | None:
        """Return the partitions that the target itself names for a group; None: any."""
        return None

    def findings(self, _index: SnapshotIndex, _groups: Sequence[Group]) -> Iterator[Finding]:
        """Yield findings about the target as a whole."""
        return iter(())


def _check_size(number: int) -> None:
    if number > LARGEST_OFFSET:
        raise UsageError(f"{number} is more than the largest offset, {LARGEST_OFFSET}")


@dataclass(frozen=True, slots=True)
class ToEarliest(Target):
    """Reset to the log start offset."""

    words: str = "to-earliest"

    def aim(self, place: TargetPlace, _index: SnapshotIndex) -> TargetOffset:
        """Return the log start."""
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
        """Return the last stable offset."""
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
        """Return the committed offset, clamped to the log."""
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
        """Return the committed offset and leader epoch."""
        if place.commit is None:
            return TargetOffset(None, "no committed offset, so no metadata", "no-commit")
        kept = Position(place.commit.offset, place.commit.leader_epoch)
        return TargetOffset(kept, "the same offset, commit metadata cleared")


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
        """The request in words."""
        return f"to-offset {self.offset}"

    def aim(self, _place: TargetPlace, _index: SnapshotIndex) -> TargetOffset:
        """Return the offset."""
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
        """The request in words."""
        return f"shift-by {self.records}"

    def aim(self, place: TargetPlace, _index: SnapshotIndex) -> TargetOffset:
        """Return the committed offset plus the shift, also if it is out of range (R14)."""
        if place.commit is None:
            return TargetOffset(None, "no committed offset to shift", "no-commit")
        return TargetOffset(place.commit.offset + self.records, self.why)
