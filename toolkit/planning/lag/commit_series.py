"""
Recent commits of each partition as two matrices (age, offset).

A series of commits shows whether a group makes progress, how fast, and how often it commits. Lists
of different lengths are flattened once, so that half a million partitions take a second, not a
minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

WIDEST = 64  # only the latest commits of longer lists: a matrix is as wide as its longest row


def age_s(times: pd.Series[Any], now: datetime) -> Floats:
    """Return the age of times in seconds: NaN if unknown, negative if in the future."""
    # Nearly all times differ: searching for duplicates takes longer than converting.
    at = pd.to_datetime(times, utc=True, errors="coerce", cache=False).dt.tz_localize(None)
    return _age_s(at.to_numpy(dtype="datetime64[ms]"), now)


@dataclass(frozen=True, slots=True)
class CommitSeries:
    """
    Recent commits: one row per partition, oldest first, the latest in the last column.

    `age_s`: seconds since each commit, NaN if there are fewer; `offset`: the committed offset.
    Coordinators use their own clocks, which differ: the order is that of the log, a commit counts
    as no later than the one after it, and none as later than now.
    """

    age_s: Floats
    offset: Whole

    @classmethod
    def of(cls, partitions: pd.DataFrame, *, now: datetime) -> CommitSeries:
        """
        Return the series in recent_at and recent_offset (lists, or null).

        If a list is missing, or the two do not match, the commit in committed_at and committed is
        the series.
        """
        series = cls.of_lists(partitions["recent_at"], partitions["recent_offset"], now=now)
        committed = partitions["committed"].astype("Int64")
        last_age = age_s(partitions["committed_at"], now)
        alone = ~series.known.any(axis=1) & ~np.isnan(last_age) & committed.notna().to_numpy(bool)
        series.age_s[alone, -1] = np.maximum(last_age[alone], 0)
        series.offset[alone, -1] = committed[alone].to_numpy(dtype="int64")
        return series

    @classmethod
    def of_lists(
        cls, times: pd.Series[Any], offsets: pd.Series[Any], *, now: datetime
    ) -> CommitSeries:
        lengths = _lengths(times)
        usable = (lengths == _lengths(offsets)) & (lengths > 0)
        ages = _age_s(_times(times[usable]), now)
        flat, known = _offsets(offsets[usable])
        known &= ~np.isnan(ages)
        row = np.repeat(np.flatnonzero(usable), lengths[usable])
        return cls(*_aligned(len(times), row[known], ages[known], flat[known]))

    @property
    def known(self) -> Flags:
        """Where in the matrices there is a commit."""
        return ~np.isnan(self.age_s)

    @property
    def last_age_s(self) -> Floats:
        """Seconds since the latest commit; NaN if unknown."""
        return self.age_s[:, -1]

    @property
    def moves_back(self) -> Flags:
        """Where the next commit is of a lower offset; one column less than the matrices."""
        back: Flags = (self.offset[:, 1:] < self.offset[:, :-1]) & self.known[:, :-1]
        return back

    @property
    def interval_s(self) -> Floats:
        """
        The usual time between two commits: the median, NaN for fewer than two commits.

        The time before a commit that moved back does not count: most of them are resets.
        """
        gaps = np.where(self.moves_back, np.nan, self.age_s[:, :-1] - self.age_s[:, 1:])
        gaps = np.sort(gaps, axis=1)  # NaN come last
        count = (~np.isnan(gaps)).sum(axis=1)
        middle = np.maximum(count - 1, 0) // 2
        median: Floats = np.take_along_axis(gaps, middle[:, None], axis=1)[:, 0]
        return median

    def moved_age_s(self, highest: Whole, highest_age_s: Floats) -> Floats:
        """
        Seconds since the committed offset last changed, as far back as known.

        A client that commits every second fills the series within seconds. `max_committed` and the
        age of its first commit give the real time.
        """
        same = (self.offset == self.offset[:, -1:]) & self.known
        run = np.logical_and.accumulate(same[:, ::-1], axis=1)[:, ::-1]
        first = np.where(run, self.age_s, -np.inf).max(axis=1)
        whole = run.sum(axis=1) == self.known.sum(axis=1)
        longer = whole & (highest == self.offset[:, -1]) & (highest_age_s > first)
        return np.where(np.isneginf(first), np.nan, np.where(longer, highest_age_s, first))

    def since(self, at_most_s: Floats) -> Flags:
        """Where there is a commit no older than this, and no later rewind."""
        back = np.zeros_like(self.known)
        back[:, :-1] = self.moves_back
        before_back = np.logical_or.accumulate(back[:, ::-1], axis=1)[:, ::-1]
        return self.known & ~before_back & (self.age_s <= at_most_s[:, None])

    def first_of(self, chosen: Flags) -> tuple[Floats, Whole]:
        """Return the age and the offset of the oldest chosen commit of each row; NaN for none."""
        column = chosen.argmax(axis=1)[:, None]
        age = np.take_along_axis(self.age_s, column, axis=1)[:, 0]
        offset = np.take_along_axis(self.offset, column, axis=1)[:, 0]
        return np.where(chosen.any(axis=1), age, np.nan), offset


def _age_s(at: npt.NDArray[np.datetime64], now: datetime) -> Floats:
    now_ms = int(now.timestamp() * 1000)
    known = ~np.isnat(at)
    # Convert to float first: a time at the end of the calendar must not wrap around.
    return np.where(known, (now_ms - at.astype("int64").astype("float64")) / 1000, np.nan)


def _lengths(lists: pd.Series[Any]) -> Whole:
    lengths = np.zeros(len(lists), dtype="int64")
    there = lists.notna().to_numpy(dtype=bool)
    lengths[there] = np.fromiter(map(len, lists[there]), "int64", there.sum())
    return lengths


def _times(lists: pd.Series[Any]) -> npt.NDArray[np.datetime64]:
    flat = np.concatenate([np.array([], "datetime64[ms]"), *lists]) if len(lists) else np.array([])
    if flat.dtype.kind == "M":
        return flat.astype("datetime64[ms]")
    at = pd.to_datetime(pd.Series(flat, dtype="object"), utc=True, errors="coerce")
    return at.dt.tz_localize(None).to_numpy(dtype="datetime64[ms]")


def _offsets(lists: pd.Series[Any]) -> tuple[Whole, Flags]:
    """Return all offsets flattened, and which of them are known."""
    flat = np.concatenate(list(lists)) if len(lists) else np.array([], "int64")
    if flat.dtype.kind == "i":
        return flat.astype("int64"), np.ones(len(flat), dtype=bool)
    nullable = pd.array(flat, dtype="Int64")
    return nullable.to_numpy(dtype="int64", na_value=0), ~nullable.isna()


def _aligned(rows: int, row: Whole, ages: Floats, offsets: Whole) -> tuple[Floats, Whole]:
    """Return matrices of flat values, which come row by row."""
    lengths = np.bincount(row, minlength=rows)
    width = int(np.clip(lengths.max(initial=0), 2, WIDEST))
    if lengths.max(initial=0) > width:
        is_recent = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(row)) <= width
        ages, offsets = ages[is_recent], offsets[is_recent]
    there = np.arange(width) >= width - lengths[:, None]  # aligned to the right
    age, offset = np.full((rows, width), np.nan), np.zeros((rows, width), dtype="int64")
    age[there], offset[there] = np.maximum(ages, 0), offsets
    ordered = np.fmax.accumulate(age[:, ::-1], axis=1)[:, ::-1]
    return np.where(np.isnan(age), np.nan, ordered), offset
