"""Partitions with commits, as the rules get them, for tests of status and trend."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
from frame_rows import ROW, typed_frame

from toolkit.planning.lag.lag import with_lag

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)

# A partition of a live classic group, without commits.
FACTS: dict[str, Any] = {
    **ROW,
    "type": "classic",
    "state": "Stable",
    "protocol_type": "consumer",
    "members": 1,
    "subscribed": True,
    "committed": None,
    **dict.fromkeys(("recent_at", "recent_offset", "max_committed", "max_committed_at")),
    "log_start": 0,
    **dict.fromkeys(("log_end", "last_stable", "past_at", "past_end", "skew_s")),
    **dict.fromkeys(("time_lag_s", "time_lag_error_s", "time_lag_method", "hold", "hold_unread")),
}


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def commits(*series: tuple[float, int]) -> dict[str, Any]:
    """Return the facts about commits: (seconds ago, offset), the oldest first."""
    if not series:
        return {}
    highest = max(offset for _, offset in series)
    return {
        "committed": series[-1][1],
        "committed_at": ago(series[-1][0]),
        "recent_at": [ago(age) for age, _ in series],
        "recent_offset": [offset for _, offset in series],
        "max_committed": highest,
        "max_committed_at": next(ago(age) for age, offset in series if offset == highest),
    }


def steps(
    *, every_s: float, number: int = 10, last_s: float = 1, offset: int = 1000, by: int = 0
) -> dict[str, Any]:
    """Return the facts about commits at regular times, each `by` further, up to `offset`."""
    ages = [last_s + every_s * back for back in range(number - 1, -1, -1)]
    return commits(
        *(
            (age, offset - by * back)
            for age, back in zip(ages, range(number - 1, -1, -1), strict=True)
        )
    )


def frame(rows: Sequence[dict[str, Any]]) -> pd.DataFrame:
    """
    Return partitions with lag; what a row does not say is usual for a live group.

    `earlier_at` and `earlier_end` are a single earlier log end, where both are known.
    """
    known = ({"last_stable": row.get("log_end"), **_past(row), **row} for row in rows)
    return with_lag(typed_frame(known, FACTS))


def _past(row: dict[str, Any]) -> dict[str, Any]:
    at, end = row.get("earlier_at"), row.get("earlier_end")
    return {} if at is None or end is None else {"past_at": [at], "past_end": [end]}
