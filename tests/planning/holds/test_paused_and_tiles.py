"""What is listed as paused, and how each partition of a group stands in one word."""

from dataclasses import replace
from datetime import timedelta

import pandas as pd
import pytest
from facts import NOON
from held import ALICE, NOTE, facts, group, holder, reader
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import HoldNote
from toolkit.planning.frames.frame_of import frame_of
from toolkit.planning.holds.paused_partitions import (
    LAGGING_FROM,
    PAUSED_COLUMNS,
    TILE_COLUMNS,
    TileState,
    paused_rows,
    tiles_frame,
)

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
    frame = frame_of(paused_rows(ABOUT, by=ALICE, groups_with_keeper={"g"}))

    assert list(PAUSED_COLUMNS) == list(frame.columns)
    assert [1, 2, 3] == frame["partition"].tolist()
    times = ["paused_since", "paused_until", "survives_keeper_s"]
    assert [*ALICE, "an incident"] == frame.loc[0, ["paused_by", "host", "reason"]].tolist()
    assert [NOON, NOON + HOUR, 45.0] == frame.loc[0, times].tolist()
    assert frame.loc[1, times].isna().all()


@pytest.mark.parametrize(
    ("by", "kept", "how"),
    [
        (ALICE, {"g"}, ["held", "foreign", "held"]),
        (ALICE, {"h"}, ["orphaned", "foreign", "orphaned"]),
        (("alice", "another operator"), {"g"}, ["foreign"] * 3),
        (None, {"g"}, ["foreign"] * 3),
    ],
)
def test_the_state_of_a_hold(by: tuple[str, str] | None, kept: set[str], how: list[str]) -> None:
    """One's own is held with a keeper and orphaned without; others' are foreign."""
    frame = frame_of(paused_rows(ABOUT, by=by, groups_with_keeper=kept))

    assert how == frame["hold_status"].tolist()


def test_a_hold_without_a_note_is_shown_by_its_host() -> None:
    """Its operator is unknown, and it is shown all the same."""
    unsigned = facts(group(reader("a", 0), holder(1, note=None)))
    frame = frame_of(paused_rows(unsigned, by=ALICE, groups_with_keeper={"g"}))
    found = frame.loc[0, ["paused_by", "host", "hold_status"]].tolist()

    assert ["offsetbook-hold", "/10.0.0.9", "foreign"] == found


def test_nothing_paused_is_an_empty_frame() -> None:
    """With the same columns and types."""
    frame = frame_of(paused_rows(facts(group())))
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
    """Return what `paused_rows` tells of held partitions, as a frame."""
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

    def state(number: int) -> TileState:
        lag = found[number] if number < len(found) else None
        if number in held:
            return TileState.PAUSED
        if lag is None:
            return TileState.UNKNOWN
        return TileState.LAGGING if lag >= LAGGING_FROM else TileState.FLOWING

    assert [*TILE_COLUMNS] == [*frame.columns]
    expected = {number: state(number) for number in {*range(len(found)), *held}}
    assert expected == dict(zip(frame["partition"], frame["state"], strict=True))


def test_nothing_flows_for_certain_where_members_are_unread() -> None:
    """What no member was seen to hold may be paused."""
    frame = tiles_frame(offsets([2, 50, None]), holds(0), knows_holds=False)

    assert ["paused", "unknown", "unknown"] == [*frame["state"]]


def test_a_partition_without_progress_lags() -> None:
    """A few records that wait in two samples at one commit are not in flight."""
    first = tiles_frame(offsets([2, 2, 0, None]), NO_HOLDS)
    later = tiles_frame(offsets([3, 3, 1, None]), NO_HOLDS, earlier=first)
    moved = tiles_frame(offsets([3, 3, 1, None], committed=9), NO_HOLDS, earlier=first)

    assert ["flowing", "flowing", "flowing", "unknown"] == [*first["state"]]
    assert ["lagging", "lagging", "flowing", "unknown"] == [*later["state"]]
    assert [True, True, False, False] == [*later["no_progress"]]
    assert not moved["no_progress"].any()
