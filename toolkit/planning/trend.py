"""
Whether a group catches up or falls behind on a partition: what it reads against what arrives.

How fast it reads is in its commits. How fast records arrive is known where the log end is known at
an earlier instant too. The two are compared only over stretches of time of about the same length: a
burst of an hour ago says nothing about a group that has been watched for a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from toolkit.planning.commit_series import CommitSeries, Flags, Floats, Whole, age_s
from toolkit.planning.status_rules import CATCHING_UP, FALLING_BEHIND, STEADY, StatusRules


@dataclass(frozen=True, slots=True)
class Pace:
    """
    How fast each partition is read and written, NaN where unknown, and what comes of it.

    `drain_s`: after how long nothing would be left to read; NaN where it does not get there.
    """

    consumed_per_s: Floats
    produced_per_s: Floats
    trend: npt.NDArray[np.object_]
    drain_s: Floats


@dataclass(frozen=True, slots=True)
class Reading:
    """
    What the commits of each row tell of its reader; `ended` where nobody is left to read.

    `patience_s` and `window_s` are the rules' own, stretched for groups that commit seldom.
    """

    series: CommitSeries
    ended: Flags
    patience_s: Floats
    window_s: Floats

    @classmethod
    def of(cls, series: CommitSeries, *, ended: Flags, rules: StatusRules) -> Reading:
        """Return it for the given series."""
        interval_s = np.nan_to_num(series.interval_s)
        patience_s = np.maximum(interval_s * rules.patience_intervals, rules.patience_s)
        window_s = np.maximum(interval_s * rules.min_commits, rules.window_s)
        return cls(series, ended, patience_s, window_s)

    @property
    def silent(self) -> Flags:
        """Where nothing was committed for longer than patience."""
        return self.series.last_age_s > self.patience_s

    @property
    def stands(self) -> Flags:
        """Where nothing is read: nobody is left, or nothing is committed any more."""
        return (self.ended | self.silent) & ~np.isnan(self.series.last_age_s)


def earlier_wanted(
    partitions: pd.DataFrame, *, now: datetime, rules: StatusRules | None = None
) -> pd.Series[Any]:
    """
    Return for each row at which instant its log end should be known, for `earlier_at`.

    That is where its series of commits begins, or ended: trends need a log end of about that time.
    Null where commits tell no pace. Reads what `with_status` reads of commits.
    """
    rules = rules or StatusRules()
    series = CommitSeries.of(partitions, now=now)
    nobody = np.zeros(len(partitions), dtype=bool)
    reading = Reading.of(series, ended=nobody, rules=rules)
    chosen = series.since(reading.window_s)
    first, _ = series.first_of(chosen)
    first = np.where(chosen.sum(axis=1) >= rules.min_commits, first, np.nan)
    back = np.where(reading.silent, np.minimum(series.last_age_s, reading.window_s), first)
    at = now - pd.to_timedelta(pd.Series(back, partitions.index), unit="s")
    return at.dt.floor("ms").astype("datetime64[ms, UTC]")


def pace_of(
    partitions: pd.DataFrame, reading: Reading, *, now: datetime, rules: StatusRules
) -> Pace:
    """
    Return how fast each row is read and written.

    Reads log_end, lag (Int64), earlier_at, earlier_end. An earlier end that is beyond the log end,
    or not in the past, tells nothing. `now` has to be when the log ends were read.
    """
    earlier_s = age_s(partitions["earlier_at"], now)
    produced = _produced(partitions, earlier_s)
    consumed, stretch_s = _consumed(reading, earlier_s, rules)
    # Where nobody reads, that is so for all of the stretch, however much longer it has been so.
    alike = (earlier_s <= rules.stretch_ratio * stretch_s) & (
        reading.stands | (stretch_s <= rules.stretch_ratio * earlier_s)
    )
    lag, lag_known = whole(partitions["lag"])
    gained = consumed - produced
    trend = np.full(len(partitions), None, dtype=object)
    comparable = alike & lag_known & ~np.isnan(gained)
    trend[comparable] = STEADY
    trend[comparable & (gained > rules.tolerance * consumed)] = CATCHING_UP
    trend[comparable & (-gained > rules.tolerance * produced) & (lag > 0)] = FALLING_BEHIND
    drains = np.equal(trend, CATCHING_UP) & (gained > 0)
    drain_s = np.divide(lag, gained, out=np.full(len(lag), np.nan), where=drains)
    drain_s[lag_known & (lag == 0)] = 0.0
    return Pace(consumed, produced, trend, drain_s)


def whole(column: pd.Series[Any]) -> tuple[Whole, Flags]:
    """Return the integers of a column, and where it has one; it is 0 elsewhere."""
    numbers = column.astype("Int64")
    values = numbers.to_numpy(dtype="int64", na_value=0).astype(np.int64)
    return values, numbers.notna().to_numpy(dtype=bool)


def _produced(partitions: pd.DataFrame, earlier_s: Floats) -> Floats:
    end, end_known = whole(partitions["log_end"])
    earlier, earlier_known = whole(partitions["earlier_end"])
    usable = end_known & earlier_known & (earlier_s > 0) & (earlier >= 0) & (earlier <= end)
    per_s: Floats = np.full(len(end), np.nan)
    np.divide(end - earlier, earlier_s, out=per_s, where=usable)
    return per_s


def _consumed(reading: Reading, earlier_s: Floats, rules: StatusRules) -> tuple[Floats, Floats]:
    """Return records read per second and the seconds, up to now, of which that is known."""
    series = reading.series
    chosen = series.since(reading.window_s)
    alike = chosen & (series.age_s <= earlier_s[:, None])
    # Commits of the stretch whose log ends are known tell best, if they are enough.
    chosen = np.where((alike.sum(axis=1) >= rules.min_commits)[:, None], alike, chosen)
    first_s, first = series.first_of(chosen)
    span_s = first_s - series.last_age_s
    enough = (chosen.sum(axis=1) >= rules.min_commits) & (span_s > 0)
    per_s = np.divide(
        series.offset[:, -1] - first, span_s, out=np.full(len(first), np.nan), where=enough
    )
    per_s[reading.stands] = 0.0
    stretch_s = np.where(reading.stands, series.last_age_s, np.where(enough, first_s, np.nan))
    return per_s, stretch_s
