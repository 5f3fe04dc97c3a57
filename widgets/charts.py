"""The figures of the reports, of what is chosen."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import cached_property
from typing import Any

import ipywidgets
import pandas as pd

from toolkit.planning.expiring import Expiring
from toolkit.report.charts import show_lag_chart
from toolkit.report.display import collected
from toolkit.report.expiry_chart import show_expiry_timeline
from toolkit.report.names import visible
from widgets.fragments import in_html, sheet
from widgets.shown import Shown

ALL = ""
NOTHING = "Nothing to draw."
MOST_CHOICES = 2_000
Figure = dict[str, Any]


def lag_chart(groups: pd.DataFrame, *, most: int = 20) -> Chart:
    """
    Return the lag of the groups that are most behind, of all clusters or of one.

    Takes cluster, group and lag, and topic where there is one to choose.
    """
    by = "topic" if "topic" in groups else "cluster"
    return Chart(groups, by, lambda rows: show_lag_chart(_by_group(rows), most=most))


def expiry_timeline(found: Expiring, *, now: datetime, most: int = 30) -> Chart:
    """Return when the offsets of all groups, or of one, expire; takes what `expiring` returned."""

    def show(rows: pd.DataFrame) -> None:
        names = set(rows["group"])
        risk = found.at_risk[found.at_risk["group"].isin(names)]
        ours = found.rows[found.rows["group"].isin(names)]
        show_expiry_timeline(found._replace(rows=ours, at_risk=risk), now=now, most=most)

    both = pd.concat([found.rows[["group"]], found.at_risk[["group"]]], ignore_index=True)
    return Chart(both, "group", show)


class Chart(Shown):
    """A figure over a choice; the figure is that of the reports."""

    def __init__(self, rows: pd.DataFrame, by: str, show: Callable[[pd.DataFrame], object]) -> None:
        """Take rows, the column that is chosen by, and what shows the figure of some rows."""
        super().__init__()
        self.rows, self.by, self.show = rows, by, show

    @cached_property
    def choice(self) -> ipywidgets.Combobox:
        """What to draw; everything while it is empty."""
        names = sorted({visible(name) for name in self.rows[self.by]})
        return ipywidgets.Combobox(
            options=names[:MOST_CHOICES],
            placeholder=f"all {len(names):,}; type to choose",
            description=self.by.capitalize(),
        )

    @cached_property
    def output(self) -> ipywidgets.Output:
        """Where the figure is drawn, by JupyterLab itself."""
        return ipywidgets.Output()

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        """Return the choice and the figure."""
        self.choice.observe(self.guarded(self.draw), "value")
        self.draw()
        return (self.choice, self.output)

    def draw(self) -> None:
        """Draw what is chosen."""
        wanted = self.choice.value
        rows = self.rows
        if wanted:
            rows = rows[rows[self.by].map(visible) == wanted]
        data = self.figure(rows)
        if data is None:
            data = {"text/html": f"<p>{in_html(wanted)}: {NOTHING}</p>", "text/plain": NOTHING}
        put = {"output_type": "display_data", "data": data, "metadata": {}}
        self.output.outputs = (put,)

    def figure(self, rows: pd.DataFrame) -> Figure | None:
        """Return the figure of some rows in the formats of a page; None where there is none."""
        with collected() as taken:
            self.show(rows)
        return taken[0] if taken else None

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        # The report draws the figure itself.
        return {**super()._repr_mimebundle_(**options), **(self.figure(self.rows) or {})}

    def static_html(self) -> str:
        """Return what the figure shows, for where it cannot be drawn."""
        return f'{sheet()}<p class="ow-static">{in_html(self.in_words())}</p>'

    def in_words(self) -> str:
        """Return what the figure shows."""
        figure = self.figure(self.rows)
        return str(figure["text/plain"]) if figure else NOTHING


def _by_group(rows: pd.DataFrame) -> pd.DataFrame:
    """Return one row a group; of no known lag is nothing, not 0."""
    known = rows.dropna(subset=["lag"])
    return known.groupby(["cluster", "group"], sort=False)[["lag"]].sum().reset_index()
