"""
Read runs from the audit log: all entries, unfinished runs, and the last ones.

A change costs the same after 100,000 entries as after ten: `audit.index` in the state directory, an
SQLite file, knows where each line stands, which runs have no end, and which run of each intent
changed a group last. The log alone is the record: the index is brought up to its end whenever it is
opened, and made anew where it is missing, damaged, or of another log. Where it cannot be written,
one is made in memory.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from toolkit.errors import StateFileError, UsageError
from toolkit.plan import MAY_HAVE_CHANGED, Intent
from toolkit.storage.audit.chain import END_BYTES, HEAD, LOG, SealedLine, earlier_files, open_line
from toolkit.storage.audit.entry import (
    AuditEntry,
    EntrySummary,
    Event,
    LinePlace,
    OpenLog,
    lines_from,
    opened_log,
    read_entry,
    read_head,
    read_summary,
)
from toolkit.storage.formats.atomic_files import open_private
from toolkit.storage.state_folder import Operator, check_readable

INDEX = "audit.index"
FORMAT = 2
WAIT_S = 10.0  # while another process brings it up to the end of the log
IN_MEMORY = ":memory:"

TABLES = """
DROP TABLE IF EXISTS covered; DROP TABLE IF EXISTS lines; DROP TABLE IF EXISTS open_runs;
DROP TABLE IF EXISTS last_changes;
-- How much of the log is here, and the bytes before that place.
CREATE TABLE covered (size INTEGER, tail BLOB);
INSERT INTO covered VALUES (0, x'');
-- `is_early`: the end of a run that was cut off or interrupted.
CREATE TABLE lines (
    line INTEGER PRIMARY KEY, start INTEGER, stop INTEGER, run TEXT, is_end INTEGER,
    cluster_id TEXT, fingerprint TEXT, is_early INTEGER, who TEXT, host TEXT
);
CREATE INDEX ends_of_plans ON lines (cluster_id, fingerprint) WHERE is_end;
CREATE INDEX early_ends ON lines (cluster_id) WHERE is_end AND is_early;
CREATE INDEX runs_of_operators ON lines (cluster_id, who, host) WHERE NOT is_end;
-- The intents of runs without an end.
CREATE TABLE open_runs (run TEXT PRIMARY KEY, line INTEGER);
-- The end of the last run of each intent that changed a group, or may have changed it.
CREATE TABLE last_changes (
    cluster_id TEXT, group_id TEXT, intent TEXT, line INTEGER,
    PRIMARY KEY (cluster_id, group_id, intent)
) WITHOUT ROWID; """

T = TypeVar("T")
ReadLine = Callable[[SealedLine, str], T]  # of a line, and where it is, for what is wrong in it


class RunIndex:
    """An index that has all of a log; its lines can be read for as long as the log is open."""

    def __init__(self, path: str, log: OpenLog) -> None:
        """
        Open an index, and bring it up to the end of the log.

        Raises sqlite3.Error, and UsageError for an entry that this version cannot read: which
        groups its run has changed is not known then, so nothing may be told from the index.
        """
        self._index = sqlite3.connect(path, timeout=WAIT_S, isolation_level=None)
        self._log = log
        try:
            with self._index:
                self._catch_up()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._index.close()

    def _catch_up(self) -> None:
        index = self._index
        index.execute("BEGIN IMMEDIATE")
        if not self._fits():
            for statement in TABLES.split(";"):
                index.execute(statement)
            index.execute(f"PRAGMA user_version = {FORMAT}")
        (size,) = index.execute("SELECT size FROM covered").fetchone()
        for place in lines_from(self._log, size):
            size = max(size, self._add(place))
        tail = self._log.read(max(0, size - END_BYTES), size)
        index.execute("UPDATE covered SET size = ?, tail = ?", (size, tail))

    def open_runs(self) -> list[LinePlace]:
        """Return the intents of runs without an end, oldest first."""
        return self._places(
            "SELECT start, stop FROM lines WHERE line IN (SELECT line FROM open_runs) ORDER BY line"
        )

    def last_ends(
        self,
        cluster_id: str,
        groups: Collection[str],
        *,
        fingerprint: str,
        apart_from: Collection[Intent],
    ) -> list[LinePlace]:
        """
        Return the ends of the last runs that changed any of these groups, oldest first.

        Runs with one of the intents `apart_from` are passed over.

        Those before the first end that was early, or is of the plan with this fingerprint, are left
        out; all, where there is no such end.
        """
        (first,) = self._index.execute(
            "SELECT min(line) FROM (SELECT min(line) AS line FROM lines WHERE cluster_id = :id"
            " AND is_end AND is_early UNION ALL SELECT min(line) FROM lines"
            " WHERE cluster_id = :id AND is_end AND fingerprint = :plan)",
            {"id": cluster_id, "plan": fingerprint},
        ).fetchone()
        if first is None:
            return []
        return self.last_changes(cluster_id, groups, since=first, apart_from=apart_from)

    def last_changes(
        self,
        cluster_id: str,
        groups: Collection[str],
        *,
        since: int = 0,
        apart_from: Collection[Intent] = (),
    ) -> list[LinePlace]:
        """Return the ends of the last runs that changed any of these groups, oldest first."""
        found: set[int] = set()
        query = (
            "SELECT max(line) FROM last_changes WHERE cluster_id = ? AND group_id = ?"
            " AND intent NOT IN (SELECT value FROM json_each(?))"
            " GROUP BY group_id HAVING max(line) >= ?"  # SQLite before 3.39 wants the grouping
        )
        passed_over = json.dumps([*apart_from])
        for group in groups:
            lines = self._index.execute(query, (cluster_id, group, passed_over, since))
            found.update(line for (line,) in lines)
        query = "SELECT start, stop FROM lines WHERE line = ?"
        return [place for line in sorted(found) for place in self._places(query, line)]

    def newest_run(self, cluster_id: str, by: Operator) -> list[LinePlace]:
        """Return the lines of an operator's newest run on a cluster, its intent first."""
        run_id, _ = self._index.execute(
            "SELECT run, max(line) FROM lines WHERE cluster_id = ? AND who = ? AND host = ?"
            " AND NOT is_end",
            (cluster_id, *by),
        ).fetchone()
        return self.of_runs([run_id])

    def of_runs(self, run_ids: Collection[str | None]) -> list[LinePlace]:
        """Return the lines of some runs in the order of the log; None is no run."""
        query = "SELECT start, stop FROM lines WHERE run IN (SELECT value FROM json_each(?))"
        return self._places(f"{query} ORDER BY line", json.dumps([*run_ids]))

    def _fits(self) -> bool:
        """Return whether the log begins with the indexed lines."""
        (version,) = self._index.execute("PRAGMA user_version").fetchone()
        if version != FORMAT:
            return False
        size, tail = self._index.execute("SELECT size, tail FROM covered").fetchone()
        return bool(self._log.read(max(0, size - END_BYTES), size) == tail)

    def _add(self, place: LinePlace) -> int:
        """Add a line, and return where it ends; one that is not whole may still be written."""
        if (line := open_line(place.read())) is None:
            is_ended = self._log.read(place.stop, place.stop + 1) == b"\n"
            return place.stop + 1 if is_ended else place.start
        name = f"entry {line.link.seq} of the audit log"
        entry = read_head(line, name)
        is_end, run = entry.event is not Event.INTENT, entry.run
        row = (
            *(place.start, place.stop, run.run_id, is_end, entry.cluster_id, entry.fingerprint),
            *(entry.ended_early, run.who, run.host),
        )
        insert = "INSERT INTO lines VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        number = self._index.execute(insert, row).lastrowid
        if is_end:
            self._index.execute("DELETE FROM open_runs WHERE run = ?", (run.run_id,))
            self._index.executemany(
                "INSERT OR REPLACE INTO last_changes VALUES (?, ?, ?, ?)",
                (
                    (entry.cluster_id, group, entry.intent, number)
                    for group in _changed(read_summary(line, name))
                ),
            )
        else:
            opened = "INSERT OR REPLACE INTO open_runs VALUES (?, ?)"
            self._index.execute(opened, (run.run_id, number))
        return place.stop

    def _places(self, query: str, *values: object) -> list[LinePlace]:
        return [LinePlace(self._log, *row) for row in self._index.execute(query, values)]


def _changed(run: EntrySummary) -> set[str]:
    """Return the groups that a run may have changed."""
    changed = (s for s in run.steps if not MAY_HAVE_CHANGED.isdisjoint({s.status, *s.changes}))
    return {step.group_id for step in changed}


@contextmanager
def opened_index(state: Path, log: OpenLog, *, anew: bool = False) -> Iterator[RunIndex]:
    """Open the index of a log, or make it `anew`; in memory where there can be no file."""
    path = state / INDEX
    try:
        if anew:
            path.unlink(missing_ok=True)
        os.close(open_private(path, os.O_RDWR))
        index = RunIndex(str(path), log)
    except (sqlite3.Error, OSError) as exc:
        # Where it is locked or cannot be written, another process may make use of it.
        if not isinstance(exc, sqlite3.OperationalError | OSError):
            with suppress(OSError):
                path.unlink()
        index = RunIndex(IN_MEMORY, log)
    with closing(index):
        yield index


def has_log(state: Path) -> bool:
    """Return whether there is a log; raises StateFileError if the state folder cannot be read."""
    check_readable(state)
    return any(path.exists() for path in (state / LOG, state / HEAD, *earlier_files(state)))


def is_removed(state: Path) -> bool:
    """Whether there is the end of a log, and nothing of the log itself."""
    files = (state / LOG, *earlier_files(state))
    return has_log(state) and not any(path.exists() and path.stat().st_size for path in files)


def read(state: Path, runs: Collection[str] | None = None) -> Iterator[AuditEntry]:
    """
    Yield the entries of the log in its order, or those of some runs; none where there is no log.

    Lines that are torn or changed are left out: `verify` names them. Raises StateFileError where
    the log cannot be read.
    """
    yield from _read(state, runs, read_entry)


def read_summaries(state: Path, runs: Collection[str] | None = None) -> Iterator[EntrySummary]:
    """Yield the entries of the log as `read` does, with counts instead of their changes."""
    yield from _read(state, runs, read_summary)


def _read(state: Path, runs: Collection[str] | None, read: ReadLine[T]) -> Iterator[T]:
    if runs is not None:
        yield from _read_lines(state, partial(RunIndex.of_runs, run_ids=runs), read)
        return
    path = str(state / LOG)
    with opened_log(state) as log:
        for place in () if log is None else lines_from(log, 0):
            if line := open_line(place.read()):
                yield _read_one(path, line, read)


def unfinished(state: Path) -> list[AuditEntry]:
    """
    Return the intents of runs without a recorded end, oldest first.

    Such a run was cut off or is still going on: only the holder of the cluster's lock can decide.
    """
    return _read_lines(state, RunIndex.open_runs, read_entry)


def last_runs(
    state: Path,
    cluster_id: str,
    groups: Collection[str],
    *,
    fingerprint: str,
    apart_from: Collection[Intent] = (),
) -> list[EntrySummary]:
    """
    Return how the last runs ended that changed any of these groups, as far as that may matter.

    It may where a run on the cluster ended early or was cut off, or was of the plan with this
    fingerprint. Otherwise nothing is returned. Runs with an intent of `apart_from` are passed over.
    """
    ends = partial(
        RunIndex.last_ends,
        cluster_id=cluster_id,
        groups=groups,
        fingerprint=fingerprint,
        apart_from=apart_from,
    )
    return _read_lines(state, ends, read_summary)


def changed_since(
    state: Path, cluster_id: str, groups: Collection[str], at: datetime
) -> list[AuditEntry]:
    """
    Return the ends of the last runs that changed any of these groups after an instant.

    They lack their steps. Of a run that was cut off it is the intent: its end was found by the next
    command.
    """
    places = partial(RunIndex.last_changes, cluster_id=cluster_id, groups=groups)
    ends = _read_lines(state, places, read_head)
    cut_off = {end.run.run_id for end in ends if end.event is Event.FOUND}
    intents = {
        entry.run.run_id: entry
        for entry in (_read(state, cut_off, read_head) if cut_off else ())
        if entry.event is Event.INTENT
    }
    runs = (intents.get(end.run.run_id, end) for end in ends)
    return [run for run in runs if run.at > at]


def newest_run(state: Path, cluster_id: str, by: Operator) -> list[EntrySummary]:
    """Return the entries of an operator's newest run on a cluster, its intent first."""
    entries = partial(RunIndex.newest_run, cluster_id=cluster_id, by=by)
    return _read_lines(state, entries, read_summary)


def _read_lines(
    state: Path, choose: Callable[[RunIndex], list[LinePlace]], read: ReadLine[T]
) -> list[T]:
    """Return what the chosen lines of the log say; a line that does not hold is left out."""
    path = str(state / LOG)
    with opened_log(state) as log:
        if log is None:
            return []
        for anew in (False, True):
            try:
                with opened_index(state, log, anew=anew) as index:
                    places = choose(index)
                    # One after the other: each may be large.
                    lines = (open_line(place.read()) for place in places)
                    found = [_read_one(path, line, read) for line in lines if line]
            except UsageError as exc:
                raise _unreadable(exc) from exc
            if len(found) == len(places):  # else the index is of another log, or a line lies
                break
        return found


def _read_one(log: str, line: SealedLine, read: ReadLine[T]) -> T:
    try:
        return read(line, f"audit log {log}, entry {line.link.seq}")
    except UsageError as exc:
        raise _unreadable(exc) from exc


def _unreadable(exc: UsageError) -> StateFileError:
    return StateFileError(exc.problem, hint="use the offsetbook version that wrote it")
