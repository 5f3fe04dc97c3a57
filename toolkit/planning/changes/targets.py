"""
Where a reset sends each committed offset: one small value for each mode.

Those that go by time are in `by_time`, those that were written down in `written_offsets`. A target
says where an offset should go. Whether that place exists is not its business: the plan
moves what is outside the log to the nearest existing offset, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from toolkit.errors import UsageError
from toolkit.model import Commit, Group, LogOffsets, TopicPartition
from toolkit.plan import Finding, Position, Severity
from toolkit.planning.selection.index import Index


class TargetPlace(NamedTuple):
    """One partition of one group: what is committed there, and where the log begins and ends."""

    group: Group
    partition: TopicPartition
    commit: Commit | None
    log: LogOffsets
    log_start: int
    log_end: int
    last_stable: int  # the log end where no transaction is open


class Aim(NamedTuple):
    """Where an offset should go and why; or, with `to` None, why it stays, as a finding."""

    to: int | Position | None
    why: str
    rule: str = ""
    severity: Severity = Severity.NOTE


class Target(Protocol):
    """Where committed offsets should go."""

    @property
    def words(self) -> str:
        """The request in words, as on the command line."""

    def aim(self, place: TargetPlace, index: Index) -> Aim:
        """Return where the offset of one partition should go."""

    def named(self, _group_id: str) -> Mapping[TopicPartition, int | Position] | None:
        """Return the partitions that the target itself names for a group; None: any."""
        return None

    def findings(self, _index: Index, _groups: Sequence[Group]) -> Iterator[Finding]:
        """Yield what is to be said about the target as a whole."""
        return iter(())


@dataclass(frozen=True, slots=True)
class ToEarliest(Target):
    """To the oldest record there is."""

    words: str = "to-earliest"

    def aim(self, place: TargetPlace, _index: Index) -> Aim:
        """Return the log start."""
        return Aim(place.log_start, "the log start")


@dataclass(frozen=True, slots=True)
class ToLatest(Target):
    """
    Behind the newest record, but not into an open transaction.

    A read_committed reader that starts behind the last stable offset never sees the records of the
    transaction that is open there, should it commit (the real tool goes to the log end, R51).
    """

    words: str = "to-latest"

    def aim(self, place: TargetPlace, _index: Index) -> Aim:
        """Return the last stable offset."""
        if place.last_stable < place.log_end:
            why = (
                "last stable offset, because a transaction is open; log end offset is "
                f"{place.log_end}"
            )
            return Aim(place.last_stable, why)
        return Aim(place.log_end, "the log end")


@dataclass(frozen=True, slots=True)
class ToCurrent(Target):
    """Heal: an offset outside the log goes to the nearest that exists, all others stay."""

    words: str = "to-current"

    def aim(self, place: TargetPlace, _index: Index) -> Aim:
        """Return the committed offset, or the end of the log that is nearest to it."""
        if place.commit is None:
            return Aim(None, "no committed offset to clamp", "no-commit")
        committed = place.commit.offset
        if committed < place.log_start:
            return Aim(place.log_start, f"log start offset: {committed} is before it")
        if committed > place.log_end:
            return Aim(place.log_end, f"log end offset: {committed} is past it")
        return Aim(committed, "in range, unchanged")


@dataclass(frozen=True, slots=True)
class ToOffset(Target):
    """To one offset in every partition; raises UsageError where that is negative."""

    offset: int

    def __post_init__(self) -> None:
        """Refuse a negative offset, which the real tool takes for 0 (R08)."""
        if self.offset < 0:
            hint = "use 0 or more; shift-by moves back from the committed offset"
            raise UsageError(f"an offset cannot be negative: {self.offset}", hint=hint)

    @property
    def words(self) -> str:
        """The request in words."""
        return f"to-offset {self.offset}"

    def aim(self, _place: TargetPlace, _index: Index) -> Aim:
        """Return the offset."""
        return Aim(self.offset, f"offset {self.offset}")


@dataclass(frozen=True, slots=True)
class ShiftBy(Target):
    """So many records forward, or back where negative, from the committed offset."""

    records: int

    @property
    def words(self) -> str:
        """The request in words."""
        return f"shift-by {self.records}"

    def aim(self, place: TargetPlace, _index: Index) -> Aim:
        """Return the commit plus the shift, also from a commit that is outside the log (R14)."""
        if place.commit is None:
            return Aim(None, "no committed offset to shift", "no-commit")
        way = "back" if self.records < 0 else "forward"
        why = f"{abs(self.records):,} {way} from {place.commit.offset}"
        return Aim(place.commit.offset + self.records, why)
