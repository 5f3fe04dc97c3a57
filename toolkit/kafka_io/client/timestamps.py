"""Kafka's milliseconds since 1970, turned into times and back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)
LAST_MS = (datetime.max.replace(tzinfo=UTC) - EPOCH) // MILLISECOND


def from_ms(timestamp_ms: int) -> datetime | None:
    """Return the time; None for Kafka's -1, and for what no calendar has: clients may choose it."""
    try:
        return EPOCH + timestamp_ms * MILLISECOND if timestamp_ms >= 0 else None
    except OverflowError:
        return None


def to_ms(at: datetime) -> int:
    """
    Return the first millisecond at or after an aware time, and 0 for any time before 1970.

    Negative numbers have special meanings in requests.
    """
    return max(0, -((EPOCH - at) // MILLISECOND))
