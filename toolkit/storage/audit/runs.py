"""Read runs from the audit log: all entries, unfinished runs, and the last ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from toolkit.errors import StateFileError, UsageError
from toolkit.plan import ChangeStatus, Intent
from toolkit.storage.audit.chain import HEAD, LOG, SealedLine, open_line
from toolkit.storage.audit.entry import AuditEntry
from toolkit.storage.audit.lines import RunHead, head_of, read_entry, read_run_end
from toolkit.storage.audit.log_lines import LinePlace, lines_from, opened_log
from toolkit.storage.audit.run_index import RunIndex, is_early, opened_index
from toolkit.storage.operator import Operator

T = TypeVar("T")


class EarlierRun(NamedTuple):
    """How a run ended, without the result of each change."""

    head: RunHead
    intent: Intent
    request: str
    is_partly_done: bool  # something is done, and not all

    @property
    def ended_early(self) -> bool:
        """Whether it was interrupted or killed."""
        return is_early(self.head)


def has_log(state: Path) -> bool:
    """Return whether a state directory has a log, or the head of one."""
    return (state / LOG).exists() or (state / HEAD).exists()


def read(state: Path) -> Iterator[AuditEntry]:
    """
    Yield the entries of the log in its order; none where there is no log.

    Lines that are torn or changed are left out: `verify` names them. Raises StateFileError where
    the log cannot be read.
    """
    with opened_log(state) as log:
        for place in () if log is None else lines_from(log, 0):
            if line := open_line(place.read()):
                yield _entry(state, line)


def unfinished(state: Path) -> list[AuditEntry]:
    """
    Return the intents of runs without a recorded end, oldest first.

    Such a run was cut off or is still going on: only the holder of the cluster's lock can decide.
    """
    return _read_lines(state, RunIndex.open_runs, partial(_entry, state))


def last_runs(
    state: Path, cluster_id: str, groups: Collection[str], *, fingerprint: str
) -> list[EarlierRun]:
    """
    Return how the last runs ended that changed any of these groups, as far as that may matter.

    It may where a run on the cluster ended early or was cut off, or was of the plan with this
    fingerprint. Otherwise nothing is returned.
    """
    ends = partial(
        RunIndex.last_ends, cluster_id=cluster_id, groups=groups, fingerprint=fingerprint
    )
    return _read_lines(state, ends, partial(_run_end, state))


def newest_run(state: Path, cluster_id: str, by: Operator) -> list[AuditEntry]:
    """Return the entries of an operator's newest run on a cluster, its intent first."""
    entries = partial(RunIndex.newest_run, cluster_id=cluster_id, by=by)
    return _read_lines(state, entries, partial(_entry, state))


def _read_lines(
    state: Path, choose: Callable[[RunIndex], list[LinePlace]], read: Callable[[SealedLine], T]
) -> list[T]:
    """Return what the chosen lines of the log say; a line that does not hold is left out."""
    with opened_log(state) as log:
        if log is None:
            return []
        for anew in (False, True):
            try:
                with opened_index(state, log, anew=anew) as index:
                    places = choose(index)
                    # One after the other: each may be large.
                    found = [read(line) for place in places if (line := open_line(place.read()))]
            except UsageError as exc:
                raise _unreadable(exc) from exc
            if len(found) == len(places):  # else the index is of another log, or a line lies
                break
        return found


def _run_end(state: Path, line: SealedLine) -> EarlierRun:
    try:
        intent, request, steps = read_run_end(line, _place(state, line))
        statuses, is_whole = set[ChangeStatus | None](), True
        for step in steps:
            statuses |= {step.status, *step.of_changes}
            is_whole &= step.status is ChangeStatus.DONE
    except UsageError as exc:
        raise _unreadable(exc) from exc
    is_partly_done = ChangeStatus.DONE in statuses and not is_whole
    return EarlierRun(head_of(line.content), intent, request, is_partly_done)


def _entry(state: Path, line: SealedLine) -> AuditEntry:
    try:
        return read_entry(line, _place(state, line))
    except UsageError as exc:
        raise _unreadable(exc) from exc


def _place(state: Path, line: SealedLine) -> str:
    return f"audit log {_path(state)}, entry {line.link.seq}"


@lru_cache(1)  # of a log that may have a hundred thousand entries
def _path(state: Path) -> str:
    return str(state / LOG)


def _unreadable(exc: UsageError) -> StateFileError:
    return StateFileError(exc.problem, hint="use the offsetbook version that wrote it")
