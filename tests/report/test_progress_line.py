"""The line that says what a long cell does."""

from __future__ import annotations

import pytest
from applications import eventually
from IPython.utils.capture import capture_output

from toolkit.report import progress_line as module
from toolkit.report.progress_line import progress_line


@pytest.mark.usefixtures("shell")
def test_a_long_cell_says_what_it_does_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """In JupyterLab one line is replaced until the end; headless there is none."""
    monkeypatch.setattr(module, "TICK_S", 0.01)
    with capture_output() as shown, progress_line("reading <3 clusters>") as step:
        step("starting Spark")
        eventually(lambda: len(shown.outputs) > 4)

    texts = [output.data["text/plain"] for output in shown.outputs]
    assert ["reading <3 clusters>…", "reading <3 clusters>… 0 s · starting Spark"] == texts[:2]
    assert texts[-1].startswith("reading <3 clusters>: took ")
    assert [False, *[True] * (len(texts) - 1)] == [bool(o.update) for o in shown.outputs]
    assert 1 == len({output.transient["display_id"] for output in shown.outputs})
    assert "Reading &lt;3" in shown.outputs[0].data["text/html"]

    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")
    with capture_output() as shown, progress_line("reading") as step:
        step("one")
    assert [] == shown.outputs
