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

from toolkit.model.garbage_collection import no_garbage_collection
from toolkit.model.groups import all_meant
from toolkit.model.plurals import counted
from toolkit.model.rows import Kind, Rows
from toolkit.plan import ChangeStatus, Position
from toolkit.planning.frames.frame_of import frame_of
from toolkit.report.cell_text import report_text
from toolkit.report.conclusion import conclude
from toolkit.report.notices import NoticeTone, show_notice
from toolkit.report.tables import ROW_CAP, show_problems, show_table
from toolkit.storage.audit import (
    AuditEntry,
    EntrySummary,
    Event,
    TornLine,
    has_log,
    is_removed,
    read,
    read_summaries,
    unfinished,
    verify,
)
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


@no_garbage_collection()
def run_rows(entries: Iterable[EntrySummary]) -> Rows:
    """
    Return a row for each run, newest first.

    Columns: run (the name to undo it by), at (UTC, when it began), cluster, who, host, intent,
    request, reason, groups and changes (counts), result (counts by status, or that there is no
    outcome), overrides, interrupted, fingerprint.
    """
    began: dict[str, tuple[object, ...]] = {}
    ended: dict[str, tuple[str, str]] = {}  # with what result, and why it was interrupted
    for summary in entries:
        entry = summary.entry
        if entry.event is Event.INTENT:
            began[entry.run.run_id] = _intent_cells(summary)
        else:
            ended[entry.run.run_id] = (_result(summary), entry.interrupted)
    rows = []
    for run_id, cells in began.items():
        result, interrupted = ended.get(run_id, (CUT_OFF, ""))
        *first, overrides, fingerprint = cells
        rows.append((run_id, *first, result, overrides, interrupted, fingerprint))
    rows.sort(key=itemgetter(1), reverse=True)
    return Rows(RUN_COLUMNS, rows)


def runs_frame(entries: Iterable[EntrySummary]) -> pd.DataFrame:
    return frame_of(run_rows(entries), groups="int64", changes="int64")


def change_rows(entries: Iterable[AuditEntry]) -> Rows:
    """
    Return a row for each change of every run as it ended, or as it was about to be made.

    Columns: run, at (UTC, when the run began), cluster, who, group, action, topic, partition,
    before, after (offsets, None where nothing is committed), status (None where no outcome is
    known), read_back (what was read back), why.
    """
    first: dict[str, tuple[datetime, str]] = {}  # of a run that was cut off, another finds the end
    last: dict[str, AuditEntry] = {}
    for entry in entries:
        first.setdefault(entry.run.run_id, (_to_ms(entry.at), entry.run.who))
        last[entry.run.run_id] = entry
    rows = [
        (
            *(run_id, first[run_id][0], entry.cluster, first[run_id][1], step.group_id),
            *(step.action.shown, *change.partition, _offset(change.before), _offset(change.after)),
            *(change.status and str(change.status), _offset(change.found), change.why or step.why),
        )
        for run_id, entry in last.items()
        for step in entry.steps
        for change in step.changes
    ]
    return Rows(CHANGE_COLUMNS, rows)


def _intent_cells(summary: EntrySummary) -> tuple[object, ...]:
    entry = summary.entry
    return (
        *(_to_ms(entry.at), entry.cluster, entry.run.who, entry.run.host, str(entry.intent)),
        *(entry.request, entry.run.reason, len(summary.groups), summary.change_count),
        *(", ".join(entry.run.overrides), entry.fingerprint),
    )


def _result(outcome: EntrySummary) -> str:
    counts = Counter[ChangeStatus | None]()
    for step in outcome.steps:
        for status, count in step.changes.items():  # `update` takes five times as long
            counts[status] += count
    counts.pop(None, None)
    counts = counts or Counter(step.status for step in outcome.steps)
    found = "determined later: " if outcome.entry.event is Event.FOUND else ""
    return found + ", ".join(f"{count:,} {status}" for status, count in counts.most_common())


def _offset(position: Position | None) -> int | None:
    return None if position is None else position.offset


def _to_ms(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport:
    """
    The runs of an audit log that touched a cluster and groups, and the flaws of the whole log.

    `groups` are names and shell patterns.
    Each part is read when it is first used. Raises StateFileError where the log cannot be read.
    """

    state: Path
    cluster: str = ""  # empty: all
    groups: Collection[str] = ()  # empty: all
    run: str = ""  # the beginning of a run's name; empty: all

    @property
    def entry_count(self) -> int:
        return sum(1 for _ in self._summaries())

    @cached_property
    def entries(self) -> tuple[AuditEntry, ...]:
        """The entries of these runs, oldest first."""
        return tuple(self._entries())

    def _summaries(self) -> Iterator[EntrySummary]:
        found = read_summaries(self.state)
        return (one for one in found if self._has(one.entry, one.groups))

    def _entries(self, runs: Collection[str] | None = None) -> Iterator[AuditEntry]:
        for entry in read(self.state, runs):
            if self._has(entry, {step.group_id for step in entry.steps}):
                yield entry

    def _has(self, entry: AuditEntry, groups: Collection[str]) -> bool:
        return (
            self.cluster in {"", entry.cluster}
            and entry.run.run_id.startswith(self.run)
            and (not self.groups or not self._meant.isdisjoint(groups))
        )

    @cached_property
    def _meant(self) -> set[str]:
        return {*all_meant(self.groups, self.all_groups)[0]}

    @property
    def all_groups(self) -> frozenset[str]:
        return self._named[1]

    @property
    def all_clusters(self) -> frozenset[str]:
        return self._named[0]

    @cached_property
    def _named(self) -> tuple[frozenset[str], frozenset[str]]:
        """The clusters and the groups of all runs; the log may be long, and is read once."""
        clusters, groups = set[str](), set[str]()
        for one in read_summaries(self.state):
            clusters.add(one.entry.cluster)
            groups |= one.groups
        return frozenset(clusters), frozenset(groups)

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
    def is_removed(self) -> bool:
        """Whether nothing is left of the log but its end."""
        return is_removed(self.state)

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
        return runs_frame(self._summaries())

    @property
    def run_rows(self) -> Rows:
        """`runs` as plain rows, which start at once."""
        return run_rows(self._summaries())

    @property
    def change_rows(self) -> Rows:
        return change_rows(self.entries)

    @property
    def undoable(self) -> pd.DataFrame:
        """The runs that left an undo record; columns as in `runs_frame`."""
        return self.runs[self.runs["run"].isin(list_runs(self.state))]

    @cached_property
    def changes(self) -> pd.DataFrame:
        """One row for each change; columns as in `change_rows`."""
        return frame_of(self.change_rows)

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
        changes = int(self.runs["changes"].sum())
        return (
            f"{counted(len(self.runs), 'run')}, {counted(changes, 'planned change')}; "
            f"{len(self.unfinished):,} without an outcome, {len(self.overridden):,} with "
            "overrides; "
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
        return self.runs[self.runs["overrides"] != ""]

    def show_integrity(self) -> None:
        """Show which lines are damaged, and which a killed process left."""
        flaws = [("audit log", flaw) for flaw in self.flaws]
        show_problems(
            frame_of(Rows({"what": "text", "why": "text"}, flaws)),
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
        """Show the newest changes of committed offsets, planned and read back: a table of them."""
        # Whole runs: what a table cuts off is at its end, where the newest change is.
        fitting = int((self.runs["changes"].cumsum() <= ROW_CAP).sum())
        newest = self.runs.head(max(1, fitting))
        is_all = len(newest) == len(self.runs)
        frame = self.changes if is_all else frame_of(change_rows(self._entries({*newest["run"]})))
        show_table(
            frame.drop(columns=["cluster", "who", "action"]),
            caption_text="Changes"
            if is_all
            else f"Changes of the newest {len(newest):,} of {len(self.runs):,} runs; all of them: "
            "offsetbook audit list --changes",
            empty_text="No committed offset was changed.",
        )

    def conclude(self) -> None:
        """End a notebook with the finding; runs without an outcome and overrides are counted."""
        found = len(self.unfinished) + len(self.overridden)
        # That a missing log is intact proves nothing.
        conclude(self.summary, findings=found, problems=len(self.flaws) or not self.exists)

    def __repr__(self) -> str:
        return report_text(self.summary, self.runs)

    def _ipython_display_(self) -> None:
        self.show_integrity()
        self.show_runs()
        self.show_changes()
