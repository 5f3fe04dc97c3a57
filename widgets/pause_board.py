"""The partitions of a group as tiles: what flows, what lags, what is held, and what to do next."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import ipywidgets
import pandas as pd
from traitlets import Any as AnyTrait

from toolkit.model import TopicPartition
from toolkit.model.plurals import counted
from toolkit.planning.holds.paused_partitions import LAGGING_FROM, TileState
from toolkit.planning.selection.partition_selection import scopes_of
from toolkit.report.cell_text import cell_text
from toolkit.report.display import is_headless
from toolkit.report.safe_names import visible
from widgets.background import BackgroundRun
from widgets.live_or_static import (
    LiveOrStatic,
    NoticeTone,
    in_html,
    notice,
    sheet,
    without_null_tooltips,
)
from widgets.run_below import RunBelow

PAUSE, RESUME = "pause", "resume"
MOST = 200
SHOWN_UNREAD = 5
EVERY_S, LIVE_FOR_S = 5, 600
NEXT = "Next: run the cells below, or press Continue, to see the cost and approve the plan."


class BoardSelection(NamedTuple):
    """A selection: which partitions to pause or resume, as in `topic:0-2,5`."""

    action: str
    topics: list[str]


def pause_board(
    read_tiles: Callable[[], pd.DataFrame],
    *,
    title: str,
    on_plan: Callable[[BoardSelection], object] = lambda _: None,
    after_change: Callable[[Callable[[], object]], object] = lambda _: None,
    not_read: Callable[[], Sequence[str]] = tuple,
) -> PauseBoard:
    """
    Return a board of the partitions of one group.

    `read_tiles` returns a `tiles_frame`; it is called at once, and in the background for every
    later read; `not_read` returns what it could not read. `on_plan` gets the selection,
    `after_change` what is to be called after a change.
    """
    board = PauseBoard(read_tiles, title, on_plan, not_read)
    if not is_headless():
        after_change(board.refresh)
    return board


class PauseBoard(LiveOrStatic):
    """Tiles to choose partitions by; `selection` is what to do with them, None until planned."""

    selection = AnyTrait(None, allow_none=True, read_only=True)

    def __init__(
        self,
        read_tiles: Callable[[], pd.DataFrame],
        title: str,
        on_plan: Callable[[BoardSelection], object],
        not_read: Callable[[], Sequence[str]],
    ) -> None:
        super().__init__()
        self.read_tiles, self.title, self.on_plan = read_tiles, title, on_plan
        self.not_read = not_read
        self.frame = read_tiles()
        self.tiles: dict[TopicPartition, ipywidgets.ToggleButton] = {}
        self.background = BackgroundRun("Refreshing", cancellable=False, lasting=False)
        self._stop_refresh = threading.Event()

    def live_form(self) -> tuple[ipywidgets.Widget, ...]:
        self.render()
        for control in (self.pause, self.resume):
            control.add_class("ow-apply")
        bar = ipywidgets.HBox(
            [self.pause, self.resume, self.refresh_button, self.auto_refresh, self.background.view]
        )
        bar.add_class("ow-bar")
        below = (self.message, self.run_below.button, self.run_below.output)
        return (self.head, self.board, bar, *below)

    head = cached_property(lambda _: ipywidgets.HTML())
    board = cached_property(lambda _: ipywidgets.VBox(layout={"overflow": "visible"}))
    message = cached_property(lambda _: ipywidgets.HTML())
    run_below = cached_property(lambda _: RunBelow())
    pause = cached_property(lambda self: self._button(lambda: self.plan(PAUSE)))
    resume = cached_property(lambda self: self._button(lambda: self.plan(RESUME)))

    @cached_property
    def refresh_button(self) -> ipywidgets.Button:
        button = self._button(self.refresh)
        button.description = "Refresh"
        return button

    @cached_property
    def auto_refresh(self) -> ipywidgets.ToggleButton:
        button = ipywidgets.ToggleButton(description=f"Auto-refresh ({EVERY_S} s)")
        button.observe(self.guarded(self.follow), "value")
        return button

    def _button(self, handler: Callable[[], object]) -> ipywidgets.Button:
        button = ipywidgets.Button()
        button.on_click(self.guarded(handler))
        return button

    @property
    def chosen(self) -> tuple[TopicPartition, ...]:
        return tuple(partition for partition, tile in self.tiles.items() if tile.value)

    def scope(self, action: str) -> list[TopicPartition]:
        """Return the chosen ones that can be paused, or resumed."""
        held = set(_partitions(self.frame[self.frame["state"] == TileState.PAUSED]))
        return [p for p in self.chosen if (p in held) == (action == RESUME)]

    def plan(self, action: str) -> None:
        topics = [str(scope) for scope in scopes_of(self.scope(action))]
        if not topics:
            what = "one paused partition" if action == RESUME else "one that is not paused"
            self.message.value = f"<p>Select at least {what}.</p>"
            return
        before = self.selection
        self.set_trait("selection", BoardSelection(action, topics))
        if before != self.selection:  # else a second click, while the cells below run
            self.on_plan(self.selection)
        self.run_below.offer(f"the {action}")
        words = in_html(", ".join(topics))
        self.message.value = f"<p><b>Selected for {action}: {words}.</b> {NEXT}</p>"

    def refresh(self) -> bool:
        """Look once more in the background; False while a look is under way."""
        return self.background.start(lambda _: self.read_tiles(), then=self._show_result)

    def _show_result(self) -> None:
        self.error = self.background.error
        if self.background.result is not None:
            self.frame = self.background.result
            self.render()
            self.store()
            if self.selection and not self.scope(self.selection.action):
                self.message.value = ""  # that is so by now
                self.run_below.offer("")

    def follow(self) -> None:
        """Refresh now and then until stopped, or for ten minutes."""
        self._stop_refresh.set()
        if self.auto_refresh.value:
            self._stop_refresh = threading.Event()
            threading.Thread(target=self._follow, args=(self._stop_refresh,), daemon=True).start()

    def _follow(self, end: threading.Event) -> None:
        for _ in range(LIVE_FOR_S // EVERY_S):
            self.refresh()
            if end.wait(EVERY_S):
                return
        self.auto_refresh.value = False

    def render(self) -> None:
        """Show the last reading; the selection stays."""
        shown = self.frame.head(MOST)
        rows = dict(zip(_partitions(shown), shown.itertuples(index=False), strict=True))
        if list(rows) != list(self.tiles):
            self._lay_out(rows)
        for partition, row in rows.items():
            tile = self.tiles[partition]
            tile.description = "\n".join(_tile_lines(row))
            tile.tooltip = f"{visible(partition.topic)} partition {tile.description}"
            for state in TileState:
                tile.remove_class(f"ow-{state}")
            tile.add_class(f"ow-{row.state}")
        self.head.value = self._head_html()
        self._count()

    def _lay_out(self, rows: Iterable[TopicPartition]) -> None:
        """Make tiles of new partitions; the others stay, and with them a click on its way."""
        self.tiles = {p: self.tiles[p] if p in self.tiles else self._new_tile() for p in rows}
        by_topic: dict[str, list[ipywidgets.ToggleButton]] = {}
        for partition, tile in self.tiles.items():
            by_topic.setdefault(partition.topic, []).append(tile)
        parts: list[ipywidgets.Widget] = []
        for topic, tiles in by_topic.items():
            name = ipywidgets.HTML(f'<b class="ow-topic">{in_html(topic)}</b>')
            parts += [name, box := ipywidgets.HBox(tiles)]
            box.add_class("ow-tiles")
        self.board.children = parts
        without_null_tooltips(self.board)

    def _new_tile(self) -> ipywidgets.ToggleButton:
        tile = ipywidgets.ToggleButton()
        tile.add_class("ow-tile")
        tile.observe(self.guarded(self._count), "value")
        return tile

    def _count(self) -> None:
        for action, button in ((PAUSE, self.pause), (RESUME, self.resume)):
            count = len(self.scope(action))
            what = f" ({counted(count, 'partition')})" if count else ""
            button.description = f"Plan {action}{what}"
            button.disabled = not count

    def _head_html(self) -> str:
        counts = Counter(self.frame["state"])
        legend = "".join(
            f'<span class="ow-{state}">{counts[state]:,} {state}</span>'
            for state in map(str, TileState)
            if counts[state]
        )
        cut = f" Showing the first {MOST:,} of {len(self.frame):,}." * (len(self.frame) > MOST)
        rule = (
            f"Lagging: a lag of {LAGGING_FROM} or more, or lag and no progress between two "
            f"refreshes.{cut}"
        )
        return (
            f'<div class="ow-head"><span class="ow-title">Partitions of {in_html(self.title)}'
            f'</span></div><p class="ow-legend">{legend or "No partitions."}</p>'
            f'<p class="ow-soft">{rule}</p>{self._unread_html()}'
        )

    def _unread_html(self) -> str:
        unread = list(self.not_read())
        more = [f"and {len(unread) - SHOWN_UNREAD:,} more"] * (len(unread) > SHOWN_UNREAD)
        lines = [*unread[:SHOWN_UNREAD], *more]
        return notice("Could not be read", lines, tone=NoticeTone.WARN) if lines else ""

    def static_html(self) -> str:
        boards = []
        for topic, rows in self.frame.head(MOST).groupby("topic", sort=False):
            tiles = "".join(
                f'<li class="ow-{row.state}">' + "\n".join(map(in_html, _tile_lines(row))) + "</li>"
                for row in rows.itertuples(index=False)
            )
            boards.append(f'<b>{in_html(topic)}</b><ul class="ow-tiles">{tiles}</ul>')
        return f'{sheet()}<div class="ow-static">{self._head_html()}{"".join(boards)}</div>'

    def text_form(self) -> str:
        counts = Counter(self.frame["state"])
        summary = ", ".join(f"{count:,} {state}" for state, count in counts.items())
        return f"Partitions of {visible(self.title)}: {summary}"


def _partitions(frame: pd.DataFrame) -> list[TopicPartition]:
    pairs = zip(frame["topic"], frame["partition"], strict=True)
    return [TopicPartition(topic, int(partition)) for topic, partition in pairs]


def _tile_lines(row: Any) -> list[str]:
    lines = [f"{row.partition} · {row.state}"]
    stuck = row.no_progress and row.state != TileState.PAUSED
    if not pd.isna(row.lag):
        behind = f"lag {row.lag:,}" if row.lag > 0 else "caught up"
        lines.append(behind + (" · no progress" if stuck else ""))
    if row.state == TileState.PAUSED:
        until = (
            "until resumed"
            if pd.isna(row.paused_until)
            else f"until {cell_text(row.paused_until, 'time')}"
        )
        lines += [f"paused by {visible(row.paused_by)}, {until}"]
        lines += [f"“{visible(row.reason)}”"] if row.reason else []
    elif isinstance(row.owner, str) and row.owner:
        lines.append(visible(row.owner))
    return lines
