"""Reset target: the first record at or after a timestamp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from toolkit.model import Group
from toolkit.plan import Finding, Severity
from toolkit.planning.changes.targets import Target, TargetOffset, TargetPlace, ToLatest
from toolkit.planning.selection.snapshot_index import SnapshotIndex


class PastEnd(StrEnum):
    """What to do with a partition that has no record at or after the timestamp."""

    LATEST = "latest"  # reset it to the log end offset
    KEEP = "keep"  # leave it unchanged
    FAIL = "fail"  # block the plan


@dataclass(frozen=True, slots=True)
class ToDatetime(Target):
    """
    To the first record at or after an instant, from the snapshot's `at_time`.

    `asked` is the request as given, such as "by-duration P1D".
    """

    at: datetime
    past_end: PastEnd = PastEnd.KEEP
    asked: str = ""

    @property
    def words(self) -> str:
        """The request as text, with the handling past the last record."""
        asked = self.asked or f"to-datetime {_utc(self.at)}"
        return f"{asked} (past the end: {self.past_end})"

    def aim(self, place: TargetPlace, index: SnapshotIndex) -> TargetOffset:
        """Return the offset of the first record at or after the instant."""
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
            return TargetOffset(found.offset, f"{why}; this is the log start", "before-log-start")
        return TargetOffset(found.offset, why)

    def findings(self, index: SnapshotIndex, _groups: Sequence[Group]) -> Iterator[Finding]:
        """Yield a finding if the instant is in the future."""
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


def _utc(at: datetime) -> str:
    """Format an instant in UTC, with milliseconds only if there are any."""
    utc = at.astimezone(UTC)
    text = utc.isoformat(" ", "milliseconds" if utc.microsecond else "seconds")
    return text.replace("+00:00", " UTC")
