"""Inputs of the status rules, as one array per fact."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from toolkit.model import GroupState, GroupType
from toolkit.model.snapshot import NO_TOPIC
from toolkit.planning.lag.commit_series import CommitSeries, Flags, Floats, Whole, age_s
from toolkit.planning.lag.lag import BEYOND_LOG_END, LOST_RECORDS
from toolkit.planning.lag.status_rules import (
    COMMITTING,
    FALLING_BEHIND,
    GONE,
    IDLE,
    SILENT,
    StatusRules,
)
from toolkit.planning.lag.time_lag import NOTHING_TO_READ
from toolkit.planning.lag.trend import (
    EarlierLogEnds,
    Pace,
    TrendSample,
    pace_of,
    unseen_by_commits_s,
    whole,
)

Texts = npt.NDArray[np.object_]
TEXT_COLUMNS = ("state", "position", "log_problem")


@dataclass(frozen=True, slots=True)
class StatusFacts:
    """
    The facts about each row of a frame of partitions; an unknown flag is not set.

    `gone`: the group has no members; `by_members`: members commit; groups that commit without
    members are neither. Seconds are NaN if unknown. Durations compared with patience end when
    commits were read: later events are unknown.
    """

    committed: Whole
    no_commit: Flags
    pending: Flags
    log_problem: Texts
    topic_deleted: Flags
    log_unknown: Flags
    group_unknown: Flags
    by_members: Flags
    gone: Flags
    empty_s: Floats
    unsubscribed: Flags
    hold: Texts  # who has paused it; "" for nobody
    hold_unread: Texts  # why that is unknown; "" if it is known
    beyond: Flags
    lost: Whole
    max_committed: Whole
    is_moved_back: Flags  # the log still has the highest offset ever committed, and a lower one is
    log_start: Whole
    log_end: Whole
    lag: Whole
    no_lag: Flags
    nothing_left: Flags  # what follows are only markers of transactions and aborted records
    at_open_transaction: Flags
    last_age_s: Floats
    moved_s: Floats
    patience_s: Floats
    wait_known: Flags  # from the time lag, else bounded by the earlier log end
    waited_s: Floats  # minimum age of the oldest unread record
    waited_at_most_s: Floats
    pace: Pace

    @classmethod
    def of(cls, partitions: pd.DataFrame, *, now: datetime, rules: StatusRules) -> StatusFacts:
        """Return the facts in a frame; what `with_status` reads if present may be missing."""
        series = CommitSeries.of(partitions, now=now)
        state, position, problem = (_texts(partitions[name]) for name in TEXT_COLUMNS)
        empty_s = age_s(partitions["empty_since"], now)
        unknown = (state == "") | (state == str(GroupState.UNKNOWN)) | (state == GroupState.DEAD)
        gone = (state == str(GroupState.EMPTY)) & ~_commits_alone(partitions, series, empty_s)
        unseen_s = unseen_by_commits_s(partitions)
        reading = TrendSample.of(series, ended=gone, unseen_s=unseen_s, rules=rules)
        highest, _ = whole(partitions["max_committed"])
        log_start, start_known = whole(partitions["log_start"])
        log_end, end_known = whole(partitions["log_end"])
        lag, lag_known = whole(partitions["lag"])
        stable_lag, stable_known = whole(partitions["stable_lag"])
        committed, committed_known = whole(partitions["committed"])
        earlier = EarlierLogEnds.of(partitions, reading.stretch_s(rules), now=now)
        highest_s = age_s(partitions["max_committed_at"], now)
        wait_known, at_least_s, at_most_s = _waited(partitions, earlier, highest_s)
        return cls(
            committed=committed,
            no_commit=~committed_known,
            pending=_flags(partitions, "pending", answer=True),
            log_problem=problem,
            topic_deleted=problem == NO_TOPIC,
            log_unknown=~(start_known & end_known),
            group_unknown=unknown,
            by_members=~unknown & (state != str(GroupState.EMPTY)),
            gone=gone,
            empty_s=empty_s,
            unsubscribed=_flags(partitions, "subscribed", answer=False),
            hold=_texts_if_any(partitions, "hold"),
            hold_unread=_texts_if_any(partitions, "hold_unread"),
            beyond=position == BEYOND_LOG_END,
            lost=np.where(position == LOST_RECORDS, whole(partitions["lost"])[0], 0),
            max_committed=highest,
            is_moved_back=(highest > committed) & (highest <= log_end),
            log_start=log_start,
            log_end=log_end,
            lag=lag,
            no_lag=lag_known & (lag == 0),
            nothing_left=_texts_if_any(partitions, "time_lag_method") == NOTHING_TO_READ,
            at_open_transaction=stable_known & (stable_lag == 0) & (lag > 0),
            last_age_s=reading.last_age_s,
            moved_s=np.maximum(series.moved_age_s(highest, highest_s) - unseen_s, 0),
            patience_s=reading.patience_s,
            wait_known=wait_known,
            waited_s=at_least_s - unseen_s,
            waited_at_most_s=at_most_s - unseen_s,
            pace=pace_of(partitions, reading, earlier, rules),
        )

    @property
    def has_old_unread(self) -> Flags:
        """Where a record has certainly been unread for longer than patience."""
        return (self.waited_s > self.patience_s) & ~self.no_lag

    @property
    def is_stalled(self) -> Flags:
        """Where there was lag without progress for longer than patience."""
        return self.has_old_unread & (self.moved_s > self.patience_s)

    @property
    def no_recent_commit(self) -> Flags:
        """Where there was no commit for longer than patience."""
        return self.last_age_s > self.patience_s

    @property
    def perhaps_stuck(self) -> Flags:
        """Where it may be stuck: time without progress or age of unread records unknown."""
        decided = self.wait_known & ~np.isnan(self.moved_s)
        moves = self.moved_s <= self.patience_s
        fresh = self.waited_at_most_s <= self.patience_s
        return ~(decided | moves | fresh | self.no_lag | self.is_stalled)

    @property
    def falls_behind(self) -> Flags:
        """Where more is produced than consumed, and not only recently."""
        # Without a time, use lag divided by the production rate.
        rate = self.pace.produced_per_s
        guess_s = np.divide(self.lag, rate, out=np.zeros(len(rate)), where=rate > 0)
        waited_s = np.where(self.wait_known, self.waited_s, np.fmax(self.waited_s, guess_s))
        falls: Flags = self.pace.trend == FALLING_BEHIND
        return falls & (waited_s > self.patience_s)

    def member_state(self) -> Texts:
        """Return the member state of each partition, None if unknown."""
        idle = self.no_recent_commit & (self.no_lag | (self.waited_at_most_s <= self.patience_s))
        states = np.full(len(self.gone), None, dtype=object)
        states[self.gone] = GONE
        concerned = self.by_members & ~(self.unsubscribed | self.no_commit)
        states[concerned & (self.last_age_s <= self.patience_s)] = COMMITTING
        states[concerned & idle] = IDLE
        states[concerned & self.no_recent_commit & self.is_stalled] = SILENT
        return states


def _commits_alone(partitions: pd.DataFrame, series: CommitSeries, empty_s: Floats) -> Flags:
    """Return where a group has no members by design: an admin client or assign()."""
    kind, protocol = _texts(partitions["type"]), _texts(partitions["protocol_type"])
    # A classic group that never had a member has no protocol type, as on the broker.
    simple = (kind == str(GroupType.SIMPLE)) | ((kind == str(GroupType.CLASSIC)) & (protocol == ""))
    since = series.since(empty_s)
    _, first = series.first_of(since)
    # One commit into an Empty group is a reset; several that advance are a consumer.
    reads = (since.sum(axis=1) > 2) & (series.offset[:, -1] > first)
    alone: Flags = simple | reads
    return alone


def _waited(
    partitions: pd.DataFrame, earlier: EarlierLogEnds, highest_s: Floats
) -> tuple[Flags, Floats, Floats]:
    """Return where the time lag is known, and the oldest unread record's least and greatest age."""
    committed, known = whole(partitions["committed"])
    highest, log_end = (whole(partitions[name])[0] for name in ("max_committed", "log_end"))
    ended_past = earlier.end > committed
    at_least = np.where(known & ended_past, earlier.age_s, np.nan)
    at_most = np.where(known & ~ended_past, earlier.age_s, np.nan)
    # What is read again was there when the highest offset was committed.
    again = known & (highest > committed) & (highest <= log_end)
    at_least = np.where(again, np.fmax(at_least, highest_s), at_least)
    time_lag = _time_lag_s(partitions)
    is_known = ~np.isnan(time_lag)
    return is_known, np.where(is_known, time_lag, at_least), np.where(is_known, time_lag, at_most)


def _time_lag_s(partitions: pd.DataFrame) -> Floats:
    """Return the lower bound of the time lag, NaN if unknown."""
    if "time_lag_s" not in partitions:
        return np.full(len(partitions), np.nan)
    time_lag_s = _floats(partitions["time_lag_s"])
    if "time_lag_error_s" in partitions:
        time_lag_s = time_lag_s - np.nan_to_num(_floats(partitions["time_lag_error_s"]))
    least: Floats = np.maximum(time_lag_s, 0.0)
    return least


def _texts(column: pd.Series[Any]) -> Texts:
    values = column.to_numpy(dtype=object)
    missing = column.isna().to_numpy(dtype=bool)
    return np.where(missing, "", values) if missing.any() else values


def _texts_if_any(partitions: pd.DataFrame, name: str) -> Texts:
    if name not in partitions:
        return np.full(len(partitions), "", dtype=object)
    return _texts(partitions[name])


def _floats(column: pd.Series[Any]) -> Floats:
    numbers = column.astype("Float64")
    return numbers.to_numpy(dtype="float64", na_value=np.nan).astype(np.float64)


def _flags(partitions: pd.DataFrame, name: str, *, answer: bool) -> Flags:
    """Return where a column has this value; nowhere if the column is missing."""
    if name not in partitions:
        return np.zeros(len(partitions), dtype=bool)
    return (partitions[name].astype("boolean") == answer).fillna(value=False).to_numpy(dtype=bool)
