"""What a terminal gets: tables, messages, the progress line and a watch."""

import csv
import io
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from applications import eventually
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from terminal import talk

from toolkit.cli.output import broken_at_spaces, printable, write_frame
from toolkit.cli.progress_line import ProgressLine
from toolkit.cli.terminal_table import Screen, terminal_table
from toolkit.model.names import shown_name
from toolkit.report.cell_text import rows_of

OnTerminal = Callable[..., None]

WORDS = st.text("abcdefgh-.東", min_size=1, max_size=20)
SENTENCES = st.lists(WORDS, min_size=1, max_size=8).map(" ".join)
ROWS = st.lists(st.tuples(SENTENCES, st.integers(0, 10**9), SENTENCES, WORDS), min_size=1)
NAMES = ["group", "unknown_lag_partitions", "why", "owner"]


@given(ROWS, st.integers(45, 200))
def test_no_word_is_broken_at_any_width(rows: list[tuple[str, int, str, str]], width: int) -> None:
    """Lines fit the width, every word of a shown column is whole, and other columns are named."""
    frame = pd.DataFrame(rows, columns=NAMES)
    table = terminal_table(rows_of(frame), printable, screen=Screen(width, 24), is_whole=True)
    shown = [name for name in NAMES if name not in table.omitted_columns]
    words = {word for line in table.rows for word in line.split()}

    assert all(cell_len(line) <= width for line in (*table.header, *table.rows))
    assert "group" in shown
    for name in shown:
        texts = frame[name].map(lambda value: f"{value:,}" if isinstance(value, int) else value)
        texts = texts.map(shown_name) if name == "group" else texts
        assert {word for text in texts for word in text.split()} <= words
    assert [] == [name for name in table.omitted_columns if name not in table.omitted]


def test_narrow_terminal_shows_important_columns_and_names_the_others(
    capsys: pytest.CaptureFixture[str], on_terminal: OnTerminal
) -> None:
    """Important columns get room first and keep their order; a note says how to see the others."""
    on_terminal(columns=40)
    row = {"coordinator": [1], "group": ["nightly-export"], "assignor": ["range"], "lag": [5400]}
    write_frame(pd.DataFrame(row), "table", important=["group", "lag"])
    written = capsys.readouterr()

    assert ["coordinator", "group", "lag", "1", "nightly-export", "5,400"] == written.out.split()
    assert (
        "not shown: column assignor. To see everything, add '| less -S' or --output csv, or use "
        "a wider terminal\n"
    ) == written.err


def test_long_table_counts_the_rows_that_follow(
    capsys: pytest.CaptureFixture[str], on_terminal: OnTerminal
) -> None:
    """A table longer than the screen leaves its first rows readable and counts the others."""
    on_terminal()
    frame = pd.DataFrame({"group": [f"g{number}" for number in range(5_000)]})
    write_frame(frame, "table")
    written = capsys.readouterr()

    assert ["group", *(f"g{number}" for number in range(19))] == written.out.split()
    assert written.err.startswith("not shown: 4,981 more rows. To see everything, add '| less -S'")


def test_pipe_and_plan_to_approve_get_everything(
    capsys: pytest.CaptureFixture[str], on_terminal: OnTerminal
) -> None:
    """A pipe has one line a row; a table that is approved is whole, however small the screen is."""
    write_frame(pd.DataFrame({"group": ["g " * 200] * 100, "why": ["w " * 200] * 100}), "table")
    written = capsys.readouterr()
    assert (101, "") == (len(written.out.splitlines()), written.err)

    on_terminal()
    write_frame(pd.DataFrame({"after": range(100)}), "table", is_whole=True)
    assert ["after", *map(str, range(100))] == capsys.readouterr().out.split()


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_durations_are_for_people_and_numbers_for_programs(
    capsys: pytest.CaptureFixture[str], unit: str
) -> None:
    """Seconds and time differences have the one duration format in tables, digits elsewhere."""
    row = {
        "time_lag_s": [134_722.36],
        "time_distance": pd.to_timedelta([-12], "h").as_unit(unit),
        "consumed_per_s": [135_000.5],
    }
    write_frame(pd.DataFrame(row), "table")
    header, cells = capsys.readouterr().out.splitlines()
    write_frame(pd.DataFrame(row), "csv")
    (cells_of_csv,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    write_frame(pd.DataFrame(row), "json")
    (cells_of_json,) = json.loads(capsys.readouterr().out)

    assert ["time_lag", "time_distance", "consumed_per_s"] == header.split()
    assert ["1 d 13 h", "-12 h", "135,000.5"] == [
        part.strip() for part in cells.split("  ") if part
    ]
    for cells in (cells_of_csv, cells_of_json):
        assert (134_722.36, -43_200) == (float(cells["time_lag_s"]), float(cells["time_distance"]))


STATUS = {
    "group": ["stuck", "payments", "billing"],
    "status": ["ok", "beyond log end", "unknown"],
    "why": ["ok", "not for long " * 4, "held"],
}


def written_to_terminal(
    capsys: pytest.CaptureFixture[str], output: str = "table", column: str = "status"
) -> str:
    write_frame(pd.DataFrame(STATUS).rename(columns={"status": column}), output)
    return capsys.readouterr().out


@pytest.mark.parametrize("column", ["status", "health"])
@pytest.mark.parametrize("columns", [80, 50], ids=["wide", "wrapped"])
def test_a_status_has_its_colour_and_keeps_its_word(
    capsys: pytest.CaptureFixture[str],
    on_terminal: OnTerminal,
    monkeypatch: pytest.MonkeyPatch,
    columns: int,
    column: str,
) -> None:
    """Only cells of status columns are painted, and without the colours the table is the same."""
    on_terminal(columns)
    plain = written_to_terminal(capsys, column=column)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    painted = written_to_terminal(capsys, column=column)

    assert plain == re.sub(r"\x1b\[\d+m", "", painted)
    assert [("32", "ok"), ("31", "beyond log end")] == re.findall(r"\x1b\[(3\d)m([\w ]+)", painted)


@pytest.mark.parametrize(
    ("variable", "output"),
    [
        (("NO_COLOR", "1"), "table"),
        (("TERM", "dumb"), "table"),
        (("TERM", "xterm"), "json"),
        (("TERM", "xterm"), "csv"),
    ],
)
def test_no_colour(
    capsys: pytest.CaptureFixture[str],
    on_terminal: OnTerminal,
    monkeypatch: pytest.MonkeyPatch,
    variable: tuple[str, str],
    output: str,
) -> None:
    """NO_COLOR, a terminal without colours, JSON and CSV get no escape sequence."""
    on_terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(*variable)

    assert "\x1b" not in written_to_terminal(capsys, output)


def test_elapsed_time_goes_on_while_nothing_is_reported(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The time is shown also while stderr itself goes to a file, as it does while Spark starts."""
    line = ProgressLine("fleet", visible=True)
    line.show("starting Spark")
    ours, log = os.dup(2), os.open(tmp_path / "spark.log", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 2)
    seen = ""

    def has_time() -> bool:
        nonlocal seen
        seen += capfd.readouterr().err
        # A busy machine may show no time before the second second.
        return re.search(r"fleet: starting Spark, [1-9]\d* (s|min)", seen) is not None

    try:
        eventually(has_time)
    finally:
        os.dup2(ours, 2)
        os.close(ours)
        os.close(log)
        line.clear()

    assert "" == (tmp_path / "spark.log").read_text()
    assert capfd.readouterr().err.endswith("\r\033[K")


def test_no_progress_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    """Not a byte is written."""
    line = ProgressLine("fleet", visible=False)
    line.show("starting Spark")
    line.clear()

    assert "" == capfd.readouterr().err


MESSAGE_WORDS = st.lists(st.text("ab-./é界", min_size=1, max_size=30), min_size=1, max_size=30)


@given(MESSAGE_WORDS, st.integers(10, 100))
def test_no_word_is_broken(words: list[str], width: int) -> None:
    """All words are there, in their order, and only a word alone is longer than a line."""
    lines = broken_at_spaces(" ".join(words), width).split("\n")

    assert words == [word for line in lines for word in line.split(" ")]
    assert all(len(line) <= width or " " not in line for line in lines)


def test_a_command_stays_on_one_line() -> None:
    """A command that is copied from a message is whole: a shell would run the first line of it."""
    command = "offsetbook apply plan.json --approve 1234-5678 --reason TEXT"

    assert command == broken_at_spaces(command, 20)
    assert f"  to go on:\n  '{command}'\n  does it" == broken_at_spaces(
        f"  to go on: '{command}' does it", 20
    )
    assert "the group's\nwords, add\n'| less -S'" == broken_at_spaces(
        "the group's words, add '| less -S'", 12
    )


def test_an_error_at_a_terminal_is_broken_at_spaces(tmp_path: Path) -> None:
    """Its lines fit the terminal, and joined by spaces they are what a pipe gets."""
    missing = tmp_path / "missing.yaml"
    _, whole = talk(["lag"], missing, says=[])
    _, seen = talk(["lag"], missing, says=[], columns=100)

    lines = seen.splitlines()
    assert whole.splitlines() == [" ".join(lines)]
    assert len(lines) > 1
    assert all(len(line) <= 110 or " " not in line for line in lines)  # with colour
