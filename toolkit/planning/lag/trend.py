"""
Compute the lag trend of each partition from consumption and production rates.

The consumption rate comes from commits. The production rate needs a log end offset at an earlier
instant. The two are compared only from that instant on, and only if commits reach back that far: a
burst of records before the first known commit may have been read before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from toolkit.planning.lag.commit_series import CommitSeries, Flags, Floats, Whole
from toolkit.planning.lag.status_rules import CATCHING_UP, FALLING_BEHIND, STEADY, StatusRules

SHORTEST_S = 5.0  # rates over less are random


@dataclass(frozen=True, slots=True)
class Pace:
    """
    Consumption and production rate of each partition, NaN if unknown, and the trend.

    `catch_up_s`: estimated seconds until caught up; NaN if never.
    """

    consumed_per_s: Floats
    produced_per_s: Floats
    trend: npt.NDArray[np.object_]
    catch_up_s: Floats


class TrendSample:
    """
    Facts from the commits of each row; `ended` where the group has no members.

    `unseen_s`: seconds since commits were read, because reading a fleet takes time. `patience_s`
    and `window_s` are those of the rules, extended for groups that commit rarely.
    """

    def __init__(
        self, series: CommitSeries, *, ended: Flags, unseen_s: Floats, rules: StatusRules
    ) -> None:
        self.series, self.ended, self.unseen_s = series, ended, unseen_s
        interval_s = np.nan_to_num(series.interval_s)
        self.patience_s = np.maximum(interval_s * rules.patience_intervals, rules.patience_s)
        self.window_s = np.maximum(interval_s * rules.min_commits, rules.window_s)

    @property
    def no_recent_commit(self) -> Flags:
        """Where there was no commit for longer than patience."""
        return self.last_age_s > self.patience_s

    @property
    def last_age_s(self) -> Floats:
        """Seconds since the last commit when commits were read."""
        return np.maximum(self.series.last_age_s - self.unseen_s, 0)

    def stretch_s(self, rules: StatusRules) -> Floats:
        """Return the period, up to now, over which commits give a rate; NaN if they do not."""
        chosen = self.series.since(self.window_s)
        first, _ = self.series.first_of(chosen)
        first = np.where(chosen.sum(axis=1) >= rules.min_commits, first, np.nan)
        return np.where(self.is_stopped, np.minimum(self.series.last_age_s, self.window_s), first)

    @property
    def is_stopped(self) -> Flags:
        """Where nothing is consumed: no members, or no more commits."""
        return (self.ended | self.no_recent_commit) & ~np.isnan(self.series.last_age_s)


class EarlierLogEnds:
    """Log end offset of each row at an earlier instant; `age_s` is NaN if unknown."""

    def __init__(self, partitions: pd.DataFrame, stretch_s: Floats, *, now: datetime) -> None:
        """
        Take, per row, the sample of the oldest instant that commits reach back to.

        Reads past_at and past_end (lists). A sample past the current log end, or not in the past,
        is ignored.
        """
        log_end, known = whole(partitions["log_end"])
        past = CommitSeries.of_lists(partitions["past_at"], partitions["past_end"], now=now)
        age, ends = past.age_s, past.offset
        usable = known[:, None] & (age > 0) & (ends >= 0) & (ends <= log_end[:, None])
        age = np.where(usable, age, np.nan)
        # The oldest instant that commits reach back to, else the nearest one.
        reached = age <= stretch_s[:, None]
        merit = np.where(reached | np.isnan(stretch_s)[:, None], age, -age)
        nearest = np.where(usable, merit, -np.inf).argmax(axis=1)[:, None]
        self.age_s: Floats = np.take_along_axis(age, nearest, axis=1)[:, 0]
        self.end: Whole = np.take_along_axis(ends, nearest, axis=1)[:, 0]


def look_back_s(rules: StatusRules) -> tuple[float, ...]:
    """
    Return the ages at which log end offsets are needed, for any commit interval.

    From the window down to a few seconds, each half of the previous: one of them is in the older
    half of any period.
    """
    ages = [rules.window_s]
    while ages[-1] / 2 >= SHORTEST_S:
        ages.append(ages[-1] / 2)
    return tuple(ages)


def pace_of(
    partitions: pd.DataFrame, reading: TrendSample, earlier: EarlierLogEnds, rules: StatusRules
) -> Pace:
    """Return the rates of each row. Reads log_end and lag."""
    end, _ = whole(partitions["log_end"])
    produced: Floats = np.full(len(end), np.nan)
    known = ~np.isnan(earlier.age_s)
    np.divide(end - earlier.end, earlier.age_s, out=produced, where=known)
    consumed, comparable = _consumed(reading, earlier.age_s, rules)
    lag, lag_known = whole(partitions["lag"])
    gained = consumed - produced
    trend = np.full(len(partitions), None, dtype=object)
    comparable &= lag_known & ~np.isnan(gained)
    trend[comparable] = STEADY
    trend[comparable & (gained > rules.tolerance * consumed)] = CATCHING_UP
    trend[comparable & (-gained > rules.tolerance * produced) & (lag > 0)] = FALLING_BEHIND
    drains = np.equal(trend, CATCHING_UP) & (gained > 0)
    catch_up_s = np.divide(lag, gained, out=np.full(len(lag), np.nan), where=drains)
    catch_up_s[lag_known & (lag == 0)] = 0.0
    return Pace(consumed, produced, trend, catch_up_s)


def whole(column: pd.Series[Any]) -> tuple[Whole, Flags]:
    """Return the integers of a column, 0 for missing ones, and which are present."""
    numbers = column.astype("Int64")
    values = numbers.to_numpy(dtype="int64", na_value=0).astype(np.int64)
    return values, numbers.notna().to_numpy(dtype=bool)


def _consumed(reading: TrendSample, earlier_s: Floats, rules: StatusRules) -> tuple[Floats, Flags]:
    """Return the consumption rate, and where it starts at the earlier instant."""
    series, last_s = reading.series, reading.series.last_age_s
    chosen = series.since(reading.window_s)
    first_s, first = series.first_of(chosen)
    enough = (chosen.sum(axis=1) >= rules.min_commits) & (first_s > last_s)
    later = chosen & (series.age_s <= earlier_s[:, None])
    reached = enough & (earlier_s <= first_s) & (later.sum(axis=1) >= 2)
    next_s, following = series.first_of(later)
    before_s, before = series.first_of(np.roll(later, -1, axis=1) & chosen & ~later)
    gap_s = before_s - next_s
    # The offset at the earlier instant is interpolated between the commits around it.
    share = np.divide(earlier_s - next_s, gap_s, out=np.zeros(len(gap_s)), where=gap_s > 0)
    begun_s = np.where(share > 0, earlier_s, next_s)
    read = series.offset[:, -1] - following + (following - before) * share
    per_s: Floats = np.full(len(first), np.nan)
    np.divide(series.offset[:, -1] - first, first_s - last_s, out=per_s, where=enough)
    np.divide(read, begun_s - last_s, out=per_s, where=reached & (begun_s > last_s))
    per_s[reading.is_stopped] = 0.0
    return per_s, np.where(reading.is_stopped, earlier_s <= last_s, reached)
