import re
import shlex
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from applications import eventually
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from toolkit.model import Problem, Unread
from toolkit.model.names import ExactName
from toolkit.planning.frames.snapshot_frames import problems_frame
from toolkit.report import progress_line as module
from toolkit.report.display import display_output
from toolkit.report.next_step_list import ShownStep
from toolkit.report.progress_line import progress_line
from toolkit.report.run_command import NotebookCall, run_command
from toolkit.report.safe_names import in_html, visible
from toolkit.report.tables import ROW_CAP, show_problems, show_table, table_columns
from toolkit.runner.parameters import parse_parameters, read_parameters
from toolkit.session import connect

HOSTILE = "<img src=x onerror=alert(1)>"


def cells(html: str) -> list[str]:
    return re.findall(r"<td[^>]*>(.*?)</td>", html)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"group": [HOSTILE]}),
        pd.DataFrame({HOSTILE: [1]}),
        pd.DataFrame({"group": [[HOSTILE]]}),
        pd.DataFrame({"group": pd.Categorical([HOSTILE])}),
        pd.DataFrame({"lag": [1]}, index=pd.Index([HOSTILE], name="group")),
        pd.DataFrame({"lag": [1]}, index=pd.Index(["a"], name=HOSTILE)),
        pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("lag", HOSTILE)])),
    ],
    ids=["cell", "column", "list", "category", "index", "index name", "column levels"],
)
def test_names_are_text(shown: Any, frame: pd.DataFrame) -> None:
    """A hostile name is text wherever a frame can hold it, and in caption and empty text."""
    show_table(frame, caption_text=HOSTILE)
    show_table(frame.head(0), caption_text=HOSTILE, empty_text=HOSTILE)

    for output in shown:
        assert "<img" not in output["data"]["text/html"]
        assert "&lt;img" in output["data"]["text/html"]


@given(st.text())
def test_no_name_makes_a_tag(name: str) -> None:
    """Whatever a name holds, a browser reads it as text alone."""

    class Tags(HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            raise AssertionError((tag, attrs))

    Tags().feed(in_html(name))


def test_hidden_characters_are_spelt_out(shown: Any) -> None:
    """A name cannot imitate another by invisible characters, nor control a terminal or a log."""
    show_table(
        pd.DataFrame({"group": ["orders\u202egro", "pay\u200bments", "grün ☃", "a\x1b]0;\x07"]})
    )
    display_output({"text/plain": "first\x1b[2J\nsecond"})

    table, other = (output["data"] for output in shown)
    spelt_out = ["orders\\u202egro", "pay\\u200bments", "grün ☃", "a\\x1b]0;\\x07"]
    assert spelt_out == cells(table["text/html"])
    assert all(name in table["text/plain"] for name in spelt_out)
    assert "first\\x1b[2J\nsecond" == other["text/plain"]


def test_numbers(shown: Any) -> None:
    """Numbers are right-aligned with thousands apart; what is missing is a dash and never 0."""
    frame = pd.DataFrame(
        {
            "whole": [1234567, 0, -5],
            "gaps": [1234567, None, 0],
            "objects": pd.Series([10**20, None, 7], dtype=object),
            "nullable": pd.array([1, None, 3], dtype="Int64"),
            "decimals": [0.12345, 1234.5, float("inf")],
            "rates": [12.003, 12.0, 0.5],
        }
    )

    show_table(frame)

    assert cells(shown.html) == [
        *["1,234,567", "1,234,567", f"{10**20:,}", "1", "0.123", "12"],
        *["0", "–", "–", "–", "1,234.5", "12"],
        *["-5", "0", "7", "3", "∞", "0.5"],
    ]
    assert 'class="ob-data number-1 number-2 number-3 number-4 number-5 number-6"' in shown.html
    # Only whole numbers without gaps are in order by their text.
    assert shown.html.count('data-type="num-fmt"') == 1
    assert shown.html.count('data-order="') == 15


def test_other_values(shown: Any) -> None:
    """Times are UTC and say so, durations have units, booleans are words, lists are lists."""
    frame = pd.DataFrame(
        {
            "at": [datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), None],
            "for": [timedelta(days=3, hours=4, minutes=5), None],
            "ago": [timedelta(minutes=-12, seconds=-5), timedelta(0)],
            "live": pd.Series([True, None], dtype=object),
            "topics": [frozenset({"b", "a"}), ()],
        }
    )

    show_table(frame)

    assert cells(shown.html) == [
        *["2026-01-02 03:04:05 UTC", "3 d 4 h", "-12 min 5 s", "yes", "a, b"],
        *["–", "–", "0 s", "–", "–"],
    ]


def test_a_cut_table_counts_the_rows_left_out(shown: Any) -> None:
    """Sorting does not include them."""
    show_table(pd.DataFrame({"lag": range(ROW_CAP + 1)}))

    for form in (shown.html, shown.text):
        assert f"first {ROW_CAP:,} of {ROW_CAP + 1:,} rows" in form
    assert len(cells(shown.html)) == ROW_CAP

    show_table(pd.DataFrame({"lag": range(ROW_CAP)}))

    assert "rows" not in shown.html.replace("data-rows", "")


def test_no_rows(shown: Any) -> None:
    """An empty frame is a sentence and no table."""
    show_table(pd.DataFrame({"lag": []}), empty_text="No group lags.")

    assert "No group lags." in shown.html
    assert "<table" not in shown.html


def test_library_is_sent_once(shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library comes with the first table, and again with the cell that has brought it."""
    monkeypatch.delenv("OFFSETBOOK_HEADLESS")
    monkeypatch.setattr("toolkit.report.browser_libraries._carrier", [])
    monkeypatch.setattr("toolkit.report.browser_libraries.datatables", lambda: "L" * 1000)
    runs = [("one", "run-1"), ("one", "run-1"), ("two", "run-2"), ("one", "run-3"), ("two", "r")]
    for run in runs:
        monkeypatch.setattr("toolkit.report.browser_libraries.running_cell", lambda run=run: run)
        show_table(pd.DataFrame({"lag": [1]}))

    scripts = [output for output in shown if output["metadata"]]
    assert [output["metadata"]["offsetbook_role"] for output in scripts] == ["live-only"] * 5
    sent = ["L" * 1000 in output["data"]["text/html"] for output in scripts]
    assert [True, False, False, True, False] == sent


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("show", [show_table, show_problems])
def test_every_table_has_its_style(
    shown: Any, monkeypatch: pytest.MonkeyPatch, show: Callable[..., None], rows: int
) -> None:
    """In JupyterLab, also one without rows, whichever is shown first."""
    monkeypatch.delenv("OFFSETBOOK_HEADLESS")
    show(pd.DataFrame({"what": ["groups"] * rows}))
    (_, looks) = shown
    assert "live-only" == looks["metadata"]["offsetbook_role"]
    assert "<style>" in looks["data"]["text/html"]
    assert bool(rows) == ("<script" in looks["data"]["text/html"])


def test_names_in_a_cell_are_whole(shown: Any) -> None:
    """A name is not broken at its hyphens; a sentence, or what is very long, may be."""
    long = "reader-" * 20
    names = ["nightly-export", "went on by 10 in 10s", long, "a b " * 20]
    show_table(pd.DataFrame({"what": names}))

    assert "<td>nightly-export</td>" in shown.html
    assert '<td class="phrase">went on by 10 in 10s</td>' in shown.html
    assert f"<td>{long}" not in shown.html
    assert '<td class="sentence">a b' in shown.html


def test_problems(shown: Any) -> None:
    """Problems are rows at the top of the report; that there are none is shown as well."""
    problem = Problem(Unread.COMMITS, "not authorised", group_id=HOSTILE)
    show_problems(problems_frame([problem], cluster="eu"))

    assert shown[-1]["metadata"] == {"offsetbook_role": "problems"}
    assert "1 read error" in shown.html
    assert cells(shown.html) == ["eu", "committed offsets", in_html(HOSTILE), "not authorised"]

    show_problems(problems_frame([], cluster="eu"))

    assert shown[-1]["metadata"] == {}
    assert "No read errors" in shown.html


def test_frames_of_a_notebook_are_not_typeset(shell: InteractiveShell) -> None:
    """After a cluster was opened, a frame at the end of a cell is marked as nothing for MathJax."""
    frame = pd.DataFrame({"group": [r"$\href{https://example.invalid/}{payments}$"]})
    connect("broker.invalid:9092")
    bundle, _ = shell.display_formatter.format(frame)

    assert bundle["text/html"].startswith('<div class="mathjax_ignore">')


def test_text_distinguishes_a_name_from_a_missing_one(shown: Any) -> None:
    """A group called None or nan keeps its name, and no group is a dash."""
    groups = ["", "None", "nan", None]
    show_table(pd.DataFrame({"group": groups, "topic": ["None", None, "t", "t"]}))

    lines = [line.split() for line in shown.text.splitlines()[1:]]
    assert [['""', "None"], ["None", "–"], ["nan", "t"], ["–", "t"]] == lines


SENTENCE = "the next record is unread since yesterday, " * 3


@pytest.mark.parametrize(
    ("before", "after", "leading"),
    [
        ("topic partition lag owner verdict why", "topic partition verdict why lag owner", 4),
        ("group topic partition host paused_until reason", "group topic partition paused_until", 4),
        ("run at who request result", "run at result who request", 3),
        ("severity rule group topic partition why", "severity rule group topic partition why", 6),
        ("cluster group lag status status_why", "cluster group status status_why lag", 4),
        ("offset key why", "offset why key", 2),
        ("group lag", "group lag", 1),
    ],
)
def test_state_end_and_reason_follow_the_names(before: str, after: str, leading: int) -> None:
    """In every table, right after the names of the row."""
    frame = pd.DataFrame([before.split()], columns=before.split())

    found = table_columns(frame)

    assert after.split() == [*found.frame.columns][: len(after.split())]
    assert sorted(frame.columns) == sorted(found.frame.columns)
    assert (leading, ()) == (found.leading, found.empty)


def test_a_column_without_values_is_left_out_and_named(shown: Any) -> None:
    """An empty column is named below the table; where missing means something it stays."""
    frame = pd.DataFrame(
        {
            "group": ["", "payments"],
            "rack": ["", None],
            "held_partitions": [(), frozenset()],
            "is_paused": [False, False],
            "lag": [None, None],
        }
    )
    show_table(frame)

    left_out = "Empty columns, left out: rack, held partitions."
    assert ["group", "is paused", "lag"] == re.findall(r"<th [^>]*>(.*?)</th>", shown.html)
    assert f'<p class="ob-left-out">{left_out}</p>' in shown.html
    assert shown.text.endswith(left_out)
    show_problems(pd.DataFrame([{"what": "log end", "topic": "", "why": "no leader"}]))
    assert "Empty columns, left out: topic." in shown.text


def test_only_a_column_that_stays_in_sight_makes_a_row_tall(shown: Any) -> None:
    """A long text that may be out of sight scrolls in its cell; the reason is there as a whole."""
    show_table(pd.DataFrame({"topic": ["orders"], "subscribed": [SENTENCE], "why": [SENTENCE]}))

    cells = re.findall(r"<td[^>]*>.*?</td>", shown.html)
    assert cells == [
        "<td>orders</td>",
        f'<td class="sentence">{SENTENCE}</td>',
        f'<td class="sentence"><div class="low">{SENTENCE}</div></td>',
    ]


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


EU = {"cluster": "eu"}


@pytest.mark.parametrize(
    ("call", "session", "command"),
    [
        (
            NotebookCall("40", {"groups": [], "value": "", "pause_for": None}),
            {**EU, "state": ""},
            "offsetbook run 40 -p cluster=eu -p pause_for=",
        ),
        # The session's cluster is no parameter beside those of the call.
        (NotebookCall("30", {"clusters": ["eu"]}), EU, "offsetbook run 30 -p clusters=eu"),
        (NotebookCall(), EU, ""),
    ],
    ids=["empty values", "clusters of its own", "no notebook"],
)
def test_empty_values_and_defaults(
    call: NotebookCall, session: dict[str, str], command: str
) -> None:
    """An empty value is not written; a default that is not empty is replaced by None."""
    assert command == run_command(call, session)


@pytest.mark.parametrize("name", ["a\x1b[31mb", "it's\nhere \\n", "pay\u200bments", "plain"])
def test_a_shown_command_is_what_a_shell_reads(name: str) -> None:
    """Every character is visible, and bash reads the name out of it."""
    command = run_command(NotebookCall("40", {"group": name}), {})
    printed = ["bash", "-c", command.replace("offsetbook run 40 -p", "printf %s")]
    read = subprocess.run(printed, capture_output=True, check=True).stdout.decode()

    assert (command, f"group={name}") == (visible(command), read)


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
def test_a_long_cell_shows_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """In JupyterLab one line is replaced until the end; headless there is none."""
    monkeypatch.setattr(module, "TICK_S", 0.01)
    with capture_output() as shown, progress_line("reading <3 clusters>") as step:
        step("starting Spark")
        eventually(lambda: len(shown.outputs) > 4)

    texts = [output.data["text/plain"] for output in shown.outputs]
    assert "reading <3 clusters>…" == texts[0]
    # On a busy machine time passes before the first step, which is shown as well.
    assert any(text.endswith(" s · starting Spark") for text in texts[1:-1])
    assert texts[-1].startswith("reading <3 clusters>: took ")
    assert [False, *[True] * (len(texts) - 1)] == [bool(o.update) for o in shown.outputs]
    assert 1 == len({output.transient["display_id"] for output in shown.outputs})
    assert "Reading &lt;3" in shown.outputs[0].data["text/html"]

    monkeypatch.setenv("OFFSETBOOK_HEADLESS", "1")
    with capture_output() as shown, progress_line("reading") as step:
        step("one")
    assert [] == shown.outputs
