"""Entries of the audit log."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import zip_longest
from typing import NamedTuple, overload

from toolkit.model import TopicPartition
from toolkit.plan import (
    Action,
    ChangeStatus,
    Intent,
    Outcome,
    Plan,
    Position,
    Result,
    Step,
    StepOutcome,
)


class Event(StrEnum):
    """Kind of an entry."""

    INTENT = "intent"  # the run is about to change something
    OUTCOME = "outcome"  # the result of the run; a later one of the same run replaces it
    FOUND = "found"  # the result of an interrupted run, determined later


@dataclass(frozen=True, slots=True)
class RunInfo:
    """One run of an apply: id, user, host, reason and overrides."""

    run_id: str
    who: str
    host: str
    reason: str
    overrides: tuple[str, ...] = ()  # names of the rules that were overridden


@dataclass(frozen=True, slots=True)
class AuditChange:
    """One committed offset before and after; `found` is what was read back afterwards."""

    partition: TopicPartition
    before: Position | None
    after: Position | None
    why: str = ""  # of the intent: why it goes there; of an outcome: the broker's reason
    status: ChangeStatus | None = None  # None in an intent
    found: Position | None = None


@dataclass(frozen=True, slots=True)
class AuditStep:
    """The changes of one group by one kind of request."""

    group_id: str
    action: Action
    changes: tuple[AuditChange, ...]
    status: ChangeStatus | None = None  # None in an intent
    why: str = ""


class LazySteps(Sequence[AuditStep]):
    """Steps that are made each time they are read: those of a large plan take much memory."""

    def __init__(self, count: int, make: Callable[[], Iterator[AuditStep]]) -> None:
        self._count, self._make = count, make

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[AuditStep]:
        return self._make()

    @overload
    def __getitem__(self, place: int) -> AuditStep: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[AuditStep]: ...
    def __getitem__(self, place: int | slice) -> AuditStep | Sequence[AuditStep]:
        return tuple(self)[place]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # as a list


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the audit log; `seq` is its place, 0 until it has one."""

    event: Event
    at: datetime
    run: RunInfo
    cluster: str
    cluster_id: str
    intent: Intent
    request: str
    fingerprint: str
    steps: Sequence[AuditStep]
    allows: tuple[str, ...] = ()
    interrupted: str = ""
    seq: int = 0


class StepCounts(NamedTuple):
    """How a step ended, and how many of its changes ended how; None in an intent."""

    group_id: str
    status: ChangeStatus | None
    changes: Mapping[ChangeStatus | None, int]


@dataclass(frozen=True, slots=True)
class EntrySummary:
    """An entry with counts instead of its changes, which may be a million."""

    entry: AuditEntry  # without steps
    steps: tuple[StepCounts, ...]

    @property
    def groups(self) -> set[str]:
        return {step.group_id for step in self.steps}

    @property
    def change_count(self) -> int:
        return sum(sum(step.changes.values()) for step in self.steps)


def intent_entry(plan: Plan, run: RunInfo, at: datetime) -> AuditEntry:
    return AuditEntry(
        event=Event.INTENT,
        at=at,
        run=run,
        cluster=plan.cluster,
        cluster_id=plan.cluster_id,
        intent=plan.intent,
        request=plan.request,
        fingerprint=plan.fingerprint,
        steps=LazySteps(len(plan.steps), lambda: map(_planned, plan.steps)),
        allows=tuple(sorted(plan.allows)),
    )


def outcome_entry(intent: AuditEntry, outcome: Outcome) -> AuditEntry:
    """Return the entry afterwards: the intent's changes with their results."""

    def steps() -> Iterator[AuditStep]:
        # Both are in the order of the plan, which may have two steps of a kind for one group.
        for step, became in zip_longest(intent.steps, outcome.steps):
            yield _ended(step, became)

    return replace(
        intent,
        event=Event.OUTCOME,
        at=outcome.finished_at,
        steps=LazySteps(len(intent.steps), steps),
        interrupted=outcome.interrupted,
        seq=0,
    )


def found_entry(intent: AuditEntry, outcome: Outcome, *, who: str, host: str) -> AuditEntry:
    """Return the entry of an interrupted run: the result determined later."""
    entry = outcome_entry(intent, outcome)
    return replace(entry, event=Event.FOUND, run=replace(intent.run, who=who, host=host))


def _planned(step: Step) -> AuditStep:
    changes = tuple(AuditChange(c.partition, c.before, c.after, c.why) for c in step.changes)
    return AuditStep(step.group_id, step.action, changes)


def _ended(step: AuditStep, outcome: StepOutcome | None) -> AuditStep:
    outcome = outcome or StepOutcome(step.group_id, step.action, ChangeStatus.NOT_TRIED)
    results = {result.partition: result for result in outcome.results}
    return replace(
        step,
        status=outcome.status,
        why=outcome.why,
        changes=tuple(
            _changed(change, results.get(change.partition), outcome.status)
            for change in step.changes
        ),
    )


def _changed(change: AuditChange, result: Result | None, otherwise: ChangeStatus) -> AuditChange:
    # A step that was refused whole has no results: its status goes for each of its changes.
    result = result or Result(change.partition, otherwise)
    return AuditChange(
        change.partition, change.before, change.after, result.why, result.status, result.found
    )
