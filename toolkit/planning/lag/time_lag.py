"""
Compute time lag: the age of the oldest unread record.

From timestamp look-ups: the time of that record, or of a record before it in the log with a later
timestamp, because it arrived after that one. So producers with old or unordered timestamps do not
increase it. Without look-ups: when the log passed the committed offset, from earlier log end
offsets. If the record was read: its own timestamp.

On an idle topic, a caught-up group has zero time lag; with unread records it grows. It is null in
four cases, of which `time_lag_why` names one: the lag is unknown; the first unread
record has no timestamp (producers send -1 or 0) and none before it has; records have timestamps too
far in the future; and where the record must be read and was not: at the last offset of a log, where
look-ups cannot distinguish a record from a transaction marker, and before the first timestamp. Just
before the log end, all remaining offsets may be markers, so the bound reaches down to 0. Elsewhere
a single marker is within the bound; several in a row, or one after compacted records, count as a
record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from math import ceil
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toolkit.model.offsets import MOST_MARKERS

NOTHING_TO_READ = "nothing to read"
BY_LOOK_UP = "time look-up"
BY_HISTORY = "history"
BY_RECORD = "record"

# Allowed clock difference between a producer and a reader, as in Kerberos.
CLOCKS_APART_MS = 5 * 60 * 1000
# If it is unknown whether there are unread records, but none is older than this, report it.
SOON_MS = 10_000
LAST_OFFSET = np.iinfo(np.int64).max
NEVER_MS = 2**62

NO_LAG = "the lag is unknown"
NO_TIMESTAMP = "the first unread record has no timestamp"
IN_THE_FUTURE = "the timestamps of the records are in the future"
NOT_READ = "the first unread record was not read, and time look-ups cannot date it"

Whole = NDArray[np.int64]
Real = NDArray[np.float64]


class _Span(NamedTuple):
    """Earliest, likely and latest arrival time of the record, per row, in ms; NaN if unknown."""

    earliest: Real
    likely: Real
    latest: Real

    def where(self, chosen: NDArray[np.bool_], other: _Span) -> _Span:
        """Return these rows where chosen, the others elsewhere."""
        return _Span(*(np.where(chosen, a, b) for a, b in zip(self, other, strict=True)))


def with_time_lag(partitions: pd.DataFrame, *, now: datetime) -> pd.DataFrame:
    """
    Add time_lag_s, time_lag_error_s (Float64), time_lag_method and time_lag_why (words above).

    The bound applies to both sides; 0 is exact. The first three are null if unknown, and
    `time_lag_why`, "" otherwise, gives the reason. Reads committed, log_start, log_end and lag;
    and, if present: `points` (lists of tuples asked_at, offset, at: the answers of
    `offset_time_lookup`, of which `points_around` is enough); record_found (boolean) and record_at,
    the result of reading the first unread record (False if there is none; null without a
    timestamp); and for the history `past_ends` (lists of at, log_end). Sources are preferred in the
    order: record, look-up, history.
    """
    now_ms = now.timestamp() * 1000
    behind = (partitions["lag"] > 0).fillna(value=False).to_numpy(bool)
    unread = _first_unread(partitions)
    record, nothing_left = _by_record(partitions)
    look_up = _by_look_up(partitions, unread, now_ms)
    history = _by_history(partitions, unread, now_ms)
    spans = record, look_up, history
    # False for NaN.
    usable = [(span.earliest <= now_ms + CLOCKS_APART_MS) & behind for span in spans]
    is_future = [~np.isnan(span.earliest) for span in spans]
    span = record.where(usable[0], look_up.where(usable[1], history))
    is_known = np.logical_or.reduce(usable)
    idle = (partitions["lag"] == 0).fillna(value=False).to_numpy(bool) | (behind & nothing_left)
    # Times after now are clock differences: no age is negative.
    least, likely, most = (np.maximum(now_ms - at, 0) for at in reversed(span))
    bound = np.maximum(likely - least, most - likely)
    method = np.select(
        [idle, *usable], [NOTHING_TO_READ, BY_RECORD, BY_LOOK_UP, BY_HISTORY], default=""
    ).astype(object)
    method[~(idle | is_known)] = None
    return partitions.assign(
        time_lag_s=_seconds(likely, idle, is_known, partitions.index),
        time_lag_error_s=_seconds(bound, idle, is_known, partitions.index),
        time_lag_method=pd.Series(method, index=partitions.index, dtype="object"),
        time_lag_why=np.select(
            [idle | is_known, ~behind, np.logical_or.reduce(is_future), _is_undated(partitions)],
            ["", NO_LAG, IN_THE_FUTURE, NO_TIMESTAMP],
            default=NOT_READ,
        ),
    )


def earlier_ends(
    points: Iterable[tuple[datetime, int | None, object]],
    log_end: int | None,
    instants: Sequence[datetime],
) -> dict[datetime, int]:
    """
    Return where a log ended at those past instants that were looked up.

    `points` are the answers of one log, as in `with_time_lag`; `log_end` is where it ends now. A
    log without a record at or after an instant already ended there. Records with earlier producer
    timestamps count as if they had existed.
    """
    answers = {asked_at: offset for asked_at, offset, _ in points}
    ends = {at: log_end if answers[at] is None else answers[at] for at in instants if at in answers}
    return {at: end for at, end in ends.items() if end is not None}


def _first_unread(partitions: pd.DataFrame) -> Whole:
    """Return the offset of the next record to read; 0 if unknown."""
    places = [partitions[name].fillna(0).to_numpy(np.int64) for name in ("committed", "log_start")]
    return np.asarray(np.maximum(*places))


def _by_record(partitions: pd.DataFrame) -> tuple[_Span, NDArray[np.bool_]]:
    """Return the result of reading a record, and whether there is none."""
    unknown = np.full(len(partitions), np.nan)
    if "record_found" not in partitions:
        return _Span(unknown, unknown, unknown), np.zeros(len(partitions), bool)
    nothing_left = (~partitions["record_found"].astype("boolean")).fillna(value=False)
    at = _ms(partitions["record_at"]).astype(float)
    at[at == NEVER_MS] = np.nan
    return _Span(at, at, at), nothing_left.to_numpy(bool)


def _is_undated(partitions: pd.DataFrame) -> NDArray[np.bool_]:
    """Return where the first unread record was read and has no timestamp."""
    if "record_found" not in partitions:
        return np.zeros(len(partitions), bool)
    found = partitions["record_found"].astype("boolean").fillna(value=False)
    return np.asarray(found & partitions["record_at"].isna(), bool)


class _Flat(NamedTuple):
    """The points of all rows in one table, row by row and ordered by offset."""

    row: Whole
    timestamp: Whole
    offset: Whole
    time: Whole


def _by_look_up(partitions: pd.DataFrame, unread: Whole, now_ms: float) -> _Span:
    """Bound when the log reached an offset by the look-ups before and after it."""
    count = len(partitions)
    if "points" not in partitions:
        return _Span(*np.full((3, count), np.nan))
    flat = _flat(partitions["points"])
    if not flat.row.size:
        return _Span(*np.full((3, count), np.nan))
    before, after = _neighbours(flat.row, flat.offset, unread)
    low = np.where(before >= 0, flat.time[before], np.nan)
    high = np.where((after >= 0) & (flat.offset[after] != LAST_OFFSET), flat.time[after], np.nan)
    # Nothing comes after it: it is the last record, or the marker of a transaction.
    is_last = (after >= 0) & (flat.offset[after] == LAST_OFFSET) & (now_ms - low <= SOON_MS)
    # This close to the end, all remaining offsets may be markers: treat as a record from now.
    is_near_end = partitions["log_end"].fillna(0).to_numpy(np.int64) - unread <= MOST_MARKERS
    is_near_end &= (after >= 0) & (flat.offset[after] != LAST_OFFSET)
    high = np.where(is_last | is_near_end, np.maximum(now_ms, low), high)
    exact = (before >= 0) & (flat.offset[before] == unread)
    likely = (low + np.clip(flat.timestamp[after] - 1, low, high)) / 2
    likely = np.where(exact | is_last, low, likely)
    unknown = np.isnan(low) | np.isnan(high)
    low, likely, high = (np.where(unknown, np.nan, at) for at in (low, likely, high))
    return _Span(low, likely, high)


def _by_history(partitions: pd.DataFrame, unread: Whole, now_ms: float) -> _Span:
    """Bound when the log passed an offset by its earlier and current log end offsets."""
    count = len(partitions)
    ends = partitions["log_end"].fillna(-1).to_numpy(np.int64)
    rows, at, end = _past_ends(partitions)
    # A log that was longer then was truncated or re-created since: ignore earlier samples.
    recreated_at = np.full(count, -np.inf)
    np.maximum.at(recreated_at, rows[end > ends[rows]], at[end > ends[rows]])
    is_current = at > recreated_at[rows]
    row = np.concatenate((rows[is_current], np.arange(count)))
    at = np.concatenate((at[is_current], np.full(count, now_ms)))
    end = np.concatenate((end[is_current], ends))
    order = np.lexsort((at, end, row))
    row, at, end = row[order], at[order], end[order]
    before, after = _neighbours(row, end, unread)
    is_bounded = (before >= 0) & (after >= 0)
    low, high = np.where(is_bounded, at[before], np.nan), np.where(is_bounded, at[after], np.nan)
    length = np.where(is_bounded, end[after] - end[before], 1)
    done = np.where(is_bounded, unread - end[before], 0)
    return _Span(low, low + (high - low) * (done / length), high)


def _past_ends(partitions: pd.DataFrame) -> tuple[Whole, NDArray[Any], Whole]:
    """Return row, time in ms and offset of all past log ends."""
    rows: list[int] = []
    ends: list[int] = []
    times: list[Any] = []
    for number, past in enumerate(partitions.get("past_ends", ())):
        for one in past if isinstance(past, Collection) else ():
            if one["log_end"] is not None:
                rows.append(number)
                ends.append(one["log_end"])
                times.append(one["at"])
    return np.array(rows, np.int64), _ms(times), np.array(ends, np.int64)


def _neighbours(row: Whole, offset: Whole, unread: Whole) -> tuple[Whole, Whole]:
    """
    Return, per row, the index of its last offset at or before the unread one, and of the next.

    Both are -1 if there is none. `row` and `offset` are in order.
    """
    count = len(unread)
    begin = np.searchsorted(row, np.arange(count), side="left")
    end = np.searchsorted(row, np.arange(count), side="right")
    below = np.bincount(row[offset <= unread[row]], minlength=count)
    before, after = begin + below - 1, begin + below
    return np.where(below > 0, before, -1), np.where(after < end, after, -1)


def _flat(points: pd.Series) -> _Flat:
    lists = [one if isinstance(one, Collection) else () for one in points]
    row = np.repeat(np.arange(len(lists)), [len(one) for one in lists])
    every = [point for one in lists for point in one]
    timestamp, at = _ms(point[0] for point in every), _ms(point[2] for point in every)
    offset = np.array([LAST_OFFSET if p[1] is None else p[1] for p in every], np.int64)
    order = np.lexsort((timestamp, offset, row))
    return _Flat(row[order], timestamp[order], offset[order], at[order])


def _ms(times: Iterable[Any]) -> Whole:
    """Return times as the first ms since 1970 at or after them, NEVER_MS if missing."""
    if isinstance(times, pd.Series):
        moments = times.astype("datetime64[ms, UTC]")
        return np.where(moments.isna(), NEVER_MS, moments.astype("int64"))
    # By hand: pandas has no times after 2262 in nanoseconds, but records may.
    return np.array(
        [
            NEVER_MS if t is None or t is pd.NaT else ceil(t.timestamp() * 1000 - 5e-4)
            for t in times
        ],
        np.int64,
    )


def _seconds(
    ms: Real, zero: NDArray[np.bool_], known: NDArray[np.bool_], index: pd.Index[Any]
) -> pd.Series[float]:
    values = np.where(zero, 0.0, ms / 1000)
    return pd.Series(values, index=index).astype("Float64").where(zero | known)
