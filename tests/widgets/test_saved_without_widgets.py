"""A saved notebook is readable in programs without widgets, and in VS Code without its kernel."""

from typing import Any

import pandas as pd
import pytest
from IPython.display import display
from IPython.utils.capture import capture_output
from plans_for_review import plan_for

from toolkit.report.next_step_list import ShownStep
from widgets import BackgroundRun, group_picker, lag_chart, pause_board, plan_review, run_picker
from widgets.filter_table import FilterTable
from widgets.live_or_static import LiveOrStatic
from widgets.next_steps import NextSteps
from widgets.pickers import Picker
from widgets.record_saver import RecordSaver

WIDGET = "application/vnd.jupyter.widget-view+json"
FRAME = pd.DataFrame({"cluster": ["eu"], "group": ["payments"], "topic": ["orders"]})
NUMBERS = {"partition": pd.array([0], "Int64"), "lag": pd.array([5], "Int64")}
TILES = FRAME.assign(**NUMBERS, state="lagging", committed=NUMBERS["lag"], owner="", host=None)
SHOWN = {
    "BackgroundRun": BackgroundRun("Applying"),
    "Chart": lag_chart(FRAME.assign(lag=NUMBERS["lag"])),
    "FilterTable": FilterTable(FRAME, caption="Changes", most=50),
    "GroupPicker": group_picker(FRAME.assign(type="consumer", state="Stable", members=1)),
    "NextSteps": NextSteps([ShownStep(title="Next: reset", why="It is stuck.")], lambda *_: ""),
    "PauseBoard": pause_board(
        lambda: TILES.assign(no_progress=False, paused_by=None, paused_until=pd.NaT, reason=""),
        title="payments",
    ),
    "PlanReview": plan_review(plan_for("payments"), ()),
    "RecordSaver": RecordSaver(str, name="records.jsonl", command="offsetbook peek --save"),
    "RunPicker": run_picker(
        FRAME.assign(run="run-1", request="reset", reason="", who="ann", result="1 done", at="")
    ),
}


def test_all_widgets_are_here() -> None:
    """A new widget is tested, too."""
    kinds = {*LiveOrStatic.__subclasses__(), *Picker.__subclasses__()} - {Picker}
    assert {kind.__name__ for kind in kinds} == SHOWN.keys()


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("name", SHOWN)
def test_the_widget_is_never_alone(name: str) -> None:
    """
    Beside the widget's MIME type there is text for VS Code, and a static view is in the same cell.

    VS Code shows another type of the same output where the widget needs its kernel
    (microsoft/vscode-jupyter#12611). The text is empty, because the static view says it all.
    """
    with capture_output() as cell:
        display(SHOWN[name])

    live = [output.data for output in cell.outputs if WIDGET in output.data]
    static = [output.data for output in cell.outputs if 'class="ow-stored"' in str(output.data)]
    assert [{WIDGET, "text/plain"}] == [data.keys() for data in live]
    assert [(True, True)] == [
        (bool(data["text/html"].strip()), bool(data["text/plain"].strip())) for data in static
    ]


@pytest.mark.parametrize("name", SHOWN)
def test_a_stored_output_is_not_typeset(name: str, monkeypatch: Any) -> None:
    """JupyterLab opens the notebook of a run, and would typeset names such as `${app}-${env}`."""
    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")

    html = SHOWN[name]._repr_mimebundle_()["text/html"]

    assert html.startswith('<div class="mathjax_ignore">')
