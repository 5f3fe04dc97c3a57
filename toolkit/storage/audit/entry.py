"""
Entries of the audit log, and how they are the fields of a JSON line; nothing else is in the log.

A line of a large plan has 100 MB. So its steps are decoded only where they are needed, one at a
time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any, NamedTuple, overload

from toolkit.errors import StateFileError, UsageError
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
from toolkit.storage.audit.chain import (
    LOG,
    ChainPosition,
    SealedLine,
    earlier_files,
)
from toolkit.storage.formats.json_codec import RAW_DECODE, JsonFields, by_value, utc_text
from toolkit.storage.plan_files import (
    compact,
    filled,
    position_content,
    read_partition,
    read_position,
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

    @property
    def ended_early(self) -> bool:
        """Whether the run ended before all was done: cut off, or interrupted."""
        return self.event is Event.FOUND or bool(self.interrupted)


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

    @property
    def is_partly_done(self) -> bool:
        """Whether something is done, and not all."""
        done = ChangeStatus.DONE
        is_whole = all(step.status is done for step in self.steps)
        return not is_whole and any(done in {step.status, *step.changes} for step in self.steps)


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


ENTRY_FIELDS = frozenset(
    {
        *("seq", "at", "run", "event", "who", "host", "cluster", "cluster_id", "intent", "request"),
        *("reason", "fingerprint", "overrides", "allows", "interrupted", "notes", "steps", "prev"),
    }
)
STEP_FIELDS = frozenset({"group", "action", "status", "why", "changes"})
CHANGE_FIELDS = frozenset({"topic", "partition", "before", "after", "status", "why", "found"})

SCANNED_AT_ONCE = 1 << 20


def entry_parts(entry: AuditEntry, after: ChainPosition) -> Iterator[str]:
    """Yield the line of an entry after a place in the chain as JSON, a part for each step."""
    run = entry.run
    content = {
        "seq": after.seq + 1,
        "at": utc_text(entry.at),
        "run": run.run_id,
        "event": entry.event,
        "who": run.who,
        "host": run.host,
        "cluster": entry.cluster,
        "cluster_id": entry.cluster_id,
        "intent": entry.intent,
        "request": entry.request,
        "reason": run.reason,
        "fingerprint": entry.fingerprint,
        "overrides": run.overrides,
        "allows": entry.allows,
        "interrupted": entry.interrupted,
        "notes": [],  # earlier versions read no line without it
        "steps": [],
        "prev": after.hash,
    }
    text = compact(content).removesuffix("}")
    yield from filled(text, "steps", (compact(_step_content(step)) for step in entry.steps))
    yield "}"


def read_entry(line: SealedLine, place: str) -> AuditEntry:
    """Return the entry that a line holds; raises UsageError that names the place."""
    steps = tuple(map(_step, _step_fields(line.steps, place)))
    return replace(read_head(line, place), steps=steps)


def read_summary(line: SealedLine, place: str) -> EntrySummary:
    """Return the entry of a line without its changes; raises UsageError that names the place."""
    steps = tuple(map(_step_counts, _step_fields(line.steps, place)))
    return EntrySummary(read_head(line, place), steps)


def read_head(line: SealedLine, place: str) -> AuditEntry:
    """Return the entry of a line without its steps; raises UsageError that names the place."""
    fields = JsonFields.of(line.content, place, ENTRY_FIELDS)
    return AuditEntry(
        event=fields.choice("event", Event),
        at=fields.time("at"),
        run=RunInfo(
            fields.text("run"),
            fields.text("who"),
            fields.text("host"),
            fields.text("reason"),
            fields.texts("overrides"),
        ),
        cluster=fields.text("cluster"),
        cluster_id=fields.text("cluster_id"),
        intent=fields.choice("intent", Intent),
        request=fields.text("request"),
        fingerprint=fields.text("fingerprint"),
        steps=(),
        allows=fields.texts("allows"),
        interrupted=fields.text("interrupted"),
        seq=fields.count("seq"),
    )


def _step_counts(fields: JsonFields) -> StepCounts:
    changes: Any = fields.values["changes"]
    found: dict[str | None, int] = {}
    try:
        for change in changes:
            found[change["status"]] = found.get(change["status"], 0) + 1
        counts = {
            None if name is None else by_value(ChangeStatus)[name]: count
            for name, count in found.items()
        }
    except (TypeError, KeyError):
        for change in fields.many("changes", CHANGE_FIELDS):  # to name the fault
            _status(change)
        raise
    return StepCounts(fields.text("group"), _status(fields), counts)


def _step_content(step: AuditStep) -> dict[str, object]:
    return {
        "group": step.group_id,
        "action": step.action,
        "status": step.status,
        "why": step.why,
        "changes": [_change_content(change) for change in step.changes],
    }


def _change_content(change: AuditChange) -> dict[str, object]:
    return {
        **change.partition._asdict(),
        "before": position_content(change.before),
        "after": position_content(change.after),
        "status": change.status,
        "why": change.why,
        "found": position_content(change.found),
    }


def _step_fields(data: bytes, place: str) -> Iterator[JsonFields]:
    """Yield the steps of a line, decoding one at a time: the objects of all take much memory."""
    text, at, number = data.decode(), 0, 0
    while at < len(text):
        try:
            step, at = RAW_DECODE(text, at)
        except (ValueError, RecursionError) as exc:
            raise UsageError(f"{place}.steps[{number}] is not JSON: {exc}") from exc
        yield JsonFields.of(step, f"{place}.steps[{number}]", STEP_FIELDS)
        at, number = at + 1, number + 1  # a comma follows


def _step(fields: JsonFields) -> AuditStep:
    return AuditStep(
        fields.text("group"),
        fields.choice("action", Action),
        tuple(map(_change, fields.many("changes", CHANGE_FIELDS))),
        _status(fields),
        fields.text("why"),
    )


def _change(fields: JsonFields) -> AuditChange:
    return AuditChange(
        read_partition(fields),
        read_position(fields, "before"),
        read_position(fields, "after"),
        fields.text("why"),
        _status(fields),
        read_position(fields, "found"),
    )


def _status(fields: JsonFields) -> ChangeStatus | None:
    return fields.optional("status", lambda name: fields.choice(name, ChangeStatus))


class OpenLog:
    """The log of a state directory: its files, one after the other, as if they were one."""

    def __init__(self, files: Sequence[int]) -> None:
        """Take open files, the oldest first, as far as they go now."""
        *starts, self._size = accumulate((os.fstat(one).st_size for one in files), initial=0)
        self._files = tuple(zip(starts, files, strict=True))
        self._scanned, self._scanned_from = b"", 0

    def scan(self, start: int) -> bytes:
        """Return the next piece of the log; its lines are then read without asking the file."""
        self._scanned, self._scanned_from = self.read(start, start + SCANNED_AT_ONCE), start
        return self._scanned

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes between two places, fewer where the log ends before."""
        at = self._scanned_from
        if at <= start and stop <= at + len(self._scanned):
            return self._scanned[start - at : stop - at]
        parts, stop = [], min(stop, self._size)
        while start < stop:
            begin, file = next(one for one in reversed(self._files) if one[0] <= start)
            if not (part := os.pread(file, stop - start, start - begin)):
                break
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


@dataclass(frozen=True, slots=True)
class LinePlace:
    """One line of an open log, without its end: where it starts and stops."""

    log: OpenLog
    start: int
    stop: int

    def read(self) -> bytes:
        return self.log.read(self.start, self.stop)


@contextmanager
def opened_log(state: Path) -> Iterator[OpenLog | None]:
    """
    Open the log of a state directory; None where there is none.

    Raises StateFileError where it cannot be opened, or read before the block ends.
    """
    files: dict[int, int] = {}  # by inode
    try:
        for path in _newest_first(state):
            with suppress(FileNotFoundError):
                file = os.open(path, os.O_RDONLY)
                if files.setdefault(os.fstat(file).st_ino, file) != file:
                    os.close(file)
        yield OpenLog([*reversed(files.values())]) if files else None
    except OSError as exc:
        raise _unreadable(state / LOG, exc) from exc
    finally:
        for file in files.values():
            os.close(file)


def _newest_first(state: Path) -> Iterator[Path]:
    # A writer may just put the newest aside: it is open by then, and met again as an earlier one.
    yield state / LOG
    yield from reversed(earlier_files(state))


def lines_from(log: OpenLog, start: int) -> Iterator[LinePlace]:
    """Yield the lines of a log that begin at or after a place where a line begins."""
    at = start
    while chunk := log.scan(at):
        end = chunk.find(b"\n")
        while end >= 0:
            yield LinePlace(log, start, at + end)
            start = at + end + 1
            end = chunk.find(b"\n", end + 1)
        at += len(chunk)
    if at > start:
        yield LinePlace(log, start, at)


def _unreadable(path: Path, exc: OSError) -> StateFileError:
    return StateFileError(f"audit log {path} cannot be read: {exc.strerror or exc}")
