"""
What the audit log tells of runs: all entries, those that nobody finished, and the last ones.

A line of a large plan has 100 MB. So lines are known by their places in the file, and only the
beginning of a line is read to know of which run it is.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import StateFileError, UsageError
from toolkit.plan import ChangeStatus, Intent
from toolkit.storage.audit.chain import END_BYTES, HEAD, LOG, STEPS, WHOLE, SealedLine, open_line
from toolkit.storage.audit.entry import AuditEntry, Event
from toolkit.storage.audit.lines import RunHead, read_entry, read_head_of, read_run_end
from toolkit.storage.operator import Operator

MOST_RECENT = 50  # runs in which somebody's newest is looked for
CHANGED = frozenset({ChangeStatus.DONE, ChangeStatus.NOT_CONFIRMED, ChangeStatus.FAILED})
SCANNED_AT_ONCE = 1 << 20
LIKELY_HEAD = 1 << 13


class EarlierRun(NamedTuple):
    """How a run ended, without what became of each change."""

    head: RunHead
    intent: Intent
    request: str
    touched: frozenset[str]  # groups that it changed, or may have changed
    is_partly_done: bool  # something is done, and not all

    @property
    def ended_early(self) -> bool:
        """Whether it was interrupted or killed."""
        return bool(self.head.event == Event.FOUND or self.head.interrupted)


def has_log(state: Path) -> bool:
    """Return whether a state directory has a log, or the head of one."""
    return (state / LOG).exists() or (state / HEAD).exists()


def read(state: Path) -> Iterator[AuditEntry]:
    """
    Yield the entries of the log in its order; none where there is no log.

    Lines that are torn or changed are left out: `verify` names them. Raises StateFileError where
    the log cannot be read.
    """
    with _log_lines(state) as log:
        for place in log:
            if line := open_line(place.read()):
                yield _entry(state, line)


def unfinished(state: Path) -> list[AuditEntry]:
    """
    Return the intents of runs of which nobody recorded how they ended, oldest first.

    Such a run was cut off or is still going on: only who holds the cluster's lock can tell.
    """
    with _log_lines(state) as log:
        intents: dict[str, _LinePlace] = {}
        for place in log:
            if (run := place.head) is None:
                continue
            if run.event == Event.INTENT:
                intents[run.run_id] = place
            else:
                intents.pop(run.run_id, None)
        lines = (open_line(place.read()) for place in intents.values())
        return [_entry(state, line) for line in lines if line]


def last_runs(
    state: Path, cluster_id: str, groups: Collection[str], *, fingerprint: str
) -> list[EarlierRun]:
    """
    Return how the last runs ended that changed any of these groups, as far as that may matter.

    It may where a run on the cluster ended early or was cut off, or was of the plan with this
    fingerprint. Otherwise nothing is returned, without reading what every run did.
    """
    with _log_lines(state) as log:
        ends: list[_LinePlace] = []  # from the first on that matters; what they say is not kept
        for place in log:
            head = place.head
            if head and head.cluster_id == cluster_id and head.event != Event.INTENT:
                matters = head.event == Event.FOUND or head.interrupted
                if ends or matters or head.fingerprint == fingerprint:
                    ends.append(place)
        waiting, found = set(groups), []
        for place in reversed(ends):
            if waiting and (head := place.head) and (line := open_line(place.read())):
                end = _run_end(state, head, line)
                # A run that did nothing to a group leaves it as the run before did.
                if end.touched & waiting:
                    found.append(end)
                    waiting -= end.touched
        return found[::-1]


def newest_run(state: Path, cluster_id: str, by: Operator) -> list[AuditEntry]:
    """
    Return the entries of somebody's newest run on a cluster, its intent first; none without one.

    Only the newest of all runs are looked through.
    """
    with _log_lines(state) as log:
        runs: dict[str, list[_LinePlace]] = {}
        for place in log:
            if (head := place.head) and head.cluster_id == cluster_id:
                if head.event == Event.INTENT:
                    runs[head.run_id] = [place]
                elif head.run_id in runs:
                    runs[head.run_id].append(place)
        for places in [*runs.values()][-MOST_RECENT:][::-1]:
            lines = [line for place in places if (line := open_line(place.read()))]
            entries = [_entry(state, line) for line in lines]
            if entries and (entries[0].run.who, entries[0].run.host) == by:
                return entries
    return []


def _run_end(state: Path, head: RunHead, line: SealedLine) -> EarlierRun:
    try:
        intent, request, steps = read_run_end(line, _place(state, line))
        touched, statuses, is_whole = set(), set[ChangeStatus | None](), True
        for step in steps:
            of_step = {step.status, *step.of_changes}
            statuses |= of_step
            is_whole &= step.status is ChangeStatus.DONE
            if not CHANGED.isdisjoint(of_step):
                touched.add(step.group_id)
    except UsageError as exc:
        raise _unreadable(exc) from exc
    is_partly_done = ChangeStatus.DONE in statuses and not is_whole
    return EarlierRun(head, intent, request, frozenset(touched), is_partly_done)


def _entry(state: Path, line: SealedLine) -> AuditEntry:
    try:
        return read_entry(line, _place(state, line))
    except UsageError as exc:
        raise _unreadable(exc) from exc


def _place(state: Path, line: SealedLine) -> str:
    return f"audit log {state / LOG}, entry {line.link.seq}"


def _unreadable(exc: UsageError) -> StateFileError:
    return StateFileError(exc.problem, hint="use the offsetbook version that wrote it")


@dataclass(frozen=True, slots=True)
class _LinePlace:
    """One line of an open log, without its end: where it starts and stops."""

    log: int
    start: int
    stop: int

    def read(self) -> bytes:
        """Return all of the line."""
        return _read_bytes(self.log, self.start, self.stop)

    @property
    def head(self) -> RunHead | None:
        """What the line begins with; None where it is torn. Whether it holds is not checked."""
        # A killed writer has left only a part: nothing is recorded by it.
        if not WHOLE.fullmatch(
            _read_bytes(self.log, max(self.start, self.stop - END_BYTES), self.stop)
        ):
            return None
        size = LIKELY_HEAD
        while True:
            start = _read_bytes(self.log, self.start, min(self.start + size, self.stop))
            # Quotes inside of texts are escaped, so this is the field and nothing else.
            if (end := start.find(STEPS)) >= 0:
                return read_head_of(start[:end])
            if self.start + size >= self.stop:
                return None
            size *= 8


@contextmanager
def _log_lines(state: Path) -> Iterator[Iterator[_LinePlace]]:
    """
    Open the log and yield its lines in their order; none where there is no log.

    Their places can be read until the block ends. Raises StateFileError where that fails.
    """
    path = state / LOG
    try:
        log = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield iter(())
        return
    except OSError as exc:
        raise _unreadable_log(path, exc) from exc
    try:
        yield _places(log)
    except OSError as exc:
        raise _unreadable_log(path, exc) from exc
    finally:
        os.close(log)


def _places(log: int) -> Iterator[_LinePlace]:
    start = at = 0
    while chunk := os.pread(log, SCANNED_AT_ONCE, at):
        end = chunk.find(b"\n")
        while end >= 0:
            yield _LinePlace(log, start, at + end)
            start = at + end + 1
            end = chunk.find(b"\n", end + 1)
        at += len(chunk)
    if at > start:
        yield _LinePlace(log, start, at)


def _read_bytes(log: int, start: int, stop: int) -> bytes:
    parts = []
    while start < stop and (part := os.pread(log, stop - start, start)):
        parts.append(part)
        start += len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unreadable_log(path: Path, exc: OSError) -> StateFileError:
    return StateFileError(f"audit log {path} cannot be read: {exc.strerror or exc}")
