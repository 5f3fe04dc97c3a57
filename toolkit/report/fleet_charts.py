"""The pictures of a whole fleet: how groups are, where the lag is, how old it is, how it went."""

from __future__ import annotations

import numpy as np
import pandas as pd
import plotly.graph_objects as go

from toolkit.planning.lag.status_rules import ERR, HELD, OK, UNSUBSCRIBED, WARN
from toolkit.report.colours import SERIES, series_colours, status_colour
from toolkit.report.figures import show_figure
from toolkit.report.safe_names import group_label, plain

BAR_PX, FRAME_PX = 26, 150
UNKNOWN = "unknown"
WORDS = {word: status_colour(word) for word in (OK, UNSUBSCRIBED, HELD, WARN, ERR, UNKNOWN)}
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
    if behind.empty:
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
        title="Lag by group and topic",
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


def show_lag_history(history: pd.DataFrame, *, top_n: int = 8) -> None:
    """
    Show how the lag of those groups went that are furthest behind in the newest run.

    Takes cluster, group, lag and taken_at, a row for each group and run; draws nothing for one run.
    """
    if history["taken_at"].nunique() < 2:
        return
    newest = history[history["taken_at"] == history["taken_at"].max()]
    worst = newest.dropna(subset=["lag"]).nlargest(top_n, "lag")
    lines = [_line(history, *pair, place) for place, pair in enumerate(_pairs(worst))]
    figure = go.Figure(lines)
    figure.update_layout(
        title=f"Lag over time (top {len(lines)} groups)",
        height=FRAME_PX + 260,
        xaxis={"title": "time, UTC", "type": "date"},
        yaxis={"title": "lag (offsets)", "rangemode": "tozero"},
    )
    show_figure(figure)


def _line(history: pd.DataFrame, cluster: str, group: str, place: int) -> go.Scatter:
    rows = history[(history["cluster"] == cluster) & (history["group"] == group)]
    rows = rows.sort_values("taken_at")
    return go.Scatter(
        name=group_label(group, cluster),
        x=[f"{at:%Y-%m-%d %H:%M:%S}" for at in rows["taken_at"]],
        # Where a run has no lag the line is broken.
        y=[None if pd.isna(lag) else int(lag) for lag in rows["lag"]],
        mode="lines+markers",
        line={"dash": DASHES[place // len(SERIES) % len(DASHES)]},
        hovertemplate="lag %{y:,}",
    )


def _pairs(rows: pd.DataFrame) -> list[tuple[str, str]]:
    return list(zip(rows["cluster"], rows["group"], strict=True))


def _largest(sums: pd.Series[float], top_n: int) -> list[str]:
    return list(sums.nlargest(top_n).index)
