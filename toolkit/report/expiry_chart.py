"""The picture of the coming days: which groups lose offsets, and which would if they stopped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pandas as pd
import plotly.graph_objects as go

from toolkit.model.plurals import counted
from toolkit.planning.expiry.expiry_forecast import ExpiryForecast
from toolkit.planning.expiry.expiry_rules import Confidence
from toolkit.report.colours import BAD, CAUTION, SERIES
from toolkit.report.colours import UNKNOWN as GREY
from toolkit.report.figures import show_figure
from toolkit.report.safe_names import group_label, plain

ROW_PX = 28
FRAME_PX = 190
MOMENTS = 120  # as many are distinct in a line; what is closer is one mark
MARGIN = 0.03  # of the time that is shown, on both sides
SMALLEST_PX, LARGEST_PX = 9, 24
VANISHES, BOUND, AT_RISK = (
    ("expires", BAD, "diamond"),
    ("expires (estimate, see confidence)", CAUTION, "diamond-open"),
    ("expires if the group stops now", SERIES[0], "triangle-left-open"),
)


def show_expiry_timeline(found: ExpiryForecast, *, now: datetime, top_n: int = 30) -> None:
    """
    Show on a line for each group when its offsets expire, and when they would if it stopped.

    Takes what `select_expiring` returned. At most `top_n` groups, those that lose something first;
    a mark is for all offsets of a group that expire at about the same time, the larger the
    more. What is due already is shown as of now.
    """
    marks = pd.concat([_marked(found.rows, now), _marked(found.at_risk, now, at_risk=True)])
    if marks.empty:
        return
    marks = _together(marks, now=now)
    labels = list(dict.fromkeys(marks["label"]))
    shown = marks[marks["label"].isin(labels[:top_n])]
    title = "Expiry timeline"
    if len(labels) > top_n:
        title += f" (first {top_n} of {len(labels):,} groups)"
    start = pd.Timestamp(now)
    margin = (shown["at"].max() - start) * MARGIN + pd.Timedelta(1, "s")
    figure = go.Figure(list(_traces(shown)))
    figure.add_vline(x=_text(start), line={"color": GREY, "dash": "dot"})
    figure.update_layout(
        title=title,
        height=FRAME_PX + ROW_PX * shown["label"].nunique(),
        xaxis={
            "title": "time (UTC); dotted line: now",
            "type": "date",
            "range": [_text(start - margin), _text(shown["at"].max() + margin)],
        },
        yaxis={
            "type": "category",
            "categoryorder": "array",
            "categoryarray": labels[:top_n],
            "autorange": "reversed",
        },
        hovermode="closest",
        showlegend=True,  # also where there is one kind: it says what a mark means
        legend={"x": 0, "y": -0.12, "yref": "container", "yanchor": "bottom"},
    )
    show_figure(figure)


def _marked(rows: pd.DataFrame, now: datetime, *, at_risk: bool = False) -> pd.DataFrame:
    """Return one mark for each offset: label, kind, at, topic, why."""
    start = pd.Timestamp(now)
    column = "expires_if_stopped_at" if at_risk else "expires_at"
    sure = rows["expiry_confidence"] == Confidence.HIGH
    kind = pd.Series(VANISHES[0], rows.index, dtype="object").where(sure, BOUND[0])
    why = rows["expiry_why"] if not at_risk else "protected only by active members"
    return pd.DataFrame(
        {
            "label": list(map(group_label, rows["group"], rows["cluster"])),
            "kind": AT_RISK[0] if at_risk else kind,
            "at": rows[column].where(rows[column] > start, start),
            "topic": rows["topic"],
            "why": why,
        }
    )


def _together(marks: pd.DataFrame, *, now: datetime) -> pd.DataFrame:
    """Return the marks, with those that would overlap made one, the first group first."""
    start = pd.Timestamp(now)
    step = max((marks["at"].max() - start) / MOMENTS, pd.Timedelta(1, "ms"))
    marks = marks.assign(moment=(marks["at"] - start) // step)
    together = marks.groupby(["label", "kind", "moment"], sort=False).agg(
        at=("at", "min"),
        offsets=("at", "size"),
        topics=("topic", "nunique"),
        why=("why", "first"),
    )
    return together.reset_index().sort_values("at", kind="stable")


def _traces(marks: pd.DataFrame) -> Iterator[go.Scatter]:
    largest = marks["offsets"].max()
    for name, colour, symbol in (VANISHES, BOUND, AT_RISK):
        rows = marks[marks["kind"] == name]
        if rows.empty:
            continue
        share = (rows["offsets"] / largest) ** 0.5
        yield go.Scatter(
            name=name,
            mode="markers",
            x=[_text(at) for at in rows["at"]],
            y=list(rows["label"]),
            marker={
                "symbol": symbol,
                "color": colour,
                "size": list(SMALLEST_PX + (LARGEST_PX - SMALLEST_PX) * share),
                "line": {"width": 2, "color": colour},
            },
            customdata=[_words(row) for row in rows.itertuples(index=False)],
            hovertemplate="%{y}<br>%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        )


def _words(row: object) -> tuple[str, str]:
    """Return how many offsets go when, and why."""
    offsets, topics, at, why = (getattr(row, n) for n in ("offsets", "topics", "at", "why"))
    what = f"{counted(offsets, 'offset')} of {counted(topics, 'topic')}"
    return f"{what}, {at:%Y-%m-%d %H:%M} UTC", plain(why)


def _text(at: pd.Timestamp) -> str:
    """Return an instant as plotly takes it, in UTC."""
    return at.tz_convert("UTC").strftime("%Y-%m-%d %H:%M:%S")
