"""A plan as frames: its changes and findings for review, and their results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from toolkit.model import TopicPartition
from toolkit.model.garbage_collection import no_garbage_collection
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted
from toolkit.model.rows import Kind, Rows
from toolkit.plan import Change, Finding, Intent, Outcome, Plan, Position, StepOutcome
from toolkit.planning.frames.frame_of import UTC_TIME, frame_of

if TYPE_CHECKING:
    import pandas as pd


RecordTimes = Mapping[tuple[TopicPartition, int], datetime]
NO_TIMES: RecordTimes = MappingProxyType({})
REVIEW_COLUMNS = (
    *("group", "action", "topic", "partition", "before", "after", "distance"),
    *("before_time", "after_time", "time_distance", "metadata", "why"),
)
_HELD = ("group", "action", "topic", "partition", "why")
_DELETED = ("group", "topic", "partition", "before", "before_time", "metadata", "why")
_COMMITTED = ("group", "topic", "partition", "before", "after", "after_time", "metadata", "why")
# What people need of a change; programs get every column.
_COLUMNS_OF = {
    **dict.fromkeys((Intent.PAUSE, Intent.RESUME), _HELD),
    **dict.fromkeys((Intent.DELETE_OFFSETS, Intent.DELETE_GROUPS), _DELETED),
    **dict.fromkeys((Intent.COPY, Intent.RENAME, Intent.RESTORE, Intent.RESCUE), _COMMITTED),
}
_MOVED = (
    *("group", "topic", "partition", "before", "after", "distance", "time_distance"),
    *("metadata", "why"),
)
FINDING_COLUMNS: dict[str, Kind] = {
    **dict.fromkeys(("cluster", "severity", "rule"), "text"),
    "group": "name",
    "topic": "text",
    "partition": "number",
    "why": "text",
}
OUTCOME_COLUMNS: dict[str, Kind] = {
    "group": "name",
    **dict.fromkeys(("action", "topic"), "text"),
    "partition": "number",
    "status": "text",
    "read_back": "number",
    "why": "text",
}


def summary(plan: Plan) -> str:
    """Return a plan summary: how many partitions of how many groups move which way."""
    forward = back = still = first = removed = offsets_forward = offsets_back = 0
    for step in plan.steps:
        for _, before, after, _ in step.changes:
            if before is None or after is None:
                first += after is not None
                removed += before is not None
            elif (move := after.offset - before.offset) > 0:
                forward, offsets_forward = forward + 1, offsets_forward + move
            elif move < 0:
                back, offsets_back = back + 1, offsets_back - move
            else:
                still += 1
    parts = [
        (forward, f"forward by {counted(offsets_forward, 'offset')}"),
        (back, f"back by {counted(offsets_back, 'offset')}"),
        (still, "at the same offset"),
        (first, "newly committed"),
        (removed, "removed"),
    ]
    text = ", ".join(f"{number:,} {words}" for number, words in parts if number)
    if not plan.steps:
        return "no changes"
    partitions, groups = (
        counted(sum(len(step.changes) for step in plan.steps), "partition"),
        counted(len(plan.group_ids), "group"),
    )
    return f"{partitions} of {groups}" + (f": {text}" if text else "")


@no_garbage_collection()
def review_frame(plan: Plan, times: RecordTimes = NO_TIMES) -> pd.DataFrame:
    """
    One row for each change, in the order of the plan.

    `times` has the timestamps of records by partition and offset, as far as known. Columns: group,
    action, topic, partition, before, after (Int64, null without a committed offset), distance
    (Int64, back is negative), before_time, after_time (UTC, of the record there, null if
    there is none), time_distance, metadata (what happens to it: "", "kept", "set", "changed" or
    "removed"), why.
    """
    import pandas as pd  # noqa: PLC0415 - a change can be made without it

    changes = [change for step in plan.steps for change in step.changes]
    before = pd.Series(_offsets(change.before for change in changes), dtype="Int64")
    after = pd.Series(_offsets(change.after for change in changes), dtype="Int64")
    before_time = pd.Series(_times(changes, attrgetter("before"), times), dtype=UTC_TIME)
    after_time = pd.Series(_times(changes, attrgetter("after"), times), dtype=UTC_TIME)
    columns = {
        "group": [step.group_id for step in plan.steps for _ in step.changes],
        "action": [word for step in plan.steps for word in [step.action.shown] * len(step.changes)],
        "topic": [change.partition.topic for change in changes],
        "partition": pd.array([c.partition.partition for c in changes], "Int64"),
        "before": before,
        "after": after,
        "distance": after - before,
        "before_time": before_time,
        "after_time": after_time,
        "time_distance": after_time - before_time,
        "metadata": [_metadata(change.before, change.after) for change in changes],
        "why": [change.why for change in changes],
    }
    return pd.DataFrame(columns, columns=REVIEW_COLUMNS, copy=False)


def review_columns(intent: Intent) -> tuple[str, ...]:
    """Return the columns of a `review_frame` that people look at for this kind of change."""
    return _COLUMNS_OF.get(intent, _MOVED)


def findings_frame(findings: Iterable[Finding], *, cluster: str) -> pd.DataFrame:
    """One row for each finding: cluster, severity, rule, group, topic, partition, why."""
    rows = [
        (cluster, str(f.severity), f.rule, f.group_id, f.topic, f.partition, f.why)
        for f in findings
    ]
    return frame_of(Rows(FINDING_COLUMNS, rows))


def _offsets(positions: Iterable[Position | None]) -> list[int | None]:
    return [None if position is None else position.offset for position in positions]


def _times(
    changes: Sequence[Change], side: Callable[[Change], Position | None], times: RecordTimes
) -> list[datetime | None]:
    found: list[datetime | None] = [None] * len(changes)
    timed = {partition for partition, _ in times}
    for row, change in enumerate(changes if timed else ()):
        if change.partition in timed and (position := side(change)):
            found[row] = times.get((change.partition, position.offset))
    return found


def _metadata(before: Position | None, after: Position | None) -> str:
    old, new = before.metadata if before else "", after.metadata if after else ""
    if old == new:
        return "kept" if old else ""
    if not old:
        return "set"
    return "changed" if new else "removed"


def outcome_frame(outcome: Outcome | None) -> pd.DataFrame:
    """
    One row for each change, and one for a step without changes, in the order of the plan.

    None, if nothing was applied, gives no rows. Columns: group, action, topic, partition (Int64),
    status (see `ChangeStatus`), read_back (Int64, the offset that was read back; null if there is
    no committed offset), why.
    """
    steps = outcome.steps if outcome else ()
    rows = [
        (step.group_id, step.action.shown, *cells)
        for step in steps
        for cells in _outcome_cells(step)
    ]
    return frame_of(Rows(OUTCOME_COLUMNS, rows))


def outcome_reasons(outcome: Outcome) -> list[str]:
    """Return why steps were not done: one line per reason, with the group or a count."""
    groups_by_reason: dict[str, set[str]] = defaultdict(set)
    for step in outcome.steps:
        if step.why:
            groups_by_reason[f"{step.status}: {step.why}"].add(step.group_id)
    return [
        f"{shown_name(min(groups)) if len(groups) == 1 else f'{len(groups):,} groups'}: {why}"
        for why, groups in groups_by_reason.items()
    ]


def _outcome_cells(step: StepOutcome) -> Iterator[tuple[object, ...]]:
    for result in step.results:
        found = result.found and result.found.offset
        yield *result.partition, str(result.status), found, result.why
    if not step.results:
        yield None, None, str(step.status), None, step.why
