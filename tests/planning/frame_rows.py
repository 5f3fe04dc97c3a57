"""A row of committed offsets as frames hold it: of a simple group, with a value for each column."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

TIMES = ("committed_at", "expire_at", "empty_since")
ROW: dict[str, Any] = {
    "cluster": "eu",
    "group": "g",
    "topic": "t",
    "partition": 0,
    "committed": 7,
    "type": "simple",
    "state": "Empty",
    "protocol_type": None,
    "members": 0,
    "subscribed": False,
    "unreadable": "",
    "pending": False,
    "log_problem": "",
    "source": "offsets topic",
    **dict.fromkeys(("committed_at", "expire_at", "empty_since")),
}
OFFSETS = ("committed", "max_committed", "log_start", "log_end", "last_stable")
TYPES = {
    **dict.fromkeys((*OFFSETS, "partition", "members", "lag"), "Int64"),
    **dict.fromkeys(("retention_s", "check_interval_s"), "Int64"),
    **dict.fromkeys((*TIMES, "max_committed_at"), "datetime64[ms, UTC]"),
    **dict.fromkeys(("subscribed", "pending"), "boolean"),
    **dict.fromkeys(("time_lag_s", "time_lag_error_s", "skew_s"), "Float64"),
}


def typed_frame(rows: Iterable[Mapping[str, Any]], usual: Mapping[str, Any]) -> pd.DataFrame:
    """Return rows in columns of the pipeline's types, with a usual value for what a row lacks."""
    table = pd.DataFrame([{**usual, **row} for row in rows], columns=[*usual], dtype="object")
    return table.astype({name: TYPES[name] for name in usual if name in TYPES})
