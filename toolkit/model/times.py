"""
Parse and format times and durations.

A time is `2026-03-01`, `2026-03-01 10:00`, `2026-03-01T10:00:00.000+02:00` or similar; Kafka's tool
accepts only the longest form. Without an offset it is UTC, which is shown. A duration is ISO 8601,
`P1D` or `PT12H30M`, or short, `90m`, `2h30m`, `30d`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone

from toolkit.errors import UsageError

TIME = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:(?:[Tt]|\ +)(?P<time>\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?"
    r"\ *(?P<zone>[Zz]|UTC|[+-]\d{2}(?::?\d{2})?)?",
    re.ASCII,
)
ZONE_NAME = re.compile(r"[\d.]\s*\[?[A-Za-z]{2,}[A-Za-z_/+-]*\]?$")
TIME_GRAMMAR = "write 2026-03-01 10:00+02:00, or with Z for UTC"

# Eight digits of each unit are within the range of timedelta.
UNITS = ("weeks", "days", "hours", "minutes", "seconds")
ISO = re.compile(
    r"P(?:(\d{1,8})W)?(?:(\d{1,8})D)?(?:T(?=\d)(?:(\d{1,8})H)?(?:(\d{1,8})M)?(?:(\d{1,8})S)?)?",
    re.ASCII,
)
SHORT = re.compile(
    r"(?:(\d{1,8})w)?(?:(\d{1,8})d)?(?:(\d{1,8})h)?(?:(\d{1,8})m)?(?:(\d{1,8})s)?", re.ASCII
)
MONTHS_OR_YEARS = re.compile(r"P[^T]*\d[YM].*|\d+(mo|y|M|Y)\w*")
DURATION_GRAMMAR = "write 30s, 90m, 12h, 30d or PT12H30M"
LONGEST = timedelta(days=36_500)


@dataclass(frozen=True, slots=True)
class Instant:
    """A time as an aware UTC datetime, and as given."""

    at: datetime
    written: str
    has_zone: bool

    def __str__(self) -> str:
        """Return both forms: `10:00+02:00 = 08:00 UTC`."""
        note = "" if self.has_zone else " (no zone given, so UTC)"
        return f"{self.written}{note} = {self.at.replace(tzinfo=None).isoformat(' ')} UTC"


def parse_time(text: str) -> Instant:
    """
    Parse a time; without an offset it is UTC. Raises UsageError if invalid.

    Zone names are rejected: `CET` or `Europe/Paris` are ambiguous for one hour every year.
    """
    written = text.strip()
    match = TIME.fullmatch(written)
    if not match:
        if ZONE_NAME.search(written):
            hint = "use an offset such as +01:00, or Z for UTC"
            raise UsageError(f"time zone names are not supported: {text!r}", hint=hint)
        raise UsageError(f"{text!r} is not a time", hint=TIME_GRAMMAR)
    try:
        local = _local(match["date"], match["time"] or "00:00")
        at = local.replace(tzinfo=_zone(match["zone"])).astimezone(UTC)
    except (ValueError, OverflowError) as exc:
        raise UsageError(f"{text!r} is not a time: {exc}", hint=TIME_GRAMMAR) from exc
    return Instant(at, written, match["zone"] is not None)


def _local(date: str, time: str) -> datetime:
    if time.startswith("24"):  # for Python 3.14 it is the next day, for older ones an error
        raise ValueError("hour must be in 0..23")
    return datetime.fromisoformat(f"{date}T{time}")


def _zone(written: str | None) -> timezone:
    if written is None or written in {"Z", "z", "UTC"}:
        return UTC
    digits = written[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    # No place is further from UTC, so more is an error.
    if hours > 18 or minutes > 59:
        raise ValueError(f"invalid UTC offset {written}")
    away = timedelta(hours=hours, minutes=minutes)
    return timezone(-away if written.startswith("-") else away)


def parse_duration(text: str) -> timedelta:
    """
    Parse a positive duration. Raises UsageError if invalid.

    Months and years are rejected because they have no fixed length.
    """
    written = text.strip()
    if re.search(r"^[+-]|[PT][+-]|[+-]\d", written):
        hint = "use a positive duration, such as P1D"
        raise UsageError(f"the duration {text!r} has a sign", hint=hint)
    match = ISO.fullmatch(written) or SHORT.fullmatch(written)
    if not match or not any(match.groups()):
        if MONTHS_OR_YEARS.fullmatch(written):
            hint = "use days, such as P30D or 30d"
            raise UsageError(
                f"duration {text!r} uses months or years, which have no fixed length", hint=hint
            )
        raise UsageError(f"{text!r} is not a duration", hint=DURATION_GRAMMAR)
    amounts = (int(part or 0) for part in match.groups())
    length = timedelta(**dict(zip(UNITS, amounts, strict=True)))
    if not length:
        raise UsageError(f"the duration {text!r} is zero", hint=DURATION_GRAMMAR)
    if length > LONGEST:
        raise UsageError(f"the duration {text!r} is longer than {LONGEST.days:,} days")
    return length


def format_duration(length: timedelta | float) -> str:
    """
    Format a duration, or a number of seconds: `45 s`, `1 h 30 min`, `3 d 4 h`.

    The two largest units; below ten seconds one decimal, below one second milliseconds.
    """
    size_s = length.total_seconds() if isinstance(length, timedelta) else length
    sign, size_s = ("-", -size_s) if size_s < 0 else ("", size_s)
    size_ms = round(size_s * 1000)
    if size_ms < 1000:
        return f"{sign}{size_ms} ms" if size_ms else "0 s"
    if size_ms < 10_000:
        return f"{sign}{round(size_ms / 1000, 1):g} s"
    return sign + " ".join(filter(None, _units(size_s, ("d", "h", "min", "s"), " ")[:2]))


def short_duration(length: timedelta) -> str:
    """Format a duration, to the second, for `parse_duration`: 2h30m."""
    return "".join(_units(max(1, length.total_seconds()), ("d", "h", "m", "s"), ""))


def _units(size_s: float, names: Sequence[str], between: str) -> list[str]:
    """Return a duration in units, largest first."""
    seconds, parts = round(size_s), list[str]()
    for name, unit_s in zip(names, (86_400, 3600, 60, 1), strict=True):
        count, seconds = divmod(seconds, unit_s)
        if count or parts:
            parts.append(f"{count}{between}{name}" if count else "")
    return parts
