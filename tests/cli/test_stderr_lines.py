"""Messages on a terminal."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from terminal import talk

from toolkit.cli.stderr_lines import broken_at_spaces

WORDS = st.lists(st.text("ab-./é界", min_size=1, max_size=30), min_size=1, max_size=30)


@given(WORDS, st.integers(10, 100))
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
