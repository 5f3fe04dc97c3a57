"""
Whether a group catches up or falls behind on a partition: what it reads against what arrives.

How fast it reads is in its commits. How fast records arrive is known where the log end is known at
an earlier instant too. The two are compared only from that instant on, and only if commits reach
back as far: a burst of records before the first commit that is known was perhaps read before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from toolkit.planning.lag.commit_series import CommitSeries, Flags, Floats, Whole, age_s
from toolkit.planning.lag.status_rules import CATCHING_UP, FALLING_BEHIND, STEADY, StatusRules

SHORTEST_S = 5.0  # a pace over less is chance


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
class TrendSample:
    """
    What the commits of each row tell of its reader; `ended` where nobody is left to read.

    `unseen_s`: commits were read so long ago, for a fleet takes its time. `patience_s` and
    `window_s` are the rules' own, stretched for groups that commit seldom.
    """

    series: CommitSeries
    ended: Flags
    unseen_s: Floats
    patience_s: Floats
    window_s: Floats

    @classmethod
    def of(
        cls, series: CommitSeries, *, ended: Flags, unseen_s: Floats, rules: StatusRules
    ) -> TrendSample:
        """Return it for the given series."""
        interval_s = np.nan_to_num(series.interval_s)
        patience_s = np.maximum(interval_s * rules.patience_intervals, rules.patience_s)
        window_s = np.maximum(interval_s * rules.min_commits, rules.window_s)
        return cls(series, ended, unseen_s, patience_s, window_s)

    @property
    def silent(self) -> Flags:
        """Where nothing was committed for longer than patience."""
        return self.last_age_s > self.patience_s

    @property
    def last_age_s(self) -> Floats:
        """How long nothing had been committed when commits were read."""
        return np.maximum(self.series.last_age_s - self.unseen_s, 0)

    def stretch_s(self, rules: StatusRules) -> Floats:
        """Return over how many seconds, up to now, commits tell a pace; NaN where they do not."""
        chosen = self.series.since(self.window_s)
        first, _ = self.series.first_of(chosen)
        first = np.where(chosen.sum(axis=1) >= rules.min_commits, first, np.nan)
        return np.where(self.stands, np.minimum(self.series.last_age_s, self.window_s), first)

    @property
    def stands(self) -> Flags:
        """Where nothing is read: nobody is left, or nothing is committed any more."""
        return (self.ended | self.silent) & ~np.isnan(self.series.last_age_s)


@dataclass(frozen=True, slots=True)
class Earlier:
    """Where the log of each row ended at an earlier instant; `age_s` is NaN where unknown."""

    age_s: Floats
    end: Whole

    @classmethod
    def of(cls, partitions: pd.DataFrame, wanted_s: Floats, *, now: datetime) -> Earlier:
        """
        Return for each row what is known of the oldest instant that commits reach back to.

        Reads earlier_at and earlier_end, and, where there are such, past_at and past_end (lists).
        An end beyond the log end, or one that is not in the past, tells nothing.
        """
        log_end, known = whole(partitions["log_end"])
        end, told = whole(partitions["earlier_end"])
        age = np.where(told, age_s(partitions["earlier_at"], now), np.nan)[:, None]
        ends = end[:, None]
        if "past_at" in partitions:
            past = CommitSeries.of_lists(partitions["past_at"], partitions["past_end"], now=now)
            age, ends = np.hstack([age, past.age_s]), np.hstack([ends, past.offset])
        usable = known[:, None] & (age > 0) & (ends >= 0) & (ends <= log_end[:, None])
        age = np.where(usable, age, np.nan)
        # The oldest instant that commits reach back to, else the one that comes nearest.
        reached = age <= wanted_s[:, None]
        merit = np.where(reached | np.isnan(wanted_s)[:, None], age, -age)
        nearest = np.where(usable, merit, -np.inf).argmax(axis=1)[:, None]
        return cls(
            np.take_along_axis(age, nearest, axis=1)[:, 0],
            np.take_along_axis(ends, nearest, axis=1)[:, 0],
        )


def look_back_s(rules: StatusRules) -> tuple[float, ...]:
    """
    Return how long ago log ends should be known, for every pace of committing to find its match.

    From the window down to some seconds, each half as long: whatever time the commits of a group
    span, one of them is in its older half.
    """
    ages = [rules.window_s]
    while ages[-1] / 2 >= SHORTEST_S:
        ages.append(ages[-1] / 2)
    return tuple(ages)


def pace_of(
    partitions: pd.DataFrame, reading: TrendSample, earlier: Earlier, rules: StatusRules
) -> Pace:
    """Return how fast each row is read and written. Reads log_end and lag."""
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
    drain_s = np.divide(lag, gained, out=np.full(len(lag), np.nan), where=drains)
    drain_s[lag_known & (lag == 0)] = 0.0
    return Pace(consumed, produced, trend, drain_s)


def unseen_by_commits_s(partitions: pd.DataFrame, now: datetime) -> Floats:
    """Return how long ago commits were read, by commits_read_at: 0 where that is not told."""
    if "commits_read_at" not in partitions:
        return np.zeros(len(partitions))
    return np.maximum(np.nan_to_num(age_s(partitions["commits_read_at"], now)), 0)


def whole(column: pd.Series[Any]) -> tuple[Whole, Flags]:
    """Return the integers of a column, and where it has one; it is 0 elsewhere."""
    numbers = column.astype("Int64")
    values = numbers.to_numpy(dtype="int64", na_value=0).astype(np.int64)
    return values, numbers.notna().to_numpy(dtype=bool)


def _consumed(reading: TrendSample, earlier_s: Floats, rules: StatusRules) -> tuple[Floats, Flags]:
    """Return records read per second, and where that is so since the earlier instant."""
    series, last_s = reading.series, reading.series.last_age_s
    chosen = series.since(reading.window_s)
    first_s, first = series.first_of(chosen)
    enough = (chosen.sum(axis=1) >= rules.min_commits) & (first_s > last_s)
    later = chosen & (series.age_s <= earlier_s[:, None])
    reached = enough & (earlier_s <= first_s) & (later.sum(axis=1) >= 2)
    next_s, following = series.first_of(later)
    before_s, before = series.first_of(np.roll(later, -1, axis=1) & chosen & ~later)
    gap_s = before_s - next_s
    # Where it was at the earlier instant is on the way between the commits around it.
    share = np.divide(earlier_s - next_s, gap_s, out=np.zeros(len(gap_s)), where=gap_s > 0)
    begun_s = np.where(share > 0, earlier_s, next_s)
    read = series.offset[:, -1] - following + (following - before) * share
    per_s: Floats = np.full(len(first), np.nan)
    np.divide(series.offset[:, -1] - first, first_s - last_s, out=per_s, where=enough)
    np.divide(read, begun_s - last_s, out=per_s, where=reached & (begun_s > last_s))
    per_s[reading.stands] = 0.0
    return per_s, np.where(reading.stands, earlier_s <= last_s, reached)
