"""What became of a plan."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from toolkit.model import TopicPartition
from toolkit.plan.actions import Action, Position


class Status(StrEnum):
    """What became of a step or of one of its changes."""

    DONE = "done"  # read back and found as planned
    REFUSED = "refused"  # a broker or a last check said no; nothing was changed
    FAILED = "failed"  # it was tried, and what was read back is not what was planned
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one change: `found` is what was read back, None where nothing is committed."""

    partition: TopicPartition
    status: Status
    why: str = ""
    found: Position | None = None


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What became of one step; `why` is the group's own error, results are per partition."""

    group_id: str
    action: Action
    status: Status
    why: str = ""
    results: tuple[Result, ...] = ()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What applying a plan did; `run_id` is the name by which it can be undone."""

    run_id: str
    fingerprint: str
    started_at: datetime
    finished_at: datetime
    steps: tuple[StepOutcome, ...]
    interrupted: str = ""  # why it ended early

    @property
    def is_done(self) -> bool:
        """Whether every step was carried out and found as planned."""
        return all(step.status is Status.DONE for step in self.steps)

    @property
    def in_words(self) -> str:
        """How many changes were done, refused, failed and not tried, in one line."""
        counts = Counter(result.status for step in self.steps for result in step.results)
        if not counts:
            counts = Counter(step.status for step in self.steps)
        return (
            ", ".join(f"{count:,} {status}" for status, count in counts.most_common()) or "nothing"
        )

    @property
    def changed_anything(self) -> bool:
        """Whether any change was made, or may have been."""
        return any(
            step.status in {Status.DONE, Status.FAILED}
            or any(result.status is Status.DONE for result in step.results)
            for step in self.steps
        )


class Ending(StrEnum):
    """How a change, or a notebook that reached its last cell, ended."""

    DONE = "done"  # also: there was nothing to do
    BLOCKED = "blocked"  # by a guard rail or a missing approval; nothing was changed
    PARTLY_APPLIED = "partly-applied"
    INCOMPLETE = "incomplete"  # it only read, and could not read everything

    @property
    def exit_code(self) -> int:
        """What a program that ends so returns."""
        return {Ending.DONE: 0, Ending.BLOCKED: 3}.get(self, 4)
