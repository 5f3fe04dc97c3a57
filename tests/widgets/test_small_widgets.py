"""The picker of a run to undo, saved records, filtered tables, actions in the background."""

import re
import threading
from pathlib import Path

import pandas as pd
import pytest

from toolkit.errors import UsageError
from toolkit.report.run_command import command_block
from widgets.background import BackgroundRun, RunningJob
from widgets.filter_table import FilterTable
from widgets.pickers import MOST, run_picker
from widgets.record_saver import RecordSaver
from widgets.run_below import RunBelow

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

    picker.listing.index = 3
    assert f"{MOST + 1} of {MOST + 1} runs match; showing the newest" in picker.message.value
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


def test_another_run_ends_the_plans_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card of the run before is out of date; what is chosen already, or searched, ends none."""
    monkeypatch.setattr("widgets.pickers.running_cell", lambda: ("cell-other", "first"))
    ended: list[str] = []
    monkeypatch.setattr("widgets.pickers.end_plans", ended.append)
    picker = run_picker(RUNS)
    assert picker.view
    picker.listing.index = 3
    picker.search.value = "reason 3"
    again = run_picker(RUNS)
    assert again.view
    assert (["another run was selected"], "run-3", 3) == (ended, again.picked, again.listing.index)

    again.listing.index = 4

    assert ["another run was selected"] * 2 == ended


def test_cells_below_run_once_however_often_it_is_clicked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second click while they run is heard as soon as the last of them has ended."""
    below, runs, clock = RunBelow(), list[object](), {"now": 0.0, "ended": 0.0}
    monkeypatch.setattr("widgets.run_below.time.monotonic", lambda: clock["now"])
    monkeypatch.setattr("widgets.run_below.last_cell_ended_s", lambda: clock["ended"])
    below.output.observe(runs.append, "outputs")
    below.offer("1 group")
    for now, ended, expected in ((100, 50, 1), (100.2, 50, 1), (120, 119.9, 1), (121, 119.9, 2)):
        clock.update(now=now, ended=ended)
        below.button.click()
        assert expected == len(runs)


def test_a_click_saves_to_the_named_file() -> None:
    """The saved file is shown below; an error takes its place until the next success."""
    saved: list[Path] = []

    def save(path: Path) -> str:
        if path in saved:
            raise UsageError(f"{path} exists")
        saved.append(path)
        return f"saved to {path}"

    saver = RecordSaver(save, name="first.jsonl", command="offsetbook peek")
    (row, done) = saver.live_form()
    for name, why in (("first.jsonl", ""), ("first.jsonl", "exists"), ("second.jsonl", "")):
        saver.file.value = name
        row.children[1].click()
        assert why in saver.error_box.value
        assert bool(why) is bool(saver.error)
        assert (f"saved to {name}" in done.value) is not bool(why)
    assert [Path("first.jsonl"), Path("second.jsonl")] == saved
    assert command_block("offsetbook peek") in saver.static_html()


FRAME = pd.DataFrame({"topic": [f"t{n}" for n in range(500)], "lag": range(500)})


def test_order_and_filter_cover_all_rows() -> None:
    """The largest of all comes first, and a row that was not painted is found."""
    rows = FilterTable(FRAME, caption="Changes", most=50)
    assert rows.view
    assert "showing 50 of 500 rows" in rows.body.value
    rows.order.value = "-lag"
    assert [499, 498] == [*rows.shown["lag"][:2]]
    rows.search.set_state({"value": "T499"})
    assert ["t499"] == [*rows.shown["topic"]]
    assert "1 of 1 matching rows (500 total)" in rows.body.value
    rows.search.value = "nothing like it"
    assert "No matching rows." in rows.body.value


def test_columns_stay_during_a_search() -> None:
    """A column is left out if no row has a value, not because no found row has one."""
    owners = FRAME.assign(owner=["reader", *[""] * 499], rack="")
    rows = FilterTable(owners, caption="Changes", most=50)
    assert rows.view
    rows.search.value = "t499"
    assert ["t499"] == [*rows.shown["topic"]]
    assert ["topic", "lag", "owner"] == re.findall(r"<th [^>]*>(.*?)</th>", rows.body.value)


@pytest.mark.parametrize("query", ["1,204,332", "1204332", "3 d 4 h", "10:00:00 utc"])
def test_shown_texts_are_found(query: str) -> None:
    """A number with its thousands separators, and a duration, as copied from a cell."""
    rows = FRAME.assign(after=pd.array([1_204_332, *[0] * 499], "Int64"))
    rows["apart"] = [pd.Timedelta(days=3, hours=4), *[pd.NaT] * 499]
    rows["at"] = [pd.Timestamp("2026-11-22T10:00:00Z"), *[pd.NaT] * 499]
    table = FilterTable(rows)
    assert table.view
    table.search.value = query
    assert ["t0"] == [*table.shown["topic"]]


def test_a_short_table_has_no_controls() -> None:
    """Ten rows are looked through by eye."""
    rows = FilterTable(FRAME.head(10))
    assert [rows.body] == [*rows.live_form()]


def test_results_and_errors_are_kept() -> None:
    """A result is on the object, and so is an error, which is shown in place and escaped."""
    action = BackgroundRun("Reading")
    assert action.start(lambda _: 7)
    assert action.wait(10)
    assert (7, "done", None) == (action.result, action.state, action.error)

    def fail(*_: RunningJob) -> None:
        raise ValueError("<img src=x>")

    # What is done with the result may fail too.
    for state, work, then in (("failed", fail, lambda: None), ("done", lambda _: 7, fail)):
        assert action.start(work, then=then)
        assert action.wait(10)
        assert (state, "<img src=x>") == (action.state, str(action.error))
        assert "&lt;img src=x&gt;" in action.error_box.value
        assert "<img" not in action.error_box.value


def test_one_at_a_time_with_progress_and_a_cancel_button() -> None:
    """While it runs nothing else starts; it shows its progress, and stops when cancelled."""
    action, begun = BackgroundRun("Applying"), threading.Event()

    def work(job: RunningJob) -> str:
        job.report(done=2, total=5)
        begun.set()
        assert job.stop_requested.wait(10)
        return job.stopped()

    assert action.start(work)
    assert begun.wait(10)
    assert not action.start(lambda _: None)
    assert "2 of 5" in action.text_form()
    # As a click in the browser arrives: the handlers of the button are called.
    action.button.click()
    assert "stopping" in action.text_form()
    assert action.wait(10)
    assert "cancelled by the user" == action.result
    assert "none" == action.button.layout.display


def test_no_cancel_button_without_a_way_to_cancel() -> None:
    """A button that would do nothing is not shown."""
    action, go_on = BackgroundRun("Moving", cancellable=False), threading.Event()
    action.start(lambda _: go_on.wait(10))
    assert "none" == action.button.layout.display
    go_on.set()
    assert action.wait(10)
