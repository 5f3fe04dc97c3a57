"""What is listed as paused, and how each partition of a group stands in one word."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pandas as pd
import pytest
from facts import NOON
from held import ALICE, NOTE, facts, group, holder, reader
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import HoldNote
from toolkit.planning.holds.paused_frames import (
    LAGGING_FROM,
    TILE_COLUMNS,
    TileState,
    paused_frame,
    tiles_frame,
)
from toolkit.planning.holds.paused_rows import PAUSED_COLUMNS

HOUR = timedelta(hours=1)
ABOUT = facts(
    group(
        reader("a", 0),
        holder(3, 1, note=replace(NOTE, until=NOON + HOUR, reason="an incident")),
        holder(2, note=HoldNote("bob", "elsewhere"), name="!i"),
    )
)


def test_one_row_for_each_paused_partition() -> None:
    """In order, with all that its holder says of itself."""
    frame = paused_frame(ABOUT, by=ALICE, groups_with_keeper={"g"})

    assert list(PAUSED_COLUMNS) == list(frame.columns)
    assert [1, 2, 3] == frame["partition"].tolist()
    row = frame.iloc[0]
    told = (
        row["paused_by"],
        row["host"],
        row["paused_since"],
        row["paused_until"],
        row["reason"],
        row["survives_keeper_s"],
    )
    assert (*ALICE, NOON, NOON + HOUR, "an incident", 45.0) == told
    assert frame.loc[1, ["paused_since", "paused_until", "survives_keeper_s"]].isna().all()


@pytest.mark.parametrize(
    ("by", "kept", "how"),
    [
        (ALICE, {"g"}, ["held", "foreign", "held"]),
        (ALICE, {"h"}, ["orphaned", "foreign", "orphaned"]),
        (("alice", "another operator"), {"g"}, ["foreign"] * 3),
        (None, {"g"}, ["foreign"] * 3),
    ],
)
def test_how_it_is_held(by: tuple[str, str] | None, kept: set[str], how: list[str]) -> None:
    """Ours is held while a process keeps it up, and orphaned without; others' are foreign."""
    assert how == paused_frame(ABOUT, by=by, groups_with_keeper=kept)["hold_status"].tolist()


def test_a_hold_without_a_note_is_shown_by_its_host() -> None:
    """Nobody knows whose it is, and it is shown all the same."""
    frame = paused_frame(
        facts(group(reader("a", 0), holder(1, note=None))), by=ALICE, groups_with_keeper={"g"}
    )
    row = frame.iloc[0]
    assert ("offsetbook-hold", "/10.0.0.9", "foreign") == (
        row["paused_by"],
        row["host"],
        row["hold_status"],
    )


def test_nothing_paused_is_an_empty_frame() -> None:
    """With the same columns and types."""
    frame = paused_frame(facts(group()))
    assert (0, list(PAUSED_COLUMNS)) == (len(frame), list(frame.columns))
    assert isinstance(frame["paused_since"].dtype, pd.DatetimeTZDtype)


NO_HOLDS = pd.DataFrame(columns=list(PAUSED_COLUMNS)).astype({"partition": "Int64"})
lags = st.none() | st.integers(-5, 3 * LAGGING_FROM)


def offsets(found: list[int | None], committed: int = 7) -> pd.DataFrame:
    """Return what `with_lag` tells of partitions with these lags."""
    count = len(found)
    return pd.DataFrame(
        {
            "topic": "orders",
            "partition": range(count),
            "lag": pd.array(found, "Int64"),
            "committed": pd.array([None if lag is None else committed for lag in found], "Int64"),
            "owner": "",
        }
    )


def holds(*numbers: int) -> pd.DataFrame:
    """Return what `paused_frame` tells of held partitions."""
    rows = [
        {"topic": "orders", "partition": n, "paused_by": "ann", "reason": "why"} for n in numbers
    ]
    return pd.concat([NO_HOLDS, pd.DataFrame(rows)], ignore_index=True).astype(
        {"partition": "Int64"}
    )


@given(st.lists(lags, min_size=1, max_size=8), st.sets(st.integers(0, 9)))
def test_each_partition_has_one_word(found: list[int | None], held: set[int]) -> None:
    """Held goes before all; what is not known is never called flowing or lagging."""
    frame = tiles_frame(offsets(found), holds(*held) if held else NO_HOLDS)

    assert [*TILE_COLUMNS] == [*frame.columns]
    states = dict(zip(frame["partition"], frame["state"], strict=True))
    assert set(range(len(found))) | held == set(states)
    for number, state in states.items():
        lag = found[number] if number < len(found) else None
        if number in held:
            assert state == TileState.PAUSED
        elif lag is None:
            assert state == TileState.UNKNOWN
        else:
            assert state == (TileState.LAGGING if lag >= LAGGING_FROM else TileState.FLOWING)


def test_a_commit_that_stands_still_lags() -> None:
    """A few records that wait at two looks at the same commit are not on their way."""
    first = tiles_frame(offsets([2, 2, 0, None]), NO_HOLDS)
    assert [TileState.FLOWING] * 3 + [TileState.UNKNOWN] == [*first["state"]]

    later = tiles_frame(offsets([3, 3, 1, None]), NO_HOLDS, earlier=first)
    moved = tiles_frame(offsets([3, 3, 1, None], committed=9), NO_HOLDS, earlier=first)

    assert [True, True, False, False] == [*later["no_progress"]]
    assert [TileState.LAGGING, TileState.LAGGING, TileState.FLOWING, TileState.UNKNOWN] == [
        *later["state"]
    ]
    assert not moved["no_progress"].any()
