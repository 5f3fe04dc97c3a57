"""Lines on a page: the command that stands for a call, and the progress of a long cell."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from applications import eventually
from IPython.utils.capture import capture_output

from toolkit.model.names import ExactName
from toolkit.report import progress_line as module
from toolkit.report.next_step_list import ShownStep
from toolkit.report.progress_line import progress_line
from toolkit.report.run_command import NotebookCall, run_command
from toolkit.report.safe_names import visible
from toolkit.runner.parameters import parse_parameters, read_parameters

PARAMETERS = """\
cluster: str = "eu"  # where
groups: list[str] = []  # which
value: str = ""  # what
pause_for: str = "30m"  # how long
count: int = 0  # how many
dry_run: bool = True  # or not
"""


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"groups": ["payments"]},
        {"groups": ["payments", "it's <img src=x>"]},
        {"groups": ["one, and only one"], "value": "a b;c"},
        {"value": "-5", "count": -5, "dry_run": False},
    ],
)
def test_the_command_means_the_values(
    make_notebook: Callable[..., Path], values: dict[str, Any]
) -> None:
    """A shell and `offsetbook run` read exactly those values out of the command that is shown."""
    notebook = make_notebook("1", parameters=PARAMETERS)

    words = shlex.split(run_command(NotebookCall(str(notebook), values), {"cluster": "us"}))

    assert ["offsetbook", "run", str(notebook)] == words[:3]
    texts = [tuple(text.split("=", 1)) for text in words[4::2]]
    read = parse_parameters(read_parameters(notebook), texts, notebook="x")
    assert values | {"cluster": "us"} == read


def test_what_is_empty_is_the_default_and_none_is_an_empty_text() -> None:
    """Nothing is written for an empty value; a default that is not empty is replaced by None."""
    call = NotebookCall("40", {"groups": [], "value": "", "pause_for": None})

    assert "offsetbook run 40 -p cluster=eu -p pause_for=" == run_command(
        call, {"cluster": "eu", "state": ""}
    )


def test_a_call_without_cluster_or_notebook() -> None:
    """The session's cluster is no parameter beside those of the call; no notebook, no command."""
    call = NotebookCall("30", {"clusters": ["eu"]})

    assert "offsetbook run 30 -p clusters=eu" == run_command(call, {"cluster": "eu"})
    assert "" == run_command(NotebookCall(), {"cluster": "eu"})


@pytest.mark.parametrize("name", ["a\x1b[31mb", "it's\nhere \\n", "pay\u200bments", "plain"])
def test_what_is_shown_is_what_a_shell_reads(name: str) -> None:
    """Every character of a command is visible, and bash reads the name out of it."""
    command = run_command(NotebookCall("40", {"group": name}), {})

    assert visible(command) == command
    printed = ["bash", "-c", command.replace("offsetbook run 40 -p", "printf %s")]
    assert (
        f"group={name}" == subprocess.run(printed, capture_output=True, check=True).stdout.decode()
    )


@pytest.mark.parametrize(
    ("name", "text"), [("", '""'), ("pay*", '"pay*"'), (" a", '" a"'), ("payments", "payments")]
)
def test_a_step_chooses_exactly_its_group(name: str, text: str) -> None:
    """A group's name is written so that the notebook reads it as this name, and no pattern."""
    call = NotebookCall("90_troubleshoot_group", {"groups": [ExactName(name)]})
    step = ShownStep("Next", "", call.notebook, call.parameters)

    assert {"groups": [text]} == step.parameters
    assert f"groups={text}" in shlex.split(run_command(call, {}))


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
