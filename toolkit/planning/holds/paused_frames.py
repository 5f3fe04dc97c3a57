"""Frames of paused partitions: those of all groups, and all of one group for the pause board."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING

from toolkit.model import Snapshot
from toolkit.planning.frames.frame_of import UTC_TIME, frame_of
from toolkit.planning.holds.paused_rows import paused_rows

if TYPE_CHECKING:
    import pandas as pd

TILE_COLUMNS = (
    *("topic", "partition", "state", "lag", "committed", "owner"),
    *("no_progress", "paused_by", "host", "paused_until", "reason"),
)
LAGGING_FROM = 20  # offsets; fewer are normal in a busy partition


def paused_frame(
    snapshot: Snapshot,
    *,
    by: tuple[str, str] | None = None,
    groups_with_keeper: Collection[str] = (),
) -> pd.DataFrame:
    """
    Return `paused_rows` as a frame.

    partition is Int64, survives_keeper_s Float64; unknown times are null.
    """
    table = paused_rows(snapshot, by=by, groups_with_keeper=groups_with_keeper)
    kinds = {"partition": "Int64", "survives_keeper_s": "Float64"}
    return frame_of(table, {**kinds, "paused_since": UTC_TIME, "paused_until": UTC_TIME})


class TileState(StrEnum):
    """State of a partition."""

    FLOWING = "flowing"  # caught up, or a small lag with progress
    LAGGING = "lagging"  # large lag, or lag without progress
    PAUSED = "paused"  # held by an offsetbook member
    UNKNOWN = "unknown"  # no committed offset, or its log could not be read


def tiles_frame(
    offsets: pd.DataFrame, paused: pd.DataFrame, *, earlier: pd.DataFrame | None = None
) -> pd.DataFrame:
    """
    One row for each partition of a group that is committed, owned or held, in order.

    Takes `with_lag` and `paused_frame` of one group, and this frame from an earlier sample.
    Columns: topic, partition (Int64), state (see `TileState`), lag, committed (Int64), owner,
    no_progress (lag in the earlier sample, and the same committed offset), paused_by, host,
    paused_until (UTC), reason (of a hold; null without one).
    """
    keys = ["topic", "partition"]
    rows = offsets[[*keys, "lag", "committed", "owner"]].astype({"partition": "Int64"})
    holds = paused[[*keys, "paused_by", "host", "paused_until", "reason"]]
    rows = rows.merge(holds, on=keys, how="outer")
    rows = rows.assign(state=str(TileState.FLOWING), no_progress=False)
    still, state = rows["no_progress"], rows["state"]
    if earlier is not None:
        before = earlier[[*keys, "committed", "lag"]]
        then = rows[keys].merge(before, on=keys, how="left")
        waits = (then["lag"] > 0) & (rows["lag"] > 0)
        still = (waits & (then["committed"] == rows["committed"])).fillna(value=False)
    state = state.mask(still | (rows["lag"] >= LAGGING_FROM).fillna(value=False), TileState.LAGGING)
    state = state.mask(rows["lag"].isna(), TileState.UNKNOWN).mask(
        rows["paused_by"].notna(), TileState.PAUSED
    )
    tiles = rows.assign(state=state.map(str), no_progress=still.astype("bool"))
    return tiles.sort_values(keys)[list(TILE_COLUMNS)].reset_index(drop=True)
