import csv
import io
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.cli.output import (
    FORMULA,
    csv_texts,
    json_texts,
    printable,
    write_frame,
    write_problems,
)
from toolkit.errors import ToolkitError
from toolkit.model import Problem, Snapshot, Unread
from toolkit.model.rows import Rows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\r\n\u202e"


@given(st.text())
def test_printable_has_no_control_characters(text: str) -> None:
    """Nothing that a terminal would obey is left, and printable text stays as it is."""
    shown = printable(text)

    assert shown.isprintable()
    assert len(shown) == len(text)
    assert all(new == old or not old.isprintable() for new, old in zip(shown, text, strict=True))


def test_table_cannot_write_escape_sequences(capsys: pytest.CaptureFixture[str]) -> None:
    """A hostile name in a cell or a problem reaches the terminal without its control characters."""
    write_frame(pd.DataFrame({"group": [ESCAPES], "note": ["[red]not markup[/red]"]}), "table")
    write_problems([_snapshot(Problem(Unread.MEMBERS, ESCAPES, ESCAPES, ESCAPES))])
    written = capsys.readouterr()

    for text in (written.out, written.err):
        assert not set(text) & set("\x1b\x07\x9b\r\u202e")
    assert "[red]not markup[/red]" in written.out
    assert len(written.out.splitlines()) == 2
    assert len(written.err.splitlines()) == 1


@pytest.mark.parametrize("output", ["table", "json", "csv"])
def test_terminal_is_never_commanded(
    capsys: pytest.CaptureFixture[str], on_terminal: Callable[..., None], output: str
) -> None:
    """Whatever the form, what goes to a terminal holds no control character but line ends."""
    on_terminal()
    write_frame(pd.DataFrame({"group": [ESCAPES], "lag": [1]}), output)
    written = capsys.readouterr().out

    assert all(character.isprintable() or character == "\n" for character in written)


def test_csv_has_no_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    """Text that a spreadsheet would execute begins with an apostrophe; numbers stay numbers."""
    names = ["=cmd|'/c calc'!A1", "+1", "-1", "@SUM(A1)", "\t=1", "a=b", "\u2013"]
    frame = pd.DataFrame({"group": names, "lag": pd.array([-1, 2, 3, 4, 5, 6, None], "Int64")})
    write_frame(frame, "csv")
    rows = list(csv.reader(io.StringIO(capsys.readouterr().out, newline="")))

    assert [f"'{name}" for name in names[:5]] + names[5:] == [row[0] for row in rows[1:]]
    assert ["-1", "2", "3", "4", "5", "6", ""] == [row[1] for row in rows[1:]]


def test_error_cannot_write_escape_sequences() -> None:
    """A name in an error is spelt out, wherever the error is shown: a notebook has no filter."""
    error = ToolkitError(f"group {ESCAPES} is unknown", hint=ESCAPES)

    assert str(error).isprintable()
    assert "\\x1b]0;owned\\x07" in error.problem


def test_values_in_each_form(capsys: pytest.CaptureFixture[str]) -> None:
    """A missing number is never 0, no offset is rounded, and truth is yes or no."""
    frame = pd.DataFrame(
        {"lag": pd.array([None, 0, 2**63 - 1], dtype="Int64"), "pending": [True, False, True]}
    )
    write_frame(frame, "table")
    table = "lag pending – yes 0 no 9,223,372,036,854,775,807 yes"
    assert table.split() == capsys.readouterr().out.split()
    write_frame(frame, "json")
    assert [(None, True), (0, False), (2**63 - 1, True)] == [
        tuple(row.values()) for row in json.loads(capsys.readouterr().out)
    ]
    write_frame(frame, "csv")
    assert "lag,pending\n,True\n0,False\n9223372036854775807,True\n" == capsys.readouterr().out


def test_data_give_every_name_back(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON says control characters in its own way; CSV that is not for a terminal is exact."""
    names = [ESCAPES, 'a "b", c', "東京"]
    write_frame(pd.DataFrame({"group": names}), "json")
    written = capsys.readouterr().out
    assert ("\x1b" in written, "東京" in written) == (False, True)
    assert names == [row["group"] for row in json.loads(written)]

    write_frame(pd.DataFrame({"group": names}), "csv")
    rows = csv.reader(io.StringIO(capsys.readouterr().out, newline=""))
    assert [["group"], *([name] for name in names)] == list(rows)


def test_problems_name_their_subject(capsys: pytest.CaptureFixture[str]) -> None:
    """A problem is one line; of many of one kind the first are named and the rest counted."""
    write_problems([_snapshot(Problem(Unread.LOG_OFFSETS, "it has no leader", None, "orders", 0))])
    assert capsys.readouterr().err == (
        "could not read log offsets of cluster eu, topic orders, partition 0: it has no leader\n"
    )

    many = [Problem(Unread.MEMBERS, "it is down", f"g{number}") for number in range(4_000)]
    write_problems([_snapshot(*many[:2], Problem(Unread.GROUPS, "no leader"), *many[2:])])
    *named, counted, other = capsys.readouterr().err.splitlines()
    assert [f"could not read members of cluster eu, group g{n}: it is down" for n in range(5)] == (
        named
    )
    assert "could not read members of 3,995 more in cluster eu, for the same reason" == counted
    assert "could not read groups of cluster eu: no leader" == other


CELLS = {
    "group": st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.just("=a/b"),
    "lag": st.none() | st.integers(-(2**63), 2**63 - 1),
    "committed_at": st.none()
    | st.integers(0, 4_102_444_800_000).map(lambda ms: EPOCH + timedelta(milliseconds=ms)),
    "pending": st.booleans(),
}


@given(st.lists(st.tuples(*CELLS.values()), max_size=5))
def test_rows_are_written_as_frames_are(rows: list[tuple[object, ...]]) -> None:
    """Rows give the same bytes as pandas gives for a frame of them, in JSON and CSV."""
    kinds = {"group": "str", "lag": "Int64", "committed_at": "datetime64[ms, UTC]"}
    frame = pd.DataFrame(rows, columns=list(CELLS), dtype="object").astype(
        kinds | {"pending": bool}
    )
    table = Rows(dict(zip(CELLS, ("text", "number", "time", "text"), strict=True)), rows)

    told = frame.to_json(orient="records", date_format="iso", indent=2, force_ascii=False)
    assert f"{told}\n" == "".join(json_texts(table))
    safe = frame.assign(
        group=[f"'{name}" if name.startswith(FORMULA) else name for name in frame["group"]]
    )
    assert safe.to_csv(index=False) == "".join(csv_texts(table))


def test_csv_is_written_while_rows_come() -> None:
    """A reader gets the first rows before the last are made."""
    made = 0

    def rows() -> Iterator[tuple[int]]:
        nonlocal made
        for made in range(1, 100_001):
            yield (made,)

    texts = csv_texts(Rows({"lag": "number"}, rows()))
    assert "lag\n" == next(texts)
    assert next(texts).startswith("1\n2\n")
    assert made < 100_000


def _snapshot(*problems: Problem) -> Snapshot:
    now = pd.Timestamp.now("UTC").to_pydatetime()
    return Snapshot("eu", "id", now, (), (), {}, problems)
