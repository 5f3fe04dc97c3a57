"""
Cards about a change: the plan and its findings, the decision, and the outcome.

The picture of a plan shows where within its log each committed offset is and where it goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from toolkit.model import Snapshot
from toolkit.model.names import shown_name
from toolkit.model.times import format_duration
from toolkit.plan import HOLD_INTENTS, Change, Finding, Outcome, Plan, Step
from toolkit.planning.frames.plan_frames import (
    findings_frame,
    outcome_frame,
    outcome_reasons,
    review_columns,
    summary,
)
from toolkit.planning.frames.snapshot_frames import groups_frame, offsets_frame
from toolkit.report.audit_report import run_rows
from toolkit.report.cell_text import frame_text
from toolkit.report.display import is_headless
from toolkit.report.figures import CAUTION, SERIES, UNUSED, show_traces
from toolkit.report.figures import UNKNOWN as GREY
from toolkit.report.notices import NoticeTone, show_notice
from toolkit.report.safe_names import plain, sentence, visible
from toolkit.report.tables import show_empty, show_table
from toolkit.storage.audit import EntrySummary

if TYPE_CHECKING:
    import pandas as pd

ROW_PX = 30
FRAME_PX = 170
LOG_GREY = "rgba(128,128,128,0.28)"
# How a change is called in the legend, and its colour.
BACK, FORWARD, FIRST, REMOVED, SAME = (
    ("moves back", SERIES[0]),
    ("moves forward", CAUTION),  # may skip unread records
    ("first commit", SERIES[1]),
    ("removed", UNUSED),
    ("unchanged", GREY),
)

TO_APPROVE = (
    "To apply exactly this, set dry_run = False, approve and reason{} among the parameters and run "
    "all cells again"
)
OR_RUN = "; or run this command with a reason of your own:"
# What a plan shows stays on the page when it has been applied by hand.
AS_PLANNED = " when this was planned"
GROUP_COLUMNS = ["group", "type", "state", "members", "subscribed"]
RECORD_COLUMNS = ["run", "at", "who", "request", "reason", "overrides", "result"]


class PlanChartRow(NamedTuple):
    """One change, every place from 0 to 1 on the line of its partition."""

    label: str
    words: tuple[str, str, str]
    kind: tuple[str, str]
    start: float
    end: float
    before: float | None
    after: float | None


def show_plan_chart(plan: Plan, facts: Snapshot, *, most: int = 30) -> None:
    """
    Show within its log where each committed offset is and where it goes.

    One line a partition, as long as its log whatever the number of records; at most `most` of them,
    those that go furthest. A partition whose log is not known is not drawn.
    """
    changes = sorted(plan.changes, key=lambda pair: _distance(pair[1]), reverse=True)
    rows = [row for pair in changes[:most] if (row := _row(*pair, facts))]
    if not rows:
        return
    title = "Planned offset changes within each log"
    if len(changes) > len(rows):
        title += f" ({len(rows)} of {len(changes):,})"
    show_traces(
        [_logs(rows), _before(rows), *_after(rows)],
        title=title,
        height=FRAME_PX + ROW_PX * len(rows),
        xaxis={
            "title": "log start offset to log end offset (each log scaled to the same length)",
            "range": [-0.03, 1.03],
            "showticklabels": False,
            "showgrid": False,
            "zeroline": False,
        },
        yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
        hovermode="closest",
        legend={"x": 0, "y": -0.12, "yref": "container", "yanchor": "bottom"},
    )


def _distance(change: Change) -> int:
    if change.before is None or change.after is None:
        return 0
    return abs(change.after.offset - change.before.offset)


def _row(step: Step, change: Change, facts: Snapshot) -> PlanChartRow | None:
    log = facts.logs.get(change.partition)
    if log is None or log.log_start is None or log.log_end is None:
        return None
    before = change.before.offset if change.before else None
    after = change.after.offset if change.after else None
    # An offset that is outside of its log makes the line longer than the log.
    places = [log.log_start, log.log_end, *(p for p in (before, after) if p is not None)]
    low, span = min(places), max(max(places) - min(places), 1)
    topic, partition = change.partition
    moves = " → ".join("nothing" if p is None else f"{p:,}" for p in (before, after))
    ends = f"log: {log.log_start:,} to {log.log_end:,}"
    return PlanChartRow(
        label=plain(f"{topic} {partition} · {shown_name(step.group_id)}"),
        words=(plain(shown_name(step.group_id)), plain(f"{topic} {partition}: {moves}"), ends),
        kind=_kind(before, after),
        start=(log.log_start - low) / span,
        end=(log.log_end - low) / span,
        before=None if before is None else (before - low) / span,
        after=None if after is None else (after - low) / span,
    )


def _kind(before: int | None, after: int | None) -> tuple[str, str]:
    if after is None:
        return REMOVED
    if before is None:
        return FIRST
    if after == before:
        return SAME
    return FORWARD if after > before else BACK


def _logs(rows: list[PlanChartRow]) -> dict[str, object]:
    return {
        "type": "bar",
        "name": "the log",
        "y": [row.label for row in rows],
        "base": [row.start for row in rows],
        "x": [row.end - row.start for row in rows],
        "orientation": "h",
        "width": 0.36,
        "marker": {"color": LOG_GREY},
        "hoverinfo": "skip",
    }


def _before(rows: list[PlanChartRow]) -> dict[str, object]:
    there = [row for row in rows if row.before is not None]
    return dict(
        type="scatter",
        name="current offset",
        mode="markers",
        x=[row.before for row in there],
        y=[row.label for row in there],
        marker={"symbol": "circle-open", "size": 12, "color": GREY, "line": {"width": 2}},
        **_hover(there),
    )


def _after(rows: list[PlanChartRow]) -> Iterator[dict[str, object]]:
    """Yield for each kind of change the ways and where they end."""
    for kind in dict.fromkeys(row.kind for row in rows):
        name, colour = kind
        those = [row for row in rows if row.kind == kind]
        # A gap after each way, so that it does not lead on to the next partition.
        xs = [x for row in those for x in (row.before, row.after, None)]
        ys = [y for row in those for y in (row.label, row.label, None)]
        yield {
            "type": "scatter",
            "mode": "lines",
            "x": xs,
            "y": ys,
            "line": {"color": colour, "width": 3},
            "hoverinfo": "skip",
            "showlegend": False,
        }
        yield dict(
            type="scatter",
            name=name,
            mode="markers",
            x=[row.before if row.after is None else row.after for row in those],
            y=[row.label for row in those],
            marker={
                "symbol": "x" if kind == REMOVED else "diamond",
                "size": 11,
                "color": colour,
            },
            **_hover(those),
        )


def _hover(rows: list[PlanChartRow]) -> dict[str, object]:
    lines = "<br>".join(f"%{{customdata[{number}]}}" for number in range(3))
    return {"customdata": [row.words for row in rows], "hovertemplate": f"{lines}<extra></extra>"}


def show_change(
    plan: Plan, read: Sequence[Snapshot], findings: Sequence[Finding], review: pd.DataFrame
) -> None:
    """
    Show the groups as they were read, what a plan changes, and what the guard rails found.

    `read` are the snapshots that it was made from, `review` is its `review_frame`.
    """
    for facts in read:
        where = "" if len(read) == 1 else f" of {facts.cluster}"
        title = f"The groups{where}{AS_PLANNED}"
        shown = groups_frame(facts)[GROUP_COLUMNS]
        show_table(shown, caption_text=title, empty_text="No matching group.")
    if plan.intent in HOLD_INTENTS:
        _show_partitions(read[-1])
    else:
        show_plan_chart(plan, read[-1])
    show_table(
        review[list(review_columns(plan.intent))],
        caption_text=f"{visible(plan.request)}: {summary(plan)}",
        empty_text="No changes.",
    )
    show_table(
        findings_frame(findings, cluster=plan.cluster).drop(columns="cluster"),
        caption_text="Findings",
        empty_text="No findings.",
    )


def _show_partitions(facts: Snapshot) -> None:
    offsets = offsets_frame(facts)
    show_table(
        offsets[["topic", "partition", "owner", "committed", "log_end", "lag"]],
        caption_text=f"Partitions{AS_PLANNED}",
        empty_text="No committed offsets.",
    )


def change_text(plan: Plan, findings: Sequence[Finding], review: pd.DataFrame) -> str:
    """Return the same as text for a prompt."""
    table = frame_text(review[list(review_columns(plan.intent))], max_rows=20)
    lines = [f"{f.severity}: {f.rule}: {f.why}" for f in findings]
    head = f"{plan.request} on {plan.cluster}: {summary(plan)}"
    parts = [head, *([table] if len(review) else []), *lines, f"Fingerprint: {plan.fingerprint}"]
    return "\n".join(visible(line) for part in parts for line in part.splitlines())


def show_notices(notices: Iterable[tuple[str, str]]) -> None:
    """Show notices about earlier runs: a sentence each, and the command that undoes it."""
    for words, command in notices:
        line = "To undo it:" if command else ""
        show_notice(sentence(words), [line], command=command, tone=NoticeTone.WARN)


def show_newest_run(entries: Sequence[EntrySummary], now: datetime) -> None:
    table = run_rows(entries)
    (row,) = table.as_dicts()
    began = f"{row['at']:%H:%M:%S} UTC, {format_duration(now - row['at'])} ago"
    lines = [f"Run {row['run']}, begun at {began}: {sentence(row['request'])}."]
    is_over = len(entries) > 1
    if not is_over:
        lines.append("Run this cell again to see whether it has ended.")
    title = f"Your latest change on {row['cluster']}: {row['result']}"
    show_notice(title, lines, tone=NoticeTone.NOTE if is_over else NoticeTone.WARN)


def show_approved(message: str, plan: Plan, reason: str) -> None:
    lines = [f"Fingerprint: {plan.fingerprint}", f"Why: {reason}"]
    show_notice(sentence(message), lines, tone=NoticeTone.GOOD)


def show_approval_missing(
    message: str, plan: Plan, command: str, *, is_refused: bool, chosen: Mapping[str, object]
) -> None:
    """Show that an approval is missing, and how to give it; `chosen` are no parameters yet."""
    tone = NoticeTone.WARN if is_refused else NoticeTone.NOTE
    also = "".join(f", {name} = {value!r}" for name, value in chosen.items())
    lines = [f"Fingerprint: {plan.fingerprint}"]
    lines.append(TO_APPROVE.format(also) + (OR_RUN if command else "."))
    show_notice(sentence(message), lines, command=command, tone=tone)


def show_blocked(message: str, overridable: Sequence[str], alternatives: Sequence[str]) -> None:
    """Show which rules block a plan, and what can be done: an override, or something else."""
    way_out = "This cannot be overridden: change what is asked for."
    if overridable:
        rules = list(overridable)
        way_out = f"If that is intended, set overrides = {rules}; the plan still needs approval."
        if not is_headless():
            way_out = f"If that is intended, tick it below, or set overrides = {rules}."
    show_notice(sentence(message), [*map(sentence, alternatives), way_out], tone=NoticeTone.WARN)


def show_nothing_to_do(message: str) -> None:
    show_notice(sentence(message), tone=NoticeTone.GOOD)


def show_outcome(outcome: Outcome | None) -> None:
    """Show the result of every change, as read back; changes that were not done come first."""
    if outcome is None:
        show_empty("Nothing was applied: nothing to verify.")
        return
    tone = NoticeTone.GOOD if outcome.is_done else NoticeTone.BAD
    whys = outcome_reasons(outcome)
    show_notice(outcome.verified_summary, whys, tone=tone)
    frame = outcome_frame(outcome)
    not_done_first = frame.assign(done=frame["status"] == "done").sort_values("done", kind="stable")
    show_table(not_done_first.drop(columns="done"), caption_text="Result of each change")


def show_record(runs: pd.DataFrame) -> None:
    """Show a run of the audit log; `runs` is a `runs_frame` with that run, or none."""
    show_table(
        runs[RECORD_COLUMNS],
        caption_text="Audit log entry",
        empty_text="No audit entry: nothing was applied.",
    )


def show_undo(run_id: str, command: str, *, has_changed: bool) -> None:
    """Show how a run is undone; without a command there is nothing to undo."""
    if not command:
        what = "No committed offset" if has_changed else "Nothing"
        show_empty(f"{what} was changed, so there is nothing to undo.")
        return
    line = "Dry run of the undo; its report contains the command that applies it:"
    show_notice(f"Run {run_id} can be undone", [line], command=command)


def show_resume(lasts: str, command: str) -> None:
    """Show how to end a pause; `lasts` is its duration."""
    line = (
        f"The pause continues in the background {lasts}. Dry run of the resume; its report "
        "contains the command that applies it:"
    )
    show_notice("Partitions are paused", [line], command=command)
