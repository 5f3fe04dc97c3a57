"""The board of a group's partitions, without a browser."""

from typing import Any

import pandas as pd
import pytest

from toolkit.errors import ClusterUnreachable
from widgets.pause_board import MOST, BoardSelection, PauseBoard, pause_board

HOSTILE = "<img src=x onerror=alert(1)>"


def tiles(*states: str, **columns: Any) -> pd.DataFrame:
    """Return a frame of partitions in these states."""
    rows = {
        "topic": "orders",
        "partition": pd.array(range(len(states)), "Int64"),
        "state": list(states),
        "lag": pd.array([5] * len(states), "Int64"),
        "committed": pd.array([1] * len(states), "Int64"),
        "owner": HOSTILE,
        "no_progress": False,
        "paused_by": [HOSTILE if state == "paused" else None for state in states],
        "host": None,
        "paused_until": pd.Timestamp("2026-11-22T10:00:00Z"),
        "reason": f"because of {HOSTILE}",
    }
    return pd.DataFrame(rows | columns)


def opened(*states: str) -> tuple[PauseBoard, list[BoardSelection]]:
    """Return a live board and what it was told to plan."""
    wishes: list[BoardSelection] = []
    board = pause_board(lambda: tiles(*states), title="payments", on_plan=wishes.append)
    assert board.view
    return board, wishes


def choose(board: PauseBoard, *numbers: int) -> None:
    """Press tiles as somebody in the browser does."""
    for number in numbers:
        list(board.tiles.values())[number].set_state({"value": True})


def test_a_selection_is_planned_as_on_the_command_line() -> None:
    """Selected partitions can be paused, paused ones resumed; the rest is left."""
    board, wishes = opened("flowing", "lagging", "paused", "flowing")
    choose(board, 0, 1, 2)
    assert "Plan pause (2 partitions)" == board.pause.description

    board.pause.click()
    assert BoardSelection("pause", ["orders:0-1"]) == board.selection
    board.pause.click()  # which takes nothing back
    board.resume.click()

    assert [
        BoardSelection("pause", ["orders:0-1"]),
        BoardSelection("resume", ["orders:2"]),
    ] == wishes
    assert board.error is None


def test_nothing_chosen_plans_nothing() -> None:
    """The buttons look disabled, and a click that comes all the same only says so."""
    board, wishes = opened("flowing", "paused")
    assert board.pause.disabled
    board.pause.click()
    assert ([], None) == (wishes, board.selection)
    assert "Select at least" in board.message.value


def test_colour_and_word_show_the_state_of_a_partition() -> None:
    """A paused one also has who holds it, until when and why."""
    board, _ = opened("flowing", "lagging", "paused")
    for state, tile in zip(("flowing", "lagging", "paused"), board.tiles.values(), strict=True):
        assert f"ow-{state}" in tile._dom_classes
        assert f"· {state}" in tile.description
    held = list(board.tiles.values())[2].description
    assert all(word in held for word in (HOSTILE, "until 2026-11-22 10:00:00 UTC", "because of"))


def test_a_refresh_keeps_the_selection() -> None:
    """It repaints the tiles, new ones too."""
    now = [tiles("flowing", "lagging")]
    board = pause_board(lambda: now[0], title="payments")
    assert board.view
    choose(board, 1)
    clicked = next(iter(board.tiles.values()))

    now[0] = tiles("flowing", "paused", "lagging")
    assert board.refresh()
    assert board.background.wait(10)
    clicked.set_state({"value": True})  # the kernel was busy

    assert ["orders:0", "orders:1"] == [f"{p.topic}:{p.partition}" for p in board.chosen]
    assert "ow-paused" in list(board.tiles.values())[1]._dom_classes
    assert 3 == len(board.tiles)


def test_a_failed_refresh_leaves_the_board() -> None:
    """The earlier state stays, with the reason why there is no newer one."""
    board, _ = opened("flowing")

    def fail() -> pd.DataFrame:
        raise ClusterUnreachable(f"nobody answered at {HOSTILE}")

    board.read_tiles = fail
    assert board.refresh()
    assert board.background.wait(10)

    assert isinstance(board.error, ClusterUnreachable)
    assert "nobody answered" in board.background.error_box.value.lower()
    assert "<img" not in board.background.error_box.value
    assert 1 == len(board.tiles)


def test_a_group_that_could_not_be_read_is_on_the_board() -> None:
    """It must not look like one without partitions."""
    why = [f"groups: those coordinated by broker 2: {HOSTILE}"]
    board = pause_board(tiles, title="payments", not_read=lambda: why)

    assert board.view
    for html in (board.head.value, board.static_html()):
        assert "those coordinated by broker 2" in html
        assert "<img" not in html


def test_names_are_text_in_html() -> None:
    """What stands in HTML is escaped; tiles are text by themselves."""
    board = pause_board(lambda: tiles("paused", "flowing"), title=HOSTILE)
    assert board.view
    for html in (board.static_html(), board.head.value):
        assert "<img" not in html
    assert "&lt;img" in board.head.value


def test_a_cut_board_has_the_total() -> None:
    """Of very many partitions the first are shown."""
    board, _ = opened(*["flowing"] * (MOST + 1))
    assert MOST == len(board.tiles)
    assert f"Showing the first {MOST} of {MOST + 1}" in board.head.value


def test_a_report_has_the_tiles_as_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Headless there is no widget, and the same words."""
    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")
    board = pause_board(lambda: tiles("paused", "lagging"), title="payments")
    bundle = board._repr_mimebundle_()
    assert {"text/html", "text/plain"} == set(bundle)
    assert "until 2026-11-22 10:00:00 UTC" in bundle["text/html"]
    assert "1 paused, 1 lagging" in bundle["text/plain"]
