"""
Find groups, or the run to undo, among very many: words looked for in all, the first shown.

What was chosen in a cell is kept for when the cell runs again: Run All re-creates every picker.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, TypeAlias

import ipywidgets
import pandas as pd
from traitlets import Tuple

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


MOST, KEPT = 200, 8
ANY = ""
# With the widest values of the other columns, 120 characters fit a window of 1,280 px.
NAME_WIDTH, NAME_END = 32, 11
NEXT = "Next: run the cells below, or press Continue."
# What the list shows of a group besides its name, as far as the frame has it.
LISTED_COLUMNS = ("health", "state", "type", "members", "lag", "offsets expire about")


OnPick = Callable[[tuple[str, ...]], object]
Listing: TypeAlias = "ipywidgets.Select | ipywidgets.SelectMultiple"


class Picker(LiveOrStatic):
    """A list of rows to choose from, by the words in them; `chosen` are the names of the rows."""

    chosen = Tuple(read_only=True)
    noun = first = selected = ""  # of a row; which rows are shown; what ends the plans before it
    only_one, height = True, 8
    on_pick: OnPick | None = None

    def __init__(
        self, rows: pd.DataFrame, names: Sequence[str], searched: Sequence[str], about: Hashable
    ) -> None:
        """Take rows, their names, the columns to search in, and what the choice is about."""
        super().__init__()
        self.rows, self.names = rows, pd.Series([*names], rows.index, dtype="object")
        self.searched = texts(rows, searched)
        self.shown: list[str] = []
        self.found = len(rows)
        self._lists: list[Listing] = []
        self._last = LastChoice(about)
        self.set_trait("chosen", self._last.among({*names}))

    @abstractmethod
    def lines(self, rows: pd.DataFrame) -> Iterable[str]:
        """Return one line a row."""

    def hover_html(self) -> str:
        """Return what hovering over a line shows in place of the line."""
        return ""

    def matches(self) -> pd.DataFrame:
        return self.rows[matching(self.searched, self.search.value)]

    @cached_property
    def search(self) -> ipywidgets.Text:
        box = ipywidgets.Text(placeholder=f"Search {self.noun}s", description="Search")
        box.add_class("ow-wide")
        return box

    list_box = cached_property(lambda _: ipywidgets.VBox(layout={"overflow": "visible"}))
    message = cached_property(lambda _: ipywidgets.HTML())  # how many match, and the selection
    run_below = cached_property(lambda _: RunBelow())

    @property
    def listing(self) -> Listing:
        """The list that is shown."""
        return self._lists[-1]

    def render(self) -> None:
        """Show the first of the matching rows; the selection stays."""
        found = self.matches()
        rows = found.head(MOST)
        names = [*self.names[rows.index]]
        options = tuple((line, n) for n, line in enumerate(self.lines(rows)))
        places = tuple(n for n, name in enumerate(names) if name in self.chosen)
        index = next(iter(places), None) if self.only_one else places
        before = self._lists and (self.shown, self.listing.options, self.listing.index)
        self.found, self.shown = len(found), names
        if (names, options, index) != before:  # a new list has no focus
            self.list_box.children = (self._new_list(names, options=options, index=index),)
        self._say()

    def _new_list(self, names: Sequence[str], **shown: Any) -> Listing:
        """Return another list: a click that the kernel hears of late is about a line of its own."""
        kind = ipywidgets.Select if self.only_one else ipywidgets.SelectMultiple
        listing = kind(**shown, rows=self.height, tooltip="")
        listing.add_class("ow-list")
        listing.observe(self.guarded(lambda: self._take_selection(listing, names)), "index")
        self._lists.append(listing)
        if len(self._lists) > KEPT:
            old = self._lists.pop(0)
            for part in (old, old.layout, old.style):
                part.close()
        return listing

    def _take_selection(self, listing: Any, names: Sequence[str]) -> None:
        """Take over the selection in a list; rows that it does not show stay as they were."""
        index = listing.index
        places = index if isinstance(index, tuple) else () if index is None else (index,)
        there = frozenset(names)
        others = () if self.only_one else (name for name in self.chosen if name not in there)
        self.choose((*others, *(names[n] for n in places)), render=listing is not self.listing)

    def choose(self, names: Iterable[str], *, render: bool = True) -> None:
        """Select exactly these; a plan for others is out of date."""
        before = {*self.chosen}
        self.set_trait("chosen", tuple(names))
        if not self.on_pick and before != {*self.chosen}:
            end_plans(self.selected)
        self._last.keep(self.chosen)
        self.render() if render else self._say()

    def _say(self) -> None:
        cut = f"; showing the {self.first} {MOST:,}" if self.found > MOST else ""
        names = ", ".join(f'<span class="ow-key">{in_html(n)}</span>' for n in self.chosen[:10])
        more = f" and {len(self.chosen) - 10:,} more" if len(self.chosen) > 10 else ""
        next_step = "" if self.on_pick else f" {NEXT}"
        chosen = f"<p>Selected: {names}{more}.{next_step}</p>" if self.chosen else ""
        self.message.value = (
            f'<p class="ow-soft" role="status">{self.found:,} of {len(self.rows):,} {self.noun}s '
            f"match{cut}.</p>{chosen}{self.hover_html()}"
        )
        self.run_below.offer(counted(len(self.chosen), self.noun) if self.chosen else "")

    def text_form(self) -> str:
        return counted(len(self.rows), self.noun)


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


class GroupPicker(Picker):
    """A list to choose groups from; `picked` are the chosen names as `shown_name` writes them."""

    noun, first, selected = "group", "first", "other groups were selected"
    height = 12

    def __init__(self, groups: pd.DataFrame, *, only_one: bool, on_pick: OnPick | None) -> None:
        rows = groups.sort_values("group", kind="stable").reset_index(drop=True)
        clusters = rows["cluster"].unique() if "cluster" in rows else ()
        names = [*map(shown_name, rows["group"])]
        super().__init__(rows, names, ["group"], ("groups", *clusters))
        self.groups, self.only_one, self.on_pick = rows, only_one, on_pick

    @property
    def picked(self) -> tuple[str, ...]:
        return self.chosen

    @property
    def patterns(self) -> tuple[str, ...]:
        """The chosen names for where patterns are names as well: each matches only itself."""
        return tuple(ExactName(named(name)) for name in self.chosen)

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
        self.render()
        first = self.use_button if self.on_pick else self.run_below.button
        buttons = [first, self.clear_button]
        bar, actions = ipywidgets.HBox(filters), ipywidgets.HBox(buttons)
        for box in (bar, actions):
            box.add_class("ow-bar")
        return (bar, self.list_box, self.message, actions, self.run_below.output)

    def matches(self) -> pd.DataFrame:
        rows = super().matches()
        for column, value in (("state", self.state.value), ("type", self.kind.value)):
            if value:
                rows = rows[rows[column].astype("str") == value]
        by = self.order.value
        return rows if by == "group" else rows.sort_values(by, ascending=False, kind="stable")

    def lines(self, rows: pd.DataFrame) -> Iterable[str]:
        return _lines(rows)

    def confirm(self) -> None:
        if self.chosen and self.on_pick:
            self.on_pick(self.chosen)

    def hover_html(self) -> str:
        listed = "".join(f"<li>{in_html(name)}</li>" for name in self.shown)
        return f'<ol class="ow-names" hidden>{listed}</ol>'

    def _say(self) -> None:
        super()._say()
        count = counted(len(self.chosen), "group") if self.chosen else "…"
        self.use_button.description = f"Use {count}"
        self.use_button.disabled = self.clear_button.disabled = not self.chosen

    def static_html(self) -> str:
        cut = f" (first {MOST:,} shown)" if len(self.groups) > MOST else ""
        caption = f"{self.text_form()}{cut}"
        shown = self.groups[["group", *(c for c in LISTED_COLUMNS if c in self.groups)]].head(MOST)
        return f'{sheet()}<div class="ow-static">{table(shown, caption=caption)}</div>'


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


class RunPicker(Picker):
    """A list to choose a run from; `picked` is its id, and newer runs come first."""

    noun, first, selected = "run", "newest", "another run was selected"

    def __init__(self, runs: pd.DataFrame) -> None:
        rows = runs[["run", "at", "cluster", "request", "reason", "who", "result"]]
        super().__init__(rows, [*rows["run"]], [*rows.columns], "runs")

    @property
    def picked(self) -> str:
        return next(iter(self.chosen), "")

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        self.render()
        self.search.observe(self.guarded(self.render), "value")
        bar = ipywidgets.HBox([self.search])
        bar.add_class("ow-bar")
        return (bar, self.list_box, self.message, self.run_below.button, self.run_below.output)

    def lines(self, rows: pd.DataFrame) -> Iterable[str]:
        return map(_line, rows.itertuples())

    def static_html(self) -> str:
        shown = table(self.rows.head(MOST), caption="Runs", empty="No run can be undone.")
        return f'{sheet()}<div class="ow-static">{shown}</div>'


def _line(row: object) -> str:
    at, cluster, request, reason, who = (
        visible(str(getattr(row, name))) for name in ("at", "cluster", "request", "reason", "who")
    )
    return f"{at[:19]}  {cluster}  {request}  ·  {reason}  ·  {who}"
