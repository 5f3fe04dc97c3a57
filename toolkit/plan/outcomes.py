"""Results of plans."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from toolkit.model import TopicPartition
from toolkit.plan.plans import Action, Position


class ChangeStatus(StrEnum):
    """Status of a step or of one of its changes."""

    DONE = "done"  # verified
    NOT_CONFIRMED = "not confirmed"  # read back, but not yet seen in the application's commits
    REFUSED = "refused"  # rejected by a broker or a last check; nothing was changed
    FAILED = "failed"  # tried, but the read-back does not match the plan
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one change: `found` is the read-back, None without a committed offset."""

    partition: TopicPartition
    status: ChangeStatus
    why: str = ""
    found: Position | None = None


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """Result of one step; `why` is the group-level error, results are per partition."""

    group_id: str
    action: Action
    status: ChangeStatus
    why: str = ""
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of applying a plan; `run_id` identifies it for undo."""

    run_id: str
    fingerprint: str
    started_at: datetime
    finished_at: datetime
    steps: tuple[StepOutcome, ...]
    interrupted: str = ""  # why it was interrupted

    @property
    def is_done(self) -> bool:
        """Whether every step was applied and verified."""
        return all(step.status is ChangeStatus.DONE for step in self.steps)

    @property
    def summary(self) -> str:
        """How many changes were done, refused, failed and not tried, in one line."""
        counts = Counter(result.status for step in self.steps for result in step.results)
        if not counts:
            counts = Counter(step.status for step in self.steps)
        return (
            ", ".join(f"{count:,} {status}" for status, count in counts.most_common()) or "nothing"
        )

    @property
    def changed_anything(self) -> bool:
        """Whether a change was made, or may have been."""
        return any(
            step.status in {ChangeStatus.DONE, ChangeStatus.NOT_CONFIRMED, ChangeStatus.FAILED}
            or any(
                r.status in {ChangeStatus.DONE, ChangeStatus.NOT_CONFIRMED} for r in step.results
            )
            for step in self.steps
        )


class ConclusionStatus(StrEnum):
    """How a change, or a notebook that reached its last cell, ended."""

    DONE = "done"  # also: there was nothing to do
    BLOCKED = "blocked"  # by a guard rail or a missing approval; nothing was changed
    PARTLY_APPLIED = "partly-applied"
    INCOMPLETE = "incomplete"  # it only read, and could not read everything

    @property
    def exit_code(self) -> int:
        """What a program that ends so returns."""
        return {ConclusionStatus.DONE: 0, ConclusionStatus.BLOCKED: 3}.get(self, 4)
