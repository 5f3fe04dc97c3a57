"""What a watch shows on a terminal, without a cluster."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from toolkit.cli.watch import AppendedReadings, RedrawnTable, WatchedReading, display_for
from toolkit.model.rows import Rows

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
GROUPS = Rows({"group": "name", "lag": "number"}, [(f"g{n}", n) for n in range(100)])
LINES = 24
Draw = Callable[..., list[str]]
OnTerminal = Callable[..., None]


@pytest.fixture
def draw(capsys: pytest.CaptureFixture[str], on_terminal: OnTerminal) -> Draw:
    """Return a function that returns the lines of the last of some readings, 5 s apart."""

    def drawn(*readings: tuple[Rows | None, list[str]]) -> list[str]:
        on_terminal(lines=LINES, term="xterm")
        display = display_for("table", 5, ("group", "lag"))
        for number, (table, notes) in enumerate(readings):
            display.show(WatchedReading(NOON + timedelta(seconds=5 * number), table, notes))
        last = capsys.readouterr().out.rpartition("\x1b[H")[2]
        assert last.endswith("\x1b[J")
        return [line.removesuffix("\x1b[K") for line in last.removesuffix("\x1b[J").splitlines()]

    return drawn


def test_a_reading_that_fails_leaves_the_table_and_its_time(draw: Draw) -> None:
    """The rows of the last good reading stay, with when they were read and what went wrong."""
    lines = draw((GROUPS, []), (None, ["error: cannot connect"]))

    assert "Could not read anything at 12:00:05 UTC; this is from 12:00:00 UTC." in lines[0]
    assert any(line.startswith("g0") for line in lines)
    assert "error: cannot connect" == lines[-1]


def test_a_good_reading_replaces_an_error(draw: Draw) -> None:
    """After the next good reading its time is shown, and the error is gone."""
    lines = draw((None, ["error: cannot connect"]), (GROUPS, []))

    assert lines[0].startswith("2026-03-01 12:00:05 UTC, every 5 s.")
    assert not any("error" in line for line in lines)


def test_table_and_messages_fit_the_screen(draw: Draw) -> None:
    """However many rows and messages there are, the first line stays on the screen."""
    lines = draw((GROUPS, [f"could not read group {n}" for n in range(50)]))

    assert len(lines) < LINES
    assert any(line.startswith("g0") for line in lines)
    assert "and 43 more lines of messages" == lines[-1]
    assert any(line.startswith("not shown: 9") for line in lines)


def test_names_cannot_command_the_terminal(draw: Draw) -> None:
    """What a broker's message or a group's name holds is not obeyed."""
    hostile = Rows({"group": "name"}, [("\x1b[2Jowned",)])
    lines = draw((hostile, ["\x1b]0;owned\x07"]))

    assert not {"\x07"} & set("".join(lines))
    assert all("\x1b[2J" not in line and "\x1b]" not in line for line in lines)


@pytest.mark.parametrize(
    ("output", "term", "expected"),
    [
        ("table", "xterm", RedrawnTable),
        ("table", "dumb", AppendedReadings),
        ("json", "xterm", AppendedReadings),
        ("csv", "xterm", AppendedReadings),
    ],
)
def test_only_a_table_on_a_terminal_that_can_is_drawn_over(
    on_terminal: OnTerminal, output: str, term: str, expected: type
) -> None:
    """Data, and a terminal without a cursor that moves, get one reading after the other."""
    on_terminal(term=term)

    assert expected is type(display_for(output, 5, ()))
