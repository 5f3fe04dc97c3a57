"""The audit log as rows and frames, one a run or one a change, and whether the log is intact."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.model.names import named
from toolkit.model.plurals import counted
from toolkit.model.rows import Kind, Rows
from toolkit.plan import Position
from toolkit.planning.frames.frame_of import UTC_TIME, frame_of
from toolkit.report.cell_text import report_text
from toolkit.report.conclusion import conclude
from toolkit.report.notices import NoticeTone, show_notice
from toolkit.report.tables import show_problems, show_table
from toolkit.storage.audit import AuditEntry, Event, TornLine, has_log, read, unfinished, verify
from toolkit.storage.state_folder import open_to_others
from toolkit.storage.undo_records import list_runs

if TYPE_CHECKING:
    import pandas as pd

RUN_COLUMNS: dict[str, Kind] = {
    "run": "text",
    "at": "time",
    **dict.fromkeys(("cluster", "who", "host", "intent", "request", "reason"), "text"),
    **dict.fromkeys(("groups", "changes"), "number"),
    **dict.fromkeys(("result", "overrides", "interrupted", "fingerprint"), "text"),
}
CHANGE_COLUMNS: dict[str, Kind] = {
    "run": "text",
    "at": "time",
    **dict.fromkeys(("cluster", "who"), "text"),
    "group": "name",
    **dict.fromkeys(("action", "topic"), "text"),
    **dict.fromkeys(("partition", "before", "after"), "number"),
    "status": "text",
    "read_back": "number",
    "why": "text",
}
CUT_OFF = "interrupted or still running"


def run_rows(entries: Iterable[AuditEntry]) -> Rows:
    """
    Return a row for each run, newest first.

    Columns: run (the name to undo it by), at (UTC, when it began), cluster, who, host, intent,
    request, reason, groups and changes (counts), result (counts by status, or that there is no
    outcome), overrides, interrupted, fingerprint.
    """
    began: dict[str, tuple[object, ...]] = {}
    ended: dict[str, tuple[str, str]] = {}  # with what result, and why it was interrupted
    for entry in entries:  # of which only this is kept: all changes of a long log are much
        if entry.event is Event.INTENT:
            began[entry.run.run_id] = _intent_cells(entry)
        else:
            ended[entry.run.run_id] = (_result(entry), entry.interrupted)
    rows = []
    for run_id, cells in began.items():
        result, interrupted = ended.get(run_id, (CUT_OFF, ""))
        *first, overrides, fingerprint = cells
        rows.append((run_id, *first, result, overrides, interrupted, fingerprint))
    rows.sort(key=itemgetter(1), reverse=True)
    return Rows(RUN_COLUMNS, rows)


def runs_frame(entries: Iterable[AuditEntry]) -> pd.DataFrame:
    """Return `run_rows` as a frame."""
    counts = dict.fromkeys(("groups", "changes"), "int64")
    return frame_of(run_rows(entries), {**counts, "at": UTC_TIME})


def change_rows(entries: Iterable[AuditEntry]) -> Rows:
    """
    Return a row for each change of every run as it ended, or as it was about to be made.

    Columns: run, at (UTC), cluster, who, group, action, topic, partition, before, after (offsets,
    None where nothing is committed), status (None where no outcome is known), read_back (what was
    read back), why.
    """
    last = {entry.run.run_id: entry for entry in entries}
    rows = [
        (
            *(entry.run.run_id, _to_ms(entry.at), entry.cluster, entry.run.who, step.group_id),
            *(step.action.shown, *change.partition, _offset(change.before), _offset(change.after)),
            *(change.status and str(change.status), _offset(change.found), change.why or step.why),
        )
        for entry in last.values()
        for step in entry.steps
        for change in step.changes
    ]
    return Rows(CHANGE_COLUMNS, rows)


def changes_frame(entries: Iterable[AuditEntry]) -> pd.DataFrame:
    """Return `change_rows` as a frame; partition and offsets are Int64."""
    offsets = dict.fromkeys(("partition", "before", "after", "read_back"), "Int64")
    return frame_of(change_rows(entries), {**offsets, "at": UTC_TIME})


def _intent_cells(entry: AuditEntry) -> tuple[object, ...]:
    return (
        *(_to_ms(entry.at), entry.cluster, entry.run.who, entry.run.host, str(entry.intent)),
        *(entry.request, entry.run.reason, len({step.group_id for step in entry.steps})),
        *(sum(len(step.changes) for step in entry.steps), ", ".join(entry.run.overrides)),
        entry.fingerprint,
    )


def _result(outcome: AuditEntry) -> str:
    counts = Counter(
        str(change.status) for step in outcome.steps for change in step.changes if change.status
    ) or Counter(str(step.status) for step in outcome.steps)
    found = "determined later: " if outcome.event is Event.FOUND else ""
    return found + ", ".join(f"{count:,} {status}" for status, count in counts.most_common())


def _offset(position: Position | None) -> int | None:
    return None if position is None else position.offset


def _to_ms(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport:
    """
    The runs of an audit log that touched a cluster and groups, and the flaws of the whole log.

    Each part is read when it is first used. Raises StateFileError where the log cannot be read.
    """

    state: Path
    cluster: str = ""  # empty: all
    groups: Collection[str] = ()  # empty: all
    run: str = ""  # the beginning of a run's name; empty: all

    @cached_property
    def entries(self) -> tuple[AuditEntry, ...]:
        """The entries of these runs, oldest first."""
        return tuple(self._read())

    def _read(self) -> Iterator[AuditEntry]:
        groups = {*self.groups, *map(named, self.groups)}
        for entry in read(self.state):
            if (
                self.cluster in {"", entry.cluster}
                and entry.run.run_id.startswith(self.run)
                and (not groups or groups & {step.group_id for step in entry.steps})
            ):
                yield entry

    @cached_property
    def _found(self) -> tuple[str, ...]:
        return tuple(verify(self.state))

    @property
    def flaws(self) -> tuple[str, ...]:
        """Which lines were changed, removed, moved or repeated, a sentence each."""
        return tuple(flaw for flaw in self._found if not isinstance(flaw, TornLine))

    @property
    def harmless_flaws(self) -> tuple[str, ...]:
        """Which lines a killed writer left unfinished; no entry was lost by them."""
        return tuple(flaw for flaw in self._found if isinstance(flaw, TornLine))

    @property
    def exists(self) -> bool:
        """Whether there is a log, or the end of one that was removed."""
        return has_log(self.state)

    @property
    def is_intact(self) -> bool:
        """Whether nothing was changed, removed, moved or repeated."""
        return not self.flaws

    @property
    def open_to_others(self) -> str:
        """What every user of the machine can open in the state directory; "" if nothing."""
        return open_to_others(self.state)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """One row for each run, newest first; columns as in `runs_frame`."""
        return runs_frame(self.entries)

    @property
    def run_rows(self) -> Rows:
        """`runs` as plain rows, which start at once."""
        return run_rows(self._read())

    @property
    def change_rows(self) -> Rows:
        return change_rows(self.entries)

    @property
    def undoable(self) -> pd.DataFrame:
        """The runs that left an undo record; columns as in `runs_frame`."""
        return self.runs[self.runs["run"].isin(list_runs(self.state))]

    @cached_property
    def changes(self) -> pd.DataFrame:
        """One row for each change; columns as in `changes_frame`."""
        return changes_frame(self.entries)

    @property
    def unfinished(self) -> pd.DataFrame:
        """The runs without an outcome: interrupted or still running."""
        ids = {entry.run.run_id for entry in unfinished(self.state)}
        return self.runs[self.runs["run"].isin(ids)]

    @property
    def summary(self) -> str:
        if not self.exists:
            return self._no_log
        damage = f"damaged: {counted(len(self.flaws), 'flaw')}"
        return (
            f"{counted(len(self.runs), 'run')}, {counted(len(self.changes), 'change')}; "
            f"{len(self.unfinished)} interrupted, {len(self.overridden)} with overrides; "
            f"audit log {'intact' if self.is_intact else damage}."
        )

    @property
    def _no_log(self) -> str:
        return (
            f"No audit log in {self.state}: no change was made with this state directory, or the "
            "log was removed."
        )

    @property
    def overridden(self) -> pd.DataFrame:
        """The runs with overridden rules."""
        return self.runs[self.runs["overrides"] != ""]

    def show_integrity(self) -> None:
        """Show which lines are damaged, and which a killed process left."""
        show_problems(
            [{"what": "audit log", "why": flaw} for flaw in self.flaws],
            caption_text="Audit log damaged",
            empty_text="Audit log intact: the hash of every line matches."
            if self.exists
            else self._no_log,
        )
        if self.open_to_others:
            show_notice(
                "State directory is not private", [self.open_to_others], tone=NoticeTone.WARN
            )
        if self.harmless_flaws:
            lines = frame_of(Rows({"line": "text"}, [(flaw,) for flaw in self.harmless_flaws]))
            show_table(lines, caption_text="Left by a process that was killed; no entry is lost")

    def show_runs(self) -> None:
        """Show the runs, those without an outcome, and those with overridden rules."""
        columns = ["run", "at", "cluster", "who", "request", "reason"]
        show_table(
            self.runs[[*columns, "result"]],
            caption_text="Runs",
            empty_text="No matching runs.",
        )
        show_table(
            self.unfinished[[*columns, "host"]],
            caption_text="Runs without an outcome",
            empty_text="Every run has an outcome.",
        )
        show_table(
            self.overridden[[*columns, "overrides"]],
            caption_text="Runs with overridden rules",
            empty_text="No rule was overridden.",
        )

    def show_changes(self) -> None:
        """Show each planned change of a committed offset, and what was read back."""
        show_table(
            self.changes.drop(columns=["cluster", "who", "action"]),
            caption_text="Changes",
            empty_text="No committed offset was changed.",
        )

    def conclude(self) -> None:
        """End a notebook with the finding; runs without an outcome and overrides are counted."""
        found = len(self.unfinished) + len(self.overridden)
        conclude(self.summary, findings=found, problems=len(self.flaws))

    def __repr__(self) -> str:
        return report_text(self.summary, self.runs)

    def _ipython_display_(self) -> None:
        self.show_integrity()
        self.show_runs()
        self.show_changes()
