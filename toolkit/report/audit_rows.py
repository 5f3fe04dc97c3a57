"""The audit log as plain rows and as frames: one row a run, or one a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING

from toolkit.model.rows import Kind, Rows
from toolkit.plan import Position
from toolkit.planning.frames.frame_of import UTC_TIME, frame_of
from toolkit.storage.audit import AuditEntry, Event

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
