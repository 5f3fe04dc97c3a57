"""How each partition of a group stands, in one word."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from toolkit.planning.holds.board_tiles import LAGGING_FROM, TILE_COLUMNS, TileState, tiles_frame
from toolkit.planning.holds.paused_rows import PAUSED_COLUMNS

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
