"""Parse reset modes from command line options and notebook parameters."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from toolkit.errors import UsageError
from toolkit.model.times import parse_duration, parse_time
from toolkit.planning.changes.datetime_target import PastEnd, ToDatetime
from toolkit.planning.changes.targets import (
    ClearMetadata,
    ShiftBy,
    Target,
    ToCurrent,
    ToEarliest,
    ToLatest,
    ToOffset,
)

WITHOUT_VALUE: dict[str, Callable[[], Target]] = {
    "to-earliest": ToEarliest,
    "to-latest": ToLatest,
    "to-current": ToCurrent,
    "clear-metadata": ClearMetadata,
}
WITH_NUMBER: dict[str, Callable[[int], Target]] = {"to-offset": ToOffset, "shift-by": ShiftBy}
BY_TIME = ("to-datetime", "by-duration")
MODES = (*WITHOUT_VALUE, *WITH_NUMBER, *BY_TIME)
NUMBER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def parse_target(
    mode: str, value: str = "", *, now: datetime, past_end: str = PastEnd.KEEP
) -> Target:
    """
    Return the target of a mode: `to-offset 20`, `by-duration P1D`, `to-earliest`.

    A duration counts back from `now`; `past_end` handles a partition without a record at or after
    the time. Raises UsageError for an unknown mode or an invalid value.
    """
    if mode in WITHOUT_VALUE:
        if value:
            raise UsageError(f"{mode} takes no value, but was given {value!r}", hint="remove it")
        return WITHOUT_VALUE[mode]()
    if mode in WITH_NUMBER:
        if not NUMBER.fullmatch(value):
            raise UsageError(f"{mode} needs a whole number, not {value!r}", hint=f"write {mode} 10")
        return WITH_NUMBER[mode](int(value))
    if mode in BY_TIME:
        return _by_time(mode, value, now, past_end)
    raise UsageError(f"unknown mode {mode!r}", hint=f"use one of: {', '.join(MODES)}")


def _by_time(mode: str, value: str, now: datetime, past_end: str) -> Target:
    if past_end not in list(PastEnd):
        hint = f"use one of: {', '.join(PastEnd)}"
        raise UsageError(f"invalid past-end value {past_end!r}", hint=hint)
    if mode == "to-datetime":
        instant = parse_time(value)
        return ToDatetime(instant.at, PastEnd(past_end), f"to-datetime {instant}")
    # To the second: a plan made again a moment later should be the same plan.
    at = (now - parse_duration(value)).replace(microsecond=0)
    # Without the time, which each change says: the same request has the same fingerprint.
    return ToDatetime(at, PastEnd(past_end), f"by-duration {value}")
