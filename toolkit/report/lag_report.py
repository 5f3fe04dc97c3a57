"""The lag of every group of a cluster, from one reading, with charts by group and partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from toolkit.model import GroupType, Snapshot
from toolkit.model.commit_columns import columns_of
from toolkit.model.plurals import counted
from toolkit.model.rows import Rows
from toolkit.planning.frames.frame_of import frame_of
from toolkit.planning.frames.snapshot_frames import group_list, offsets_frame
from toolkit.planning.lag.lag_rows import group_rows, partition_rows, with_changes
from toolkit.report.cell_text import frame_text
from toolkit.report.figures import SERIES, UNUSED, series_colours, show_traces
from toolkit.report.notices import show_read_errors
from toolkit.report.safe_names import group_label, plain, visible_lines
from toolkit.report.tables import show_table

if TYPE_CHECKING:
    import pandas as pd

BAR_PX = 26
FRAME_PX = 130

SHARE = GroupType.SHARE  # has no committed offsets at all


def show_lag_chart(groups: pd.DataFrame, *, top_n: int = 20) -> None:
    """
    Show the groups that are most behind as bars, one colour a cluster.

    Takes cluster, group, lag and unknown_lag_partitions. Groups without a known lag are not drawn,
    and the title says of how many partitions it is unknown.
    """
    worst = groups.dropna(subset=["lag"]).nlargest(top_n, "lag")
    colours = series_colours(groups["cluster"])
    bars = [
        _bar(
            name=plain(cluster),
            x=rows["lag"],
            y=_labels(rows),
            marker={"color": colours[str(cluster)]},
            hovertemplate="%{x:,}",
        )
        for cluster, rows in worst.groupby("cluster")
    ]
    title = f"Groups with the largest lag (top {len(worst)})"
    title += unknown_in_words(int(groups["unknown_lag_partitions"].sum()))
    _show_bars(bars, title=title, rows=len(worst))


def show_partition_lag_chart(partitions: pd.DataFrame, *, top_n: int = 30) -> None:
    """
    Show the partitions of one group that are most behind as bars, one colour a topic.

    Takes topic, partition, lag and owner, as `with_lag` returns them. Partitions without a known
    lag are not drawn, and the title says how many these are; nothing is shown where nothing waits.
    """
    known = partitions.dropna(subset=["lag"])
    behind = known[known["lag"] > 0]
    if behind.empty:
        return
    worst = behind.sort_values("lag", ascending=False, kind="stable").head(top_n)
    bars = [
        _bar(
            name=plain(topic),
            x=rows["lag"],
            y=[plain(f"{topic}:{number}") for topic, number in _places(rows)],
            text=[f"{lag:,}" for lag in rows["lag"]],
            textposition="auto",
            cliponaxis=False,
            customdata=[plain(owner or "no owner") for owner in rows["owner"]],
            hovertemplate="%{y}<br>lag %{x:,}<br>%{customdata}<extra></extra>",
        )
        for topic, rows in worst.groupby("topic", sort=False)
    ]
    labels = [plain(f"{topic}:{number}") for topic, number in _places(worst)]
    _show_bars(bars, title=_of_partitions(partitions, worst), rows=len(worst), labels=labels)


def _places(rows: pd.DataFrame) -> Iterator[tuple[str, int]]:
    return zip(rows["topic"], rows["partition"], strict=True)


def _of_partitions(partitions: pd.DataFrame, shown: pd.DataFrame) -> str:
    """Return what of the partitions is drawn, and of how many nothing can be."""
    unknown = int(partitions["lag"].isna().sum())
    behind = int((partitions["lag"] > 0).sum())
    title = "Lag by partition"
    if len(shown) < behind:
        title += f" (top {len(shown)} of {behind:,})"
    return title + (f"; {unknown:,} unknown" if unknown else "")


def unknown_in_words(partitions: int) -> str:
    """Return the end of a title where a chart lacks the lag of some partitions."""
    return f"; {counted(partitions, 'partition')} unknown" if partitions else ""


def show_unsubscribed_lag_chart(by_group: pd.DataFrame, *, top_n: int = 20) -> None:
    """
    Show for each group how much of its lag belongs to topics it no longer subscribes to.

    Takes cluster, group, subscribed_lag and unsubscribed_lag.
    """
    worst = by_group.nlargest(top_n, "unsubscribed_lag")
    parts = {
        "subscribed_lag": ("subscribed topics", SERIES[0]),
        "unsubscribed_lag": ("unsubscribed offsets", UNUSED),
    }
    bars = [
        _bar(
            name=name,
            x=worst[column],
            y=_labels(worst),
            marker={"color": colour},
            hovertemplate="%{x:,}",
        )
        for column, (name, colour) in parts.items()
    ]
    _show_bars(
        bars, title=("Lag by group: subscribed topics and unsubscribed offsets"), rows=len(worst)
    )


def _labels(rows: pd.DataFrame) -> list[str]:
    return list(map(group_label, rows["group"], rows["cluster"]))


def _bar(**values: object) -> dict[str, object]:
    return {"type": "bar", "orientation": "h", **values}


def _show_bars(
    bars: Sequence[Mapping[str, object]], *, title: str, rows: int, labels: Sequence[str] = ()
) -> None:
    """Show bars from the top in the order of their labels, or else the longest first."""
    if not rows:
        return
    # From below; the longest bar on top, whichever cluster it belongs to.
    order = {"categoryorder": "array", "categoryarray": [*reversed(labels)]}
    by_length = {"categoryorder": "total ascending"}
    show_traces(
        bars,
        title=title,
        barmode="stack",
        height=FRAME_PX + BAR_PX * rows,
        xaxis={"title": "lag (offsets)", "rangemode": "tozero"},
        showlegend=len(bars) > 1,
        legend={"x": 1, "xanchor": "right", "y": 1, "yanchor": "bottom", "traceorder": "normal"},
        yaxis={"type": "category", "ticklabelstandoff": 6, **(order if labels else by_length)},
    )


@dataclass(frozen=True, eq=False, repr=False)
class LagReport:
    """One reading of a cluster: its groups, their committed offsets, and the lag of each."""

    facts: Snapshot

    @cached_property
    def partitions(self) -> pd.DataFrame:
        """One row for each partition that a group has committed or owns; see `with_lag`."""
        return offsets_frame(self.facts)

    @property
    def by_group(self) -> pd.DataFrame:
        """One row for each group, largest lag first; see `lag_by_group`."""
        return frame_of(self.group_rows, topics="int64", partitions="int64")

    def partition_rows(self, *, largest_first: bool = False) -> Rows:
        """Return `partitions` as plain rows, which start at once."""
        return partition_rows(self.facts, largest_first=largest_first)

    @property
    def group_rows(self) -> Rows:
        return group_rows(self.facts)

    @property
    def state_rows(self) -> Rows:
        return group_list(self.facts)

    def with_changes(self, before: LagReport | None, *, by_group: bool) -> Rows:
        """Return the rows with what changed since an earlier report, largest lag first."""
        table = group_rows if by_group else partial(partition_rows, largest_first=True)
        return with_changes(table, self.facts, before.facts if before else None)

    @property
    def without_offsets(self) -> tuple[str, ...]:
        """The groups without a row, whose offsets were read, and are not assigned a partition."""
        known = {block.group_id for block in columns_of(self.facts.commits).blocks}
        known |= {
            group.group_id
            for group in self.facts.groups
            if any(member.assignment for member in group.members)
        }
        groups = (group.group_id for group in self.facts.groups if group.type is not SHARE)
        return tuple(g for g in groups if g not in known and not self.facts.unread_commits(g))

    def __repr__(self) -> str:
        return visible_lines(frame_text(self.by_group, max_rows=20))

    def _ipython_display_(self) -> None:
        show_read_errors(self.facts)
        show_lag_chart(self.by_group)
        show_table(self.by_group, caption_text="Lag by group", empty_text="No committed offsets.")
