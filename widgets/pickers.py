"""
Find groups, or the run to undo, among very many: words looked for in all, the first shown.

What was chosen in a cell is kept for when the cell runs again: Run All re-creates every picker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from datetime import datetime
from functools import cached_property
from typing import Any

import ipywidgets
import pandas as pd
from traitlets import Tuple, Unicode

from toolkit.model.names import MISSING, ExactName, named, shown_name
from toolkit.model.plurals import counted
from toolkit.report.display import running_cell
from toolkit.report.plan_inputs import end_plans
from toolkit.report.safe_names import visible
from widgets.filter_table import matching, texts
from widgets.live_or_static import LiveOrStatic, in_html, sheet, table
from widgets.run_below import RunBelow

_CHOSEN: dict[tuple[str, Hashable], tuple[str, ...]] = {}


class LastChoice:
    """The names that were chosen in the cell that runs, about one thing; of this kernel alone."""

    def __init__(self, about: Hashable) -> None:
        """Take what the choice is about: the same names of another cluster are another choice."""
        cell, _ = running_cell()
        self._key = (cell, about) if cell else None

    def among(self, names: Collection[str]) -> tuple[str, ...]:
        """Return those of the names that were chosen when the cell ran before."""
        chosen = _CHOSEN.get(self._key, ()) if self._key else ()
        return tuple(name for name in chosen if name in names)

    def keep(self, names: Collection[str]) -> None:
        if self._key:
            _CHOSEN[self._key] = tuple(names)


MOST = 200
ANY = ""
# With the widest values of the other columns, 120 characters fit a window of 1,280 px.
NAME_WIDTH, NAME_END = 32, 11
SELECTED = "other groups were selected"
RUN_SELECTED = "another run was selected"
NEXT = "Next: run the cells below, or press Continue."
# What the list shows of a group besides its name, as far as the frame has it.
LISTED_COLUMNS = ("health", "state", "type", "members", "lag", "offsets expire about")


OnPick = Callable[[tuple[str, ...]], object]


def group_picker(
    groups: pd.DataFrame, *, only_one: bool = False, on_pick: OnPick | None = None
) -> GroupPicker:
    """
    Return a picker of groups, or of `only_one`; `picked` are the names that are chosen.

    They stay chosen when the cell runs again. Takes a `groups_frame`, or any frame with group and
    some of state, type, members, lag, health and `offsets expire about`. With `on_pick` there is a
    button that tells it the names; without, the cells below use `picked`.
    """
    return GroupPicker(groups, only_one=only_one, on_pick=on_pick)


class GroupPicker(LiveOrStatic):
    """A list to choose groups from; `picked` are the chosen names as `shown_name` writes them."""

    picked = Tuple(read_only=True)

    def __init__(self, groups: pd.DataFrame, *, only_one: bool, on_pick: OnPick | None) -> None:
        super().__init__()
        self.groups = groups.sort_values("group", kind="stable").reset_index(drop=True)
        self.only_one, self.on_pick = only_one, on_pick
        self.searched = texts(self.groups, ["group"])
        self.shown: list[str] = []
        self.found = len(self.groups)
        self._is_rendering = False
        clusters = self.groups["cluster"].unique() if "cluster" in self.groups else ()
        self._last = LastChoice(("groups", *clusters))
        known = set(map(shown_name, self.groups["group"]))
        self.set_trait("picked", self._last.among(known))

    @property
    def patterns(self) -> tuple[str, ...]:
        """The chosen names for where patterns are names as well: each matches only itself."""
        return tuple(ExactName(named(name)) for name in self.picked)

    search = cached_property(lambda _: _search_box("Search group ids"))

    def _choice(self, column: str) -> ipywidgets.Dropdown:
        there: Iterable[object] = self.groups[column].dropna() if column in self.groups else ()
        options = [(f"All {column}s", ANY)]
        options += [(visible(value), value) for value in sorted({str(value) for value in there})]
        return ipywidgets.Dropdown(options=options, value=ANY, description=column.capitalize())

    state = cached_property(lambda self: self._choice("state"))
    kind = cached_property(lambda self: self._choice("type"))

    @cached_property
    def order(self) -> ipywidgets.Dropdown:
        orders = {
            "health": "Health (worst first)",
            "lag": "Lag (largest first)",
            "members": "Members (most first)",
        }
        options = [("Group id", "group")]
        options += [(text, column) for column, text in orders.items() if column in self.groups]
        return ipywidgets.Dropdown(options=options, value="group", description="Sort by")

    @cached_property
    def listing(self) -> ipywidgets.SelectMultiple | ipywidgets.Select:
        found = (ipywidgets.Select if self.only_one else ipywidgets.SelectMultiple)(rows=12)
        found.add_class("ow-list")
        return found

    count = cached_property(lambda _: ipywidgets.HTML())
    run_below = cached_property(lambda _: RunBelow())

    @cached_property
    def use_button(self) -> ipywidgets.Button:
        button = ipywidgets.Button(button_style="primary")
        button.on_click(self.guarded(self.confirm))
        return button

    @cached_property
    def clear_button(self) -> ipywidgets.Button:
        button = ipywidgets.Button(description="Clear selection")
        button.on_click(self.guarded(lambda: self.choose(())))
        return button

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        filters = (self.search, self.state, self.kind, self.order)
        for control in filters:
            control.observe(self.guarded(self.render), "value")
        self.listing.observe(self.guarded(self._take_selection), "index")
        self.render()
        first = self.use_button if self.on_pick else self.run_below.button
        buttons = [first, self.clear_button]
        bar, actions = ipywidgets.HBox(filters), ipywidgets.HBox(buttons)
        for box in (bar, actions):
            box.add_class("ow-bar")
        return (bar, self.listing, self.count, actions, self.run_below.output)

    def matches(self) -> pd.DataFrame:
        found = matching(self.searched, self.search.value)
        for column, value in (("state", self.state.value), ("type", self.kind.value)):
            if value:
                found &= self.groups[column].astype("str") == value
        rows = self.groups[found]
        by = self.order.value
        return rows if by == "group" else rows.sort_values(by, ascending=False, kind="stable")

    def render(self) -> None:
        """Show the first of the groups that match; what is chosen stays chosen."""
        rows = self.matches()
        self.found, first = len(rows), rows.head(MOST)
        self.shown = [*map(shown_name, first["group"])]
        self._is_rendering = True
        try:
            self.listing.options = [(line, n) for n, line in enumerate(_lines(first))]
            chosen = [n for n, name in enumerate(self.shown) if name in self.picked]
            self.listing.index = next(iter(chosen), None) if self.only_one else chosen
        finally:
            self._is_rendering = False
        self._show_counts()

    def _take_selection(self) -> None:
        """Take over what was chosen in the list; what it does not show stays as it was."""
        if self._is_rendering:
            return
        index = self.listing.index
        if self.only_one:
            self.choose([] if index is None else [self.shown[index]], render=False)
            return
        here = [self.shown[n] for n in index]
        shown = set(self.shown)
        self.choose((*(name for name in self.picked if name not in shown), *here), render=False)

    def choose(self, names: Iterable[str], *, render: bool = True) -> None:
        """Choose exactly these groups; what was planned for others before is out of date."""
        before = self.picked
        self.set_trait("picked", tuple(names))
        if not self.on_pick and set(before) != set(self.picked):
            end_plans(SELECTED)
        self._last.keep(self.picked)
        self.render() if render else self._show_counts()

    def confirm(self) -> None:
        if self.picked and self.on_pick:
            self.on_pick(self.picked)

    def _show_counts(self) -> None:
        # Hovering over a line shows the whole name.
        listed = "".join(f"<li>{in_html(name)}</li>" for name in self.shown)
        cut = f"; showing the first {MOST:,}" if self.found > MOST else ""
        names = ", ".join(f'<span class="ow-key">{in_html(n)}</span>' for n in self.picked[:10])
        more = f" and {len(self.picked) - 10:,} more" if len(self.picked) > 10 else ""
        next_step = "" if self.on_pick else f" {NEXT}"
        chosen = f"<p>Selected: {names}{more}.{next_step}</p>" if self.picked else ""
        self.count.value = (
            f'<p class="ow-soft" role="status">{self.found:,} of {len(self.groups):,} groups '
            f'match{cut}.</p>{chosen}<ol class="ow-names" hidden>{listed}</ol>'
        )
        count = counted(len(self.picked), "group") if self.picked else ""
        self.run_below.offer(count)
        self.use_button.description = f"Use {count or '…'}"
        self.use_button.disabled = self.clear_button.disabled = not self.picked

    def static_html(self) -> str:
        cut = f" (first {MOST:,} shown)" if len(self.groups) > MOST else ""
        caption = f"{len(self.groups):,} groups{cut}"
        shown = self.groups[["group", *(c for c in LISTED_COLUMNS if c in self.groups)]].head(MOST)
        return f'{sheet()}<div class="ow-static">{table(shown, caption=caption)}</div>'

    def text_form(self) -> str:
        return f"{len(self.groups):,} groups"


def _search_box(placeholder: str) -> ipywidgets.Text:
    box = ipywidgets.Text(placeholder=placeholder, description="Search")
    box.add_class("ow-wide")
    return box


def _lines(rows: pd.DataFrame) -> Iterable[str]:
    """Yield one line a group, its columns below each other in letters of one width."""
    columns = [list(map(_short_name, rows["group"]))]
    columns += [
        [MISSING if pd.isna(value) else _value_text(column, value) for value in rows[column]]
        for column in LISTED_COLUMNS
        if column in rows
    ]
    widths = [max(map(len, cells), default=0) for cells in columns]
    for line in zip(*columns, strict=True):
        padded = (text.ljust(width) for text, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _short_name(group_id: str) -> str:
    """Return a name as the list shows it: a long one with its begin and its end."""
    name = visible(shown_name(group_id))
    if len(name) <= NAME_WIDTH:
        return name
    return f"{name[: NAME_WIDTH - NAME_END - 1]}…{name[-NAME_END:]}"


def _value_text(column: str, value: Any) -> str:
    if isinstance(value, datetime):
        return f"expires about {value:%Y-%m-%d %H:%M} UTC"
    if column == "members":
        return counted(int(value), "member")
    return f"lag {value:,}" if column == "lag" else visible(value)


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

    search = cached_property(lambda _: _search_box("Search runs"))

    @cached_property
    def listing(self) -> ipywidgets.Select:
        listing = ipywidgets.Select(rows=8)
        listing.add_class("ow-list")
        return listing

    run_below = cached_property(lambda _: RunBelow())
    message = cached_property(lambda _: ipywidgets.HTML())  # how many match, and which is chosen

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
            before = self.picked
            self.set_trait("picked", self.shown[self.listing.index])
            if before != self.picked:
                end_plans(RUN_SELECTED)
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
