"""
Evaluating committed offsets: lag, status and expiry of each; no broker, the facts are made up.

Each size is measured in a fresh process, in CPU time (nothing is waited for), in the steps of the
fleet job:

    lag      with_lag
    status   with_status, from ten recent commits and an earlier log end offset of each
    expiry   with_expiry
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from fresh_runs import Steps, main

from toolkit.planning.expiry.expiry_forecast import with_expiry
from toolkit.planning.lag.lag import with_lag
from toolkit.planning.lag.status import with_status

RECENT, COMMITS_PER_GROUP = 10, 1_000
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
STEPS = {
    "lag": with_lag,
    "status": partial(with_status, now=NOON),
    "expiry": partial(with_expiry, now=NOON),
}
DAY_MS = 86_400_000
# Of each ten groups: three caught up, three behind and committing, one silent, three empty.
CAUGHT_UP, BEHIND, SILENT = 3, 6, 7


def check(judged: pd.DataFrame, size: int) -> None:
    found = judged["status"].value_counts(dropna=False).to_dict()
    if len(judged) != size or not {"OK", "STOP"} < found.keys():
        sys.exit(f"not what was to be found: {found}")


def made_up(size: int) -> pd.DataFrame:
    """Return commits of groups of every kind, as the fleet job has them before it judges."""
    rows = np.arange(size)
    kind = rows // COMMITS_PER_GROUP % 10
    is_empty = kind >= SILENT
    ends = 1_000_000 + rows
    lag = np.where(kind < CAUGHT_UP, 0, 1 + rows % 5_000)
    age_ms = np.where(is_empty, 3 * DAY_MS, np.where(kind < BEHIND, rows % 5_000, DAY_MS // 4))
    last_ms = int(NOON.timestamp() * 1_000) - age_ms
    committed = ends - lag
    return pd.DataFrame(
        {
            "cluster": "benchmark",
            "group": [f"group-{number:05}" for number in (rows // COMMITS_PER_GROUP).tolist()],
            "topic": [f"topic-{number:03}" for number in (rows % 100).tolist()],
            "partition": pd.array(rows % 97, "Int64"),
            "source": "offsets topic",
            "type": "classic",
            "state": np.where(is_empty, "Empty", "Stable").astype(object),
            "protocol_type": "consumer",
            "members": pd.array(np.where(is_empty, 0, 3), "Int64"),
            "empty_since": _times(np.where(is_empty, last_ms + 60_000, 0)),
            "subscribed": pd.array(np.where(rows % 50 == 0, False, ~is_empty), "boolean"),
            "unreadable": "",
            "pending": pd.array(np.zeros(size, bool), "boolean"),
            "committed": pd.array(committed, "Int64"),
            "committed_at": _times(last_ms),
            "expire_at": _times(np.zeros(size, int)),
            "recent_at": _lists(last_ms, 5_000),
            "recent_offset": _lists(committed, 100),
            "max_committed": pd.array(committed, "Int64"),
            "max_committed_at": _times(last_ms),
            "log_start": pd.array(np.zeros(size, int), "Int64"),
            "log_end": pd.array(ends, "Int64"),
            "last_stable": pd.array(ends, "Int64"),
            "log_problem": "",
            "past_at": list(np.full((size, 1), np.datetime64("2026-03-01T11:59:30", "ms"))),
            "past_end": list((ends - rows % 3_000)[:, None]),
            "time_lag_s": pd.array([pd.NA] * size, "Float64"),
            "time_lag_error_s": pd.array([pd.NA] * size, "Float64"),
            "time_lag_method": None,
            "hold": None,
            "hold_unread": None,
            "skew_s": pd.array([pd.NA] * size, "Float64"),
            "retention_s": pd.array(np.full(size, 7 * 86_400), "Int64"),
            "check_interval_s": pd.array(np.full(size, 600), "Int64"),
        }
    )


def _times(ms: npt.NDArray[np.int64]) -> pd.Series[pd.Timestamp]:
    at = pd.Series(ms.astype("datetime64[ms]")).dt.tz_localize("UTC")
    return at.mask(ms == 0)


def _lists(last: npt.NDArray[np.int64], step: int) -> pd.Series[list[object]]:
    """Return the recent values of each row, oldest first, as Arrow gives them to pandas."""
    values = (last[:, None] - step * np.arange(RECENT - 1, -1, -1)).ravel()
    kind = pa.timestamp("ms", "UTC") if step == 5_000 else pa.int64()
    places = pa.array(np.arange(0, len(values) + 1, RECENT), pa.int32())
    lists: pd.Series[list[object]] = pa.ListArray.from_arrays(
        places, pa.array(values).cast(kind)
    ).to_pandas()
    return lists


if __name__ == "__main__":
    main(Steps(__file__, __doc__, "commits", made_up, STEPS, check))
