"""Rows of facts for the expiry rules, with times in seconds from an instant."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd

T0 = datetime(2026, 3, 1, tzinfo=UTC)
TIMES = ("committed_at", "expire_at", "empty_since", "seen_since")
TYPES = {
    **dict.fromkeys(TIMES, "datetime64[ms, UTC]"),
    **dict.fromkeys(("subscribed", "pending"), "boolean"),
    **dict.fromkeys(("committed", "retention_s", "check_interval_s"), "Int64"),
}
# A simple group on a broker that keeps offsets for a minute and looks every second.
FACTS: dict[str, Any] = {
    "cluster": "eu",
    "group": "g",
    "topic": "t",
    "partition": 0,
    "committed": 7,
    "type": "simple",
    "state": "Empty",
    "protocol_type": None,
    "subscribed": False,
    "unreadable": "",
    "pending": False,
    "log_problem": "",
    "source": "offsets topic",
    "committed_at": 0,
    "expire_at": None,
    "empty_since": None,
    "seen_since": None,
    "retention_s": 60,
    "check_interval_s": 1,
}


def at(seconds: float | None) -> datetime | None:
    """Return the instant that many seconds after the first one."""
    return None if seconds is None else T0 + timedelta(seconds=seconds)


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    """Return rows of facts: what each says, and for all else a simple group."""
    told = [{k: at(v) if k in TIMES else v for k, v in {**FACTS, **row}.items()} for row in rows]
    return pd.DataFrame(told, columns=[*FACTS], dtype="object").astype(TYPES)


CLASSIC = {"type": "classic", "state": "Stable", "protocol_type": "consumer"}
KIP848 = {"type": "consumer", "state": "Stable", "protocol_type": "consumer"}
STREAMS = {"type": "streams", "state": "Stable", "protocol_type": "streams"}
CONNECT = {"type": "classic", "state": "Stable", "protocol_type": "connect"}
READS = {"subscribed": True}
EMPTY = {"state": "Empty"}
