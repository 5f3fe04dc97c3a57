"""What a hold says about itself is read back, and nonsense in its place does no harm."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.kafka_io.groups.hold_notes import LONGEST_TEXT, read_note, write_note
from toolkit.model import HoldNote, TopicPartition

NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
TEXTS = st.text(max_size=LONGEST_TEXT)
TIMES = st.none() | st.integers(10**11, 4 * 10**12).map(
    lambda milliseconds: datetime.fromtimestamp(milliseconds // 1000, UTC)
)
NOTES = st.builds(
    HoldNote,
    *(TEXTS, TEXTS, TIMES, TIMES, TEXTS),
    st.none() | st.floats(0.5, 1e6, allow_nan=False),
    TEXTS,
)
PARTITIONS = st.frozensets(st.builds(TopicPartition, TEXTS, st.integers(0, 2**31 - 1)))


@given(NOTES, PARTITIONS)
def test_a_note_is_read_as_it_was_written(
    note: HoldNote, paused: frozenset[TopicPartition]
) -> None:
    """Every note and every set of partitions comes back."""
    read = read_note(write_note(note, paused))

    assert (note, tuple(sorted(paused))) == (read.note, tuple(sorted(read.paused)))


def test_holds_that_began_in_one_millisecond_are_two() -> None:
    """The run tells them apart, also where one operator began both on one host."""
    first = HoldNote(who="ann", host="desk", since=NOW, run_id="20261121T123000Z-1a2b3c4d")
    second = replace(first, run_id="20261121T123000Z-5e6f7a8b")

    assert read_note(write_note(first)).note.is_of_same_hold(first)
    assert not read_note(write_note(second)).note.is_of_same_hold(first)


def test_a_long_reason_is_cut() -> None:
    """A text that would make the note large is cut, because it stands in a record of the broker."""
    long = HoldNote(reason="x" * 10_000)

    assert "x" * LONGEST_TEXT == read_note(write_note(long)).note.reason


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "rack-7",
        "[]",
        "{",
        "[" * 100_000,
        b"\xff\x00",
        json.dumps({"who": 1, "since": "soon", "until": "2026-01-01", "survives_s": "45"}),
        json.dumps({"survives_s": True, "paused": {"orders": ["1", -1, True, None], "a": 3}}),
        json.dumps({"survives_s": 1e300, "paused": []}),
    ],
)
def test_what_is_no_note_is_not_known(text: str | bytes | None) -> None:
    """Anybody may write anything there: what is not as we write it is left out."""
    assert (HoldNote(), ()) == read_note(text)


def test_half_a_character_is_replaced() -> None:
    """What JSON may name and nothing can write does not get any further."""
    read = read_note('{"who": "a\\ud800b", "paused": {"t\\udfff": [1]}}')

    assert ("a?b", (TopicPartition("t?", 1),)) == (read.note.who, read.paused)


def test_the_rest_of_a_note_is_read_where_one_part_is_nonsense() -> None:
    """One bad field costs that field."""
    told = json.loads(write_note(HoldNote("ana", "desk-1", NOW), [TopicPartition("orders", 1)]))

    read = read_note(json.dumps(told | {"since": "?"}))

    assert HoldNote("ana", "desk-1") == read.note
    assert (TopicPartition("orders", 1),) == read.paused
