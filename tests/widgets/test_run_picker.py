"""The picker of a run to undo, without a browser."""

from __future__ import annotations

import pandas as pd
import pytest

from widgets.run_picker import MOST, run_picker

HOSTILE = "<img src=x onerror=alert(1)>"
RUNS = pd.DataFrame(
    {
        "run": [f"run-{number}" for number in range(MOST + 1)],
        "at": pd.Timestamp("2026-11-22T10:00:00Z"),
        "cluster": "eu",
        "request": f"reset {HOSTILE} to-earliest",
        "reason": [f"reason {number}" for number in range(MOST + 1)],
        "who": "ann",
        "result": "2 done",
    }
)


def test_a_run_is_found_and_stays_selected() -> None:
    """All runs are searched, the newest are listed, and a selection outlasts another search."""
    picker = run_picker(RUNS)
    assert picker.view
    assert (MOST, "") == (len(picker.listing.options), picker.picked)
    assert f"showing the newest {MOST}" in picker.message.value

    picker.search.value = f"reason {MOST}"
    picker.listing.index = 0
    assert f"run-{MOST}" == picker.picked
    picker.search.value = "no such run"
    assert (f"run-{MOST}", 0) == (picker.picked, len(picker.listing.options))
    picker.search.value = f"{MOST} ann"
    assert (f"run-{MOST}", 0) == (picker.picked, picker.listing.index)

    assert picker.error is None
    assert "" == run_picker(RUNS).picked  # outside a cell nothing is remembered
    assert "<img" not in picker.message.value + picker.static_html()


def test_a_choice_survives_another_run_of_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same run stays chosen, as long as it is there; another cell has a choice of its own."""
    monkeypatch.setattr("widgets.last_choice.running_cell", lambda: ("cell-1", "first"))
    picker = run_picker(RUNS)
    assert picker.view
    picker.listing.index = 3

    assert "run-3" == picker.picked == run_picker(RUNS).picked
    again = run_picker(RUNS)
    assert again.view
    assert 3 == again.listing.index
    assert "" == run_picker(RUNS.drop(index=3)).picked
    monkeypatch.setattr("widgets.last_choice.running_cell", lambda: ("cell-2", "first"))
    assert "" == run_picker(RUNS).picked
