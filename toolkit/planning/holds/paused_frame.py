"""Paused partitions of all groups as a frame."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from toolkit.model import Snapshot
from toolkit.planning.holds.paused_rows import PAUSED_COLUMNS, paused_rows


def paused_frame(
    snapshot: Snapshot, *, by: tuple[str, str] | None = None, kept: Collection[str] = ()
) -> pd.DataFrame:
    """
    Return `paused_rows` as a frame.

    partition is Int64, survives_keeper_s Float64; unknown times are null.
    """
    rows = list(paused_rows(snapshot, by=by, kept=kept).rows)
    frame = pd.DataFrame(rows, columns=list(PAUSED_COLUMNS))
    times = "datetime64[ms, UTC]"
    kinds = {"partition": "Int64", "survives_keeper_s": "Float64"}
    return frame.astype({**kinds, "paused_since": times, "paused_until": times})
