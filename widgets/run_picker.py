"""Find the run to undo: words looked for in all runs, the newest shown."""

from __future__ import annotations

from functools import cached_property

import ipywidgets
import pandas as pd
from traitlets import Unicode

from toolkit.report.safe_names import visible
from widgets.filter_table import matching, texts
from widgets.fragments import in_html, sheet, table
from widgets.last_choice import LastChoice
from widgets.live_or_static import LiveOrStatic
from widgets.run_below import RunBelow

MOST = 200
NEXT = "Next: run the cells below, or press Continue."


def run_picker(runs: pd.DataFrame) -> RunPicker:
    """
    Return a picker of one run; `picked` is its id, "" while none is chosen.

    It stays chosen when the cell runs again. Takes a `runs_frame`, newest first.
    """
    return RunPicker(runs)


class RunPicker(LiveOrStatic):
    """A list to choose a run from; `picked` is its id."""

    picked = Unicode(read_only=True)

    def __init__(self, runs: pd.DataFrame) -> None:
        super().__init__()
        self.runs = runs[["run", "at", "cluster", "request", "reason", "who", "result"]]
        self.searched = texts(self.runs, list(self.runs.columns))
        self.shown: list[str] = []
        self._last = LastChoice("runs")
        self.set_trait("picked", next(iter(self._last.among(set(self.runs["run"]))), ""))

    @cached_property
    def search(self) -> ipywidgets.Text:
        search = ipywidgets.Text(placeholder="Search runs", description="Search")
        search.add_class("ow-wide")
        return search

    @cached_property
    def listing(self) -> ipywidgets.Select:
        listing = ipywidgets.Select(rows=8)
        listing.add_class("ow-list")
        return listing

    @cached_property
    def run_below(self) -> RunBelow:
        return RunBelow()

    @cached_property
    def message(self) -> ipywidgets.HTML:
        """How many match, and which is chosen."""
        return ipywidgets.HTML()

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        self.render()
        self.search.observe(self.guarded(self.render), "value")
        self.listing.observe(self.guarded(self._choose), "index")
        bar = ipywidgets.HBox([self.search])
        bar.add_class("ow-bar")
        return (bar, self.listing, self.message, self.run_below.button, self.run_below.output)

    def render(self) -> None:
        """Show the newest of the runs that match; what is chosen stays chosen."""
        found = self.runs[matching(self.searched, self.search.value)]
        rows = found.head(MOST)
        with self.hold_trait_notifications():
            self.shown = []  # events of the list itself meanwhile choose nothing
            self.listing.options = [(_line(row), n) for n, row in enumerate(rows.itertuples())]
            ids = [*rows["run"]]
            self.listing.index = ids.index(self.picked) if self.picked in ids else None
            self.shown = ids
        self._say(len(found))

    def _choose(self) -> None:
        if self.shown and self.listing.index is not None:
            self.set_trait("picked", self.shown[self.listing.index])
            self._last.keep([self.picked])
            self._say(len(self.shown))

    def _say(self, found: int) -> None:
        cut = f"; showing the newest {MOST}" if found > MOST else ""
        self.run_below.offer("this run" if self.picked else "")
        chosen = f"<p>Selected: {in_html(self.picked)}. {NEXT}</p>" if self.picked else ""
        self.message.value = (
            f'<p class="ow-soft" role="status">{found:,} of {len(self.runs):,} runs match{cut}.</p>'
            f"{chosen}"
        )

    def static_html(self) -> str:
        shown = table(self.runs.head(MOST), caption="Runs", empty="No run can be undone.")
        return f'{sheet()}<div class="ow-static">{shown}</div>'

    def text_form(self) -> str:
        return f"{len(self.runs):,} runs"


def _line(row: object) -> str:
    at, cluster, request, reason, who = (
        visible(str(getattr(row, name))) for name in ("at", "cluster", "request", "reason", "who")
    )
    return f"{at[:19]}  {cluster}  {request}  ·  {reason}  ·  {who}"
