"""Partitions with commits, as the rules get them, for tests of status and trend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd

from toolkit.planning.lag.lag import with_lag

NOW = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)

WHOLE = (
    "committed",
    "max_committed",
    "log_start",
    "log_end",
    "last_stable",
    "earlier_end",
    "members",
)
TIMES = ("committed_at", "expire_at", "max_committed_at", "empty_since", "earlier_at")
FLAGS = ("subscribed", "pending")
FACTS: dict[str, Any] = {
    "cluster": "eu",
    "group": "g",
    "topic": "t",
    "partition": 0,
    "source": "offsets topic",
    "type": "classic",
    "state": "Stable",
    "protocol_type": "consumer",
    "members": 1,
    "empty_since": None,
    "subscribed": True,
    "unreadable": "",
    "pending": False,
    "committed": None,
    "committed_at": None,
    "expire_at": None,
    "recent_at": None,
    "recent_offset": None,
    "max_committed": None,
    "max_committed_at": None,
    "log_start": 0,
    "log_end": None,
    "last_stable": None,
    "log_problem": "",
    "earlier_at": None,
    "earlier_end": None,
    "time_lag_s": None,
    "time_lag_error_s": None,
    "time_lag_method": None,
    "hold": None,
    "hold_unread": None,
}


def ago(seconds: float) -> datetime:
    """Return the instant so long before now."""
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
    """Return partitions with lag; what a row does not say is usual for a live group."""
    told = [{"last_stable": row.get("log_end"), **row} for row in rows]
    table = pd.DataFrame([{**FACTS, **row} for row in told], columns=list(FACTS), dtype="object")
    types = {
        **dict.fromkeys(WHOLE, "Int64"),
        **dict.fromkeys(TIMES, "datetime64[ms, UTC]"),
        **dict.fromkeys(FLAGS, "boolean"),
        **dict.fromkeys(("time_lag_s", "time_lag_error_s"), "Float64"),
    }
    return with_lag(table.astype(types))
