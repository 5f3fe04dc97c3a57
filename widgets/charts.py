"""The figures of the reports, for a selection."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import Any

import ipywidgets
import pandas as pd

from toolkit.model.names import shown_name
from toolkit.model.plurals import counted
from toolkit.planning.expiry.expiry_forecast import ExpiryForecast
from toolkit.report.display import capture_outputs, letter_by_letter
from toolkit.report.fleet_charts import show_expiry_timeline
from toolkit.report.lag_report import show_lag_chart, show_partition_lag_chart
from toolkit.report.safe_names import visible
from widgets.live_or_static import LiveOrStatic, in_html, sheet

NO_LAG, NO_PARTITION_LAGS = "No known lag.", "No partition is known to lag."
NO_EXPIRY = "No committed offset expires within the forecast period."
MOST_CHOICES = 2_000
Figure = dict[str, Any]


def lag_chart(rows: pd.DataFrame, *, top_n: int = 20) -> Chart:
    """
    Return the lag of the partitions or groups that are most behind, of all or of one topic.

    Takes what `with_lag` returned, of one group: a bar a partition; or of several: a bar a group.
    Or cluster, group and lag, of which a cluster is chosen.
    """
    by = "topic" if "topic" in rows else "cluster"
    if "partition" in rows and len(rows["group"].unique()) <= 1:
        return Chart(
            rows, by, lambda some: show_partition_lag_chart(some, top_n=top_n), NO_PARTITION_LAGS
        )
    return Chart(rows, by, lambda some: show_lag_chart(_by_group(some), top_n=top_n), NO_LAG)


def expiry_timeline(found: ExpiryForecast, *, now: datetime, top_n: int = 30) -> Chart:
    """Return when the offsets of all groups, or of one, expire, as `select_expiring` found."""

    def show(rows: pd.DataFrame) -> None:
        names = set(rows["group"])
        risk = found.at_risk[found.at_risk["group"].isin(names)]
        chosen = found.rows[found.rows["group"].isin(names)]
        show_expiry_timeline(found._replace(rows=chosen, at_risk=risk), now=now, top_n=top_n)

    both = pd.concat([found.rows[["group"]], found.at_risk[["group"]]], ignore_index=True)
    return Chart(both, "group", show, NO_EXPIRY)


class Chart(LiveOrStatic):
    """A figure over a choice; the figure is that of the reports."""

    def __init__(
        self, rows: pd.DataFrame, by: str, show: Callable[[pd.DataFrame], object], nothing: str
    ) -> None:
        """Take rows, by which column to choose, what shows some rows, and words for no figure."""
        super().__init__()
        self.rows, self.by, self.show, self.nothing = rows, by, show, nothing
        self.names = sorted(set(map(_shown, rows[by])))

    @cached_property
    def choice(self) -> ipywidgets.Combobox:
        """What to draw; everything while it is empty."""
        choice = ipywidgets.Combobox(
            options=self.names[:MOST_CHOICES],
            placeholder=f"All {len(self.names):,}; type to filter",
            description=self.by.capitalize(),
            layout={"width": "28rem"},
        )
        choice.observe(self.guarded(self.draw), "value")
        return choice

    output = cached_property(lambda _: ipywidgets.Output())

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        self.draw()
        return (self.choice, self.output) if len(self.names) > 1 else (self.output,)

    def draw(self) -> None:
        chosen, data = self.choice.value, self.whole
        if chosen:
            data = self.figure(self.rows[self.rows[self.by].map(_shown) == chosen])
        if data is None:
            words = self.nothing
            if chosen and chosen not in self.names:
                words = f"Not among the {counted(len(self.names), self.by)} of this chart."
            about = f"{in_html(chosen)}: " if chosen else ""
            html = letter_by_letter(f"<p>{about}{words}</p>")
            data = {"text/html": html, "text/plain": words}
        put = {"output_type": "display_data", "data": data, "metadata": {}}
        self.output.outputs = (put,)

    @cached_property
    def whole(self) -> Figure | None:
        return self.figure(self.rows)

    def figure(self, rows: pd.DataFrame) -> Figure | None:
        """Return the figure of some rows in the formats of a page; None where there is none."""
        with capture_outputs() as taken:
            self.show(rows)
        return taken[0] if taken else None

    def stored(self) -> dict[str, Any]:
        return {**super().stored(), **(self.whole or {})}

    def static_html(self) -> str:
        return f'{sheet()}<p class="ow-static">{in_html(self.text_form())}</p>'

    def text_form(self) -> str:
        return str(self.whole["text/plain"]) if self.whole else self.nothing


def _shown(name: str) -> str:
    """Return a name as a choice: an empty choice means everything."""
    return visible(shown_name(name))


def _by_group(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row a group; of no known lag it is null, not 0."""
    groups = rows.groupby(["cluster", "group"], sort=False)
    lags, unknown = groups["lag"], "unknown_lag_partitions"  # rows of groups have that already
    table = lags.sum(min_count=1).to_frame()
    table[unknown] = groups[unknown].sum() if unknown in rows else lags.size() - lags.count()
    return table.reset_index()
