"""The picture of a plan: within its log, where each committed offset is and where it goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from toolkit.model import Snapshot
from toolkit.model.names import shown_name
from toolkit.plan import Change, Plan, Step
from toolkit.report.colours import CAUTION, SERIES, UNUSED
from toolkit.report.colours import UNKNOWN as GREY
from toolkit.report.figures import show_traces
from toolkit.report.safe_names import plain

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
