"""The audit log as frames: one row a run, or one a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pandas as pd

from toolkit.plan import Position
from toolkit.storage.audit import AuditEntry, Event

RUN_COLUMNS = (
    *("run", "at", "cluster", "who", "host", "intent", "request", "reason", "groups", "changes"),
    *("result", "overrides", "interrupted", "fingerprint"),
)
CHANGE_COLUMNS = (
    *("run", "at", "cluster", "who", "group", "action", "topic", "partition", "before", "after"),
    *("status", "read_back", "why"),
)
CUT_OFF = "interrupted or still running"


def runs_frame(entries: Iterable[AuditEntry]) -> pd.DataFrame:
    """
    One row for each run, newest first.

    Columns: run (the name to undo it by), at (UTC, when it began), cluster, who, host, intent,
    request, reason, groups and changes (counts), result (counts by status, or that there is no
    outcome), overrides, interrupted, fingerprint.
    """
    began: dict[str, AuditEntry] = {}
    ended: dict[str, AuditEntry] = {}
    for entry in entries:
        (began if entry.event is Event.INTENT else ended)[entry.run.run_id] = entry
    rows = [
        (
            run_id,
            entry.at,
            entry.cluster,
            entry.run.who,
            entry.run.host,
            str(entry.intent),
            entry.request,
            entry.run.reason,
            len({step.group_id for step in entry.steps}),
            sum(len(step.changes) for step in entry.steps),
            _result(ended.get(run_id)),
            ", ".join(entry.run.overrides),
            ended[run_id].interrupted if run_id in ended else "",
            entry.fingerprint,
        )
        for run_id, entry in began.items()
    ]
    frame = pd.DataFrame(rows, columns=list(RUN_COLUMNS))
    frame = frame.astype({"at": "datetime64[ms, UTC]"})
    return frame.sort_values("at", ascending=False, kind="stable").reset_index(drop=True)


def changes_frame(entries: Iterable[AuditEntry]) -> pd.DataFrame:
    """
    One row for each change of every run as it ended, or as it was about to be made.

    Columns: run, at (UTC), cluster, who, group, action, topic, partition, before, after (Int64
    offsets, null where nothing is committed), status (null where no outcome is known), read_back
    (Int64, what was read back), why.
    """
    last = {entry.run.run_id: entry for entry in entries}
    rows = [
        (
            *(entry.run.run_id, entry.at, entry.cluster, entry.run.who, step.group_id),
            *(str(step.action), *change.partition, _offset(change.before), _offset(change.after)),
            *(change.status and str(change.status), _offset(change.found), change.why or step.why),
        )
        for entry in last.values()
        for step in entry.steps
        for change in step.changes
    ]
    frame = pd.DataFrame(rows, columns=list(CHANGE_COLUMNS), dtype="object")
    offsets = dict.fromkeys(("partition", "before", "after", "read_back"), "Int64")
    return frame.astype({**offsets, "at": "datetime64[ms, UTC]"})


def _result(outcome: AuditEntry | None) -> str:
    if outcome is None:
        return CUT_OFF
    counts = Counter(
        str(change.status) for step in outcome.steps for change in step.changes if change.status
    ) or Counter(str(step.status) for step in outcome.steps)
    found = "determined later: " if outcome.event is Event.FOUND else ""
    return found + ", ".join(f"{count:,} {status}" for status, count in counts.most_common())


def _offset(position: Position | None) -> int | None:
    return None if position is None else position.offset
