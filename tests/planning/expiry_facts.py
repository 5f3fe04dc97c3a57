"""Rows of facts for the expiry rules, with times in seconds from an instant."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
from frame_rows import ROW, TIMES, typed_frame

from toolkit.planning.expiry.expiry_forecast import ExpiryForecast, select_expiring, with_expiry

HOUR_S = 3600
T0 = datetime(2026, 3, 1, tzinfo=UTC)
# A simple group on a broker that keeps offsets for a minute and looks every second.
FACTS: dict[str, Any] = {
    **ROW,
    "committed_at": 0,
    "retention_s": 60,
    "check_interval_s": 1,
}


def at(seconds: float | None) -> datetime | None:
    """Return the instant that many seconds after the first one."""
    return None if seconds is None else T0 + timedelta(seconds=seconds)


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    """Return rows of facts: what each says, and for all else a simple group."""
    usual = {name: at(value) if name in TIMES else value for name, value in FACTS.items()}
    moved = ({k: at(v) if k in TIMES else v for k, v in row.items()} for row in rows)
    return typed_frame(moved, usual)


def forecast(*rows: dict[str, Any], now_s: float = 40) -> pd.DataFrame:
    """Return the forecast of rows that are told apart by their partition."""
    numbered = [{"partition": number, **row} for number, row in enumerate(rows)]
    return with_expiry(frame(*numbered), now=T0 + timedelta(seconds=now_s))


def forecast_of_days(*rows: dict[str, Any]) -> ExpiryForecast:
    """Return what expires after an hour, of offsets that are kept for a day, and is at risk."""
    long = [{"retention_s": 24 * HOUR_S, "check_interval_s": 600, **row} for row in rows]
    now = T0 + timedelta(seconds=HOUR_S)
    return select_expiring(forecast(*long, now_s=HOUR_S), now=now, within_s=48 * HOUR_S)


CLASSIC = {"type": "classic", "state": "Stable", "protocol_type": "consumer"}
KIP848 = {"type": "consumer", "state": "Stable", "protocol_type": "consumer"}
STREAMS = {"type": "streams", "state": "Stable", "protocol_type": "streams"}
CONNECT = {"type": "classic", "state": "Stable", "protocol_type": "connect"}
READS = {"subscribed": True}
EMPTY = {"state": "Empty"}
