"""Paused partitions of all groups, and all partitions of one group for the pause board."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from toolkit.model import Member, Snapshot
from toolkit.model.rows import Kind, Rows

if TYPE_CHECKING:
    import pandas as pd

PAUSED_COLUMNS: dict[str, Kind] = {
    "cluster": "text",
    "group": "name",
    "topic": "text",
    "partition": "number",
    "paused_by": "text",
    "host": "text",
    "paused_since": "time",
    "paused_until": "time",
    "reason": "text",
    "survives_keeper_s": "duration",
    "hold_status": "text",
}

TILE_COLUMNS = (
    *("topic", "partition", "state", "lag", "committed", "owner"),
    *("no_progress", "paused_by", "host", "paused_until", "reason"),
)
LAGGING_FROM = 20  # offsets; fewer are normal in a busy partition


class HoldOwnership(StrEnum):
    """Whose hold it is, and whether its keeper is running."""

    HELD = "held"  # a running keeper of this user maintains it
    FOREIGN = "foreign"  # of another user or host, or unknown
    ORPHANED = "orphaned"  # the keeper is gone: it ends at the session timeout


def paused_rows(
    snapshot: Snapshot,
    *,
    by: tuple[str, str] | None = None,
    groups_with_keeper: Collection[str] = (),
) -> Rows:
    """
    Return a row for each paused partition of each group, as reported by the brokers.

    `by` is this user and host; `groups_with_keeper` are the groups for which a keeper of this user
    is running. Columns: cluster, group, topic, partition, paused_by, host, paused_since,
    paused_until (UTC, None if unknown), reason, survives_keeper_s (how long it lasts without its
    keeper), hold_status (see `HoldOwnership`).
    """
    rows = [
        (
            *(snapshot.cluster, group.group_id, *partition),
            *_holder_cells(member),
            str(_ownership(member, by, has_live_keeper=group.group_id in groups_with_keeper)),
        )
        for group in snapshot.groups
        for partition, member in sorted(group.paused.items())
    ]
    return Rows(PAUSED_COLUMNS, rows)


def _holder_cells(member: Member) -> tuple[Any, ...]:
    """Return user, host, start, end and reason; client id and host if there is no note."""
    note = member.hold_note
    if note is None or not note.who:
        return member.client_id, member.host, None, None, "", None
    return note.who, note.host, note.since, note.until, note.reason, note.survives_s


def _ownership(
    member: Member, by: tuple[str, str] | None, *, has_live_keeper: bool
) -> HoldOwnership:
    note = member.hold_note
    if note is None or (note.who, note.host) != by:
        return HoldOwnership.FOREIGN
    return HoldOwnership.HELD if has_live_keeper else HoldOwnership.ORPHANED


class TileState(StrEnum):
    """State of a partition."""

    FLOWING = "flowing"  # caught up, or a small lag with progress
    LAGGING = "lagging"  # large lag, or lag without progress
    PAUSED = "paused"  # held by an offsetbook member
    UNKNOWN = "unknown"  # no committed offset, or its log or the members could not be read


def tiles_frame(
    offsets: pd.DataFrame,
    paused: pd.DataFrame,
    *,
    earlier: pd.DataFrame | None = None,
    knows_holds: bool = True,
) -> pd.DataFrame:
    """
    One row for each partition of a group that is committed, owned or held, in order.

    Takes `with_lag` and `paused_rows` of one group as frames, and this frame from an earlier
    sample; `knows_holds` says whether the members could be read, and with them all that is paused.
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
    state = state.mask(rows["lag"].isna() | (not knows_holds), TileState.UNKNOWN).mask(
        rows["paused_by"].notna(), TileState.PAUSED
    )
    tiles = rows.assign(state=state.map(str), no_progress=still.astype("bool"))
    return tiles.sort_values(keys)[list(TILE_COLUMNS)].reset_index(drop=True)
