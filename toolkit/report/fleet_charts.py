"""
The pictures of a whole fleet: how groups are, where the lag is, how old it is, how it went.

And the one of the coming days: which groups lose offsets, and which would if they stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from toolkit.model.plurals import counted
from toolkit.planning.expiry.expiry_forecast import ExpiryForecast
from toolkit.planning.expiry.expiry_rules import Confidence
from toolkit.planning.lag.status_rules import ERR, HELD, OK, UNSUBSCRIBED, WARN
from toolkit.report.figures import BAD, CAUTION, SERIES, series_colours, show_figure, status_colour
from toolkit.report.figures import UNKNOWN as GREY
from toolkit.report.lag_report import unknown_in_words
from toolkit.report.safe_names import group_label, plain

BAR_PX, FRAME_PX = 26, 150
UNKNOWN = "unknown"
WORDS = {word: status_colour(word) for word in (OK, UNSUBSCRIBED, HELD, WARN, ERR, UNKNOWN)}
PARTLY_KNOWN = "circle-open"
DASHES = ("solid", "dash", "dot")  # where there are more lines than colours
# Upper ends in seconds, and their labels; what is read to the end comes before.
AGES = {
    1: "under 1 s",
    10: "under 10 s",
    60: "under 1 min",
    600: "under 10 min",
    3600: "under 1 h",
    86_400: "under 1 d",
    np.inf: "1 d or more",
}
ALL_READ = "caught up"

ROW_PX = 28
EXPIRY_FRAME_PX = 190
MOMENTS = 120  # as many are distinct in a line; what is closer is one mark
MARGIN = 0.03  # of the time that is shown, on both sides
SMALLEST_PX, LARGEST_PX = 9, 24
VANISHES, BOUND, AT_RISK = (
    ("expires", BAD, "diamond"),
    ("expires (estimate, see confidence)", CAUTION, "diamond-open"),
    ("expires if the group stops now", SERIES[0], "triangle-left-open"),
)


def show_status_chart(groups: pd.DataFrame) -> None:
    """Show for each cluster how many groups are OK, WARN and so on; takes cluster, status."""
    if groups.empty:
        return
    words = groups["status"].fillna(UNKNOWN)
    counts = pd.crosstab(groups["cluster"], words)
    bars = [
        go.Bar(
            name=word,
            x=counts[word].tolist(),
            y=[plain(name) for name in counts.index],
            orientation="h",
            marker={"color": colour},
            hovertemplate="%{x:,} groups",
        )
        for word, colour in WORDS.items()
        if word in counts
    ]
    figure = go.Figure(bars)
    figure.update_layout(
        title="Group status by cluster",
        barmode="stack",
        height=FRAME_PX + BAR_PX * len(counts),
        xaxis={"title": "groups"},
        yaxis={"type": "category", "autorange": "reversed"},
        legend={"traceorder": "normal"},
    )
    show_figure(figure)


def show_lag_heat_map(partitions: pd.DataFrame, *, top_n: int = 20) -> None:
    """
    Show which group is how far behind on which topic, as colours.

    Takes cluster, group, topic, lag; at most `top_n` groups and topics, those with the most lag.
    """
    behind = partitions[(partitions["lag"] > 0).fillna(value=False)]
    if behind.empty or top_n < 1:
        return
    rows = pd.DataFrame(
        {
            "group": list(map(group_label, behind["group"], behind["cluster"])),
            "topic": behind["topic"],
            "lag": behind["lag"].astype("float64"),
        }
    )
    table = rows.pivot_table("lag", "group", "topic", aggfunc="sum")
    table = table.reindex(_largest(table.sum(axis=1), top_n))[_largest(table.sum(), top_n)]
    ticks = range(int(np.ceil(np.log10(table.max().max()))) + 1)
    figure = go.Figure(
        go.Heatmap(
            x=[plain(name) for name in table.columns],
            y=list(table.index),
            z=np.log10(table.to_numpy()).tolist(),
            customdata=table.to_numpy().tolist(),
            colorbar={
                "title": "lag (offsets)",
                "tickvals": list(ticks),
                "ticktext": [f"{10**power:,}" for power in ticks],
            },
            hovertemplate="%{y}<br>%{x}<br>lag %{customdata:,.0f}<extra></extra>",
        )
    )
    figure.update_layout(
        title=f"Lag by group and topic{unknown_in_words(int(partitions['lag'].isna().sum()))}",
        height=FRAME_PX + BAR_PX * len(table),
        xaxis={"type": "category"},
        yaxis={"type": "category", "autorange": "reversed"},
    )
    show_figure(figure)


def show_time_lag_chart(partitions: pd.DataFrame) -> None:
    """
    Show how long the oldest unread records have been waiting, over all committed offsets.

    Takes cluster and time_lag_s; those without a known lag in time are not drawn.
    """
    known = partitions[partitions["time_lag_s"].notna()]
    if known.empty:
        return
    ends = list(AGES)
    place = np.searchsorted(ends, known["time_lag_s"].astype("float64"), side="right")
    words = np.where(known["time_lag_s"] == 0, ALL_READ, np.array(list(AGES.values()))[place])
    counts = pd.crosstab(known["cluster"], words)
    order = [word for word in (ALL_READ, *AGES.values()) if word in counts]
    colours = series_colours(partitions["cluster"])
    bars = [
        go.Bar(
            name=plain(cluster),
            x=order,
            y=row[order].tolist(),
            marker={"color": colours[str(cluster)]},
            hovertemplate="%{y:,} offsets",
        )
        for cluster, row in counts.iterrows()
    ]
    figure = go.Figure(bars)
    figure.update_layout(
        title="Time lag of committed offsets",
        barmode="stack",
        height=FRAME_PX + 220,
        xaxis={"type": "category"},
        yaxis={"title": "committed offsets"},
    )
    show_figure(figure)


def show_lag_history(history: pd.DataFrame, groups: pd.DataFrame) -> None:
    """
    Show how the lag of some groups went, of which `groups` has cluster and group.

    Takes cluster, group, lag, unknown_lag_partitions and taken_at, a row for each group and run;
    draws nothing for one run. An open mark is the lag of some partitions of a group only.
    """
    if history["taken_at"].nunique() < 2:
        return
    pairs = zip(groups["cluster"], groups["group"], strict=True)
    lines = [_line(history, *pair, place) for place, pair in enumerate(pairs)]
    figure = go.Figure(lines)
    title = f"Lag over time (the {counted(len(lines), 'group')} with the most lag)"
    if any(PARTLY_KNOWN in line.marker.symbol for line in lines):
        title += "; open marks: unknown for some partitions"
    figure.update_layout(
        title=title,
        height=FRAME_PX + 260,
        xaxis={"title": "time, UTC", "type": "date"},
        yaxis={"title": "lag (offsets)", "rangemode": "tozero"},
    )
    show_figure(figure)


def _line(history: pd.DataFrame, cluster: str, group: str, place: int) -> go.Scatter:
    rows = history[(history["cluster"] == cluster) & (history["group"] == group)]
    # Where a run has no lag, or did not read the group, the line is broken.
    rows = rows.set_index("taken_at").reindex(sorted(history["taken_at"].unique()))
    is_part = (rows["unknown_lag_partitions"] > 0).fillna(value=False)
    return go.Scatter(
        name=group_label(group, cluster),
        x=[f"{at:%Y-%m-%d %H:%M:%S}" for at in rows.index],
        y=[None if pd.isna(lag) else int(lag) for lag in rows["lag"]],
        mode="lines+markers",
        marker={"symbol": [PARTLY_KNOWN if part else "circle" for part in is_part]},
        line={"dash": DASHES[place // len(SERIES) % len(DASHES)]},
        hovertemplate="lag %{y:,}",
    )


def _largest(sums: pd.Series[float], top_n: int) -> list[str]:
    return list(sums.nlargest(top_n).index)


def show_expiry_timeline(found: ExpiryForecast, *, now: datetime, top_n: int = 30) -> None:
    """
    Show on a line for each group when its offsets expire, and when they would if it stopped.

    Takes what `select_expiring` returned. At most `top_n` groups, those that lose something first;
    a mark is for all offsets of a group that expire at about the same time, the larger the
    more. What is due already is shown as of now.
    """
    marks = pd.concat([_marked(found.rows, now), _marked(found.at_risk, now, at_risk=True)])
    if marks.empty or top_n < 1:
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
        height=EXPIRY_FRAME_PX + ROW_PX * shown["label"].nunique(),
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
