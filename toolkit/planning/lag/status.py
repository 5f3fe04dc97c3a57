"""
Compute the status of each partition, with Burrow's status values.

The values have the same meaning as in Burrow. The rules differ where Burrow's were measured to be
wrong; they use more facts: earlier log end offsets, the age of unread records, the highest offset
ever committed, and whether the group has members. In Burrow, REWIND comes first, while one of the
last commits went back, and hides a stuck group; here, STOP and STALL come before it, and it
lasts until the earlier maximum is reached.

| status | |
|---|---|
| OK | caught up, or consuming |
| WARN | consuming, but falling behind; or blocked by an open transaction |
| ERR | committed offset out of range: unread records were deleted, or it is past the log end |
| STOP | lag, but no commits: the group is empty, or a member stopped committing |
| STALL | lag, and the same offset is committed again and again |
| REWIND | not stuck; the committed offset moved back and is still below its earlier maximum |
| UNSUBSCRIBED | the group is live, and no member subscribes to the topic |
| HELD | paused by offsetbook: its lag says nothing about the consumer |
| null | unknown; `status_why` has the reason |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from toolkit.model import GroupState, GroupType
from toolkit.model.plurals import counted
from toolkit.model.snapshot import NO_TOPIC
from toolkit.model.times import format_duration
from toolkit.planning.frames.row_slices import Texts, assign_by_slices, texts_in
from toolkit.planning.lag.commit_series import CommitSeries, Flags, Floats, Whole, age_s
from toolkit.planning.lag.lag import BEYOND_LOG_END, LOST_RECORDS
from toolkit.planning.lag.status_rules import (
    CATCHING_UP,
    COMMITTING,
    ERR,
    FALLING_BEHIND,
    GONE,
    HELD,
    IDLE,
    OK,
    REWIND,
    SILENT,
    STALL,
    STEADY,
    STOP,
    UNSUBSCRIBED,
    WARN,
    StatusRules,
)
from toolkit.planning.lag.time_lag import NOTHING_TO_READ
from toolkit.planning.lag.trend import (
    EarlierLogEnds,
    TrendSample,
    pace_of,
    whole,
)

TEXT_COLUMNS = ("state", "position", "log_problem")
UNKNOWN_S = -1


class StatusFacts:
    """
    The facts about each row of a frame of partitions; an unknown flag is not set.

    `gone`: the group has no members; `by_members`: members commit; groups that commit without
    members are neither. Seconds are NaN if unknown. Durations compared with patience end when
    commits were read: later events are unknown.
    """

    def __init__(self, partitions: pd.DataFrame, *, now: datetime, rules: StatusRules) -> None:
        series = CommitSeries.of(partitions, now=now)
        state, position, self.log_problem = (texts_in(partitions[name]) for name in TEXT_COLUMNS)
        self.topic_deleted: Flags = self.log_problem == NO_TOPIC
        self.committed, known = whole(partitions["committed"])
        self.no_commit: Flags = ~known
        self.pending = _flags(partitions["pending"], answer=True)
        self.unsubscribed = _flags(partitions["subscribed"], answer=False)
        self.hold = texts_in(partitions["hold"])  # who has paused it; "" if it is not paused
        self.hold_unread = texts_in(partitions["hold_unread"])  # why unknown; "" if known
        _, start_known = whole(partitions["log_start"])
        self.log_end, end_known = whole(partitions["log_end"])
        self.log_unknown: Flags = ~(start_known & end_known)
        self.beyond: Flags = position == BEYOND_LOG_END
        self.lost: Whole = np.where(position == LOST_RECORDS, whole(partitions["lost"])[0], 0)
        self.lag, lag_known = whole(partitions["lag"])
        self.no_lag: Flags = lag_known & (self.lag == 0)
        # What follows are only markers of transactions and aborted records.
        self.nothing_left: Flags = texts_in(partitions["time_lag_method"]) == NOTHING_TO_READ
        stable_lag, stable_known = whole(partitions["stable_lag"])
        self.at_open_transaction: Flags = stable_known & (stable_lag == 0) & (self.lag > 0)
        self.max_committed, _ = whole(partitions["max_committed"])
        # The log still has the highest offset ever committed, and a lower one is.
        is_back = (self.max_committed > self.committed) & (self.max_committed <= self.log_end)
        self.is_moved_back: Flags = is_back
        unknown = (state == "") | (state == str(GroupState.UNKNOWN)) | (state == GroupState.DEAD)
        empty: Flags = state == str(GroupState.EMPTY)
        self.empty_s = age_s(partitions["empty_since"], now)
        self.group_unknown: Flags = unknown
        self.by_members: Flags = ~unknown & ~empty
        self.gone: Flags = empty & ~_commits_alone(partitions, series, self.empty_s)
        unseen_s = np.maximum(np.nan_to_num(_floats(partitions["skew_s"])), 0)
        reading = TrendSample(series, ended=self.gone, unseen_s=unseen_s, rules=rules)
        earlier = EarlierLogEnds(partitions, reading.stretch_s(rules), now=now)
        self.pace = pace_of(partitions, reading, earlier, rules)
        self.last_age_s, self.patience_s = reading.last_age_s, reading.patience_s
        self.no_recent_commit = reading.no_recent_commit
        highest_s = age_s(partitions["max_committed_at"], now)
        moved_s = series.moved_age_s(self.max_committed, highest_s) - unseen_s
        self.moved_s: Floats = np.maximum(moved_s, 0)
        # From the time lag, else bounded by the earlier log end.
        self.wait_known, at_least_s, at_most_s = _waited(partitions, earlier, highest_s)
        self.waited_s: Floats = at_least_s - unseen_s  # minimum age of the oldest unread record
        self.waited_at_most_s: Floats = at_most_s - unseen_s

    @property
    def has_old_unread(self) -> Flags:
        """Where a record has certainly been unread for longer than patience."""
        return (self.waited_s > self.patience_s) & ~self.no_lag

    @property
    def is_stalled(self) -> Flags:
        """Where there was lag without progress for longer than patience."""
        return self.has_old_unread & (self.moved_s > self.patience_s)

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
    kind, protocol = texts_in(partitions["type"]), texts_in(partitions["protocol_type"])
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
    # Records that are read again existed when the highest offset was committed.
    again = known & (highest > committed) & (highest <= log_end)
    at_least = np.where(again, np.fmax(at_least, highest_s), at_least)
    time_lag = _time_lag_s(partitions)
    is_known = ~np.isnan(time_lag)
    return is_known, np.where(is_known, time_lag, at_least), np.where(is_known, time_lag, at_most)


def _time_lag_s(partitions: pd.DataFrame) -> Floats:
    """Return the lower bound of the time lag, NaN if unknown."""
    error_s = np.nan_to_num(_floats(partitions["time_lag_error_s"]))
    least: Floats = np.maximum(_floats(partitions["time_lag_s"]) - error_s, 0.0)
    return least


def _floats(column: pd.Series[Any]) -> Floats:
    numbers = column.astype("Float64")
    return numbers.to_numpy(dtype="float64", na_value=np.nan).astype(np.float64)


def _flags(column: pd.Series[Any], *, answer: bool) -> Flags:
    """Return where a column has this value."""
    return (column.astype("boolean") == answer).fillna(value=False).to_numpy(dtype=bool)


class StatusCase(NamedTuple):
    """One rule: where it applies, the status, and the reason for a row, by its number."""

    applies: Flags
    word: str | None
    why: str | Callable[[int], str]


def with_status(
    partitions: pd.DataFrame, *, now: datetime, rules: StatusRules | None = None
) -> pd.DataFrame:
    """
    Add status, status_why, member_state, trend (text), consumed_per_s, produced_per_s, catch_up_s.

    Reads what `with_lag` adds, and committed, committed_at, recent_at, recent_offset,
    max_committed, max_committed_at, type, protocol_type, state, empty_since, subscribed, pending,
    log_start, log_end, log_problem, past_at and past_end (lists of earlier instants and log end
    offsets; the one that fits the commits of each row is used: `trend.look_back_s`), time_lag_s,
    time_lag_error_s, time_lag_method, hold (who has paused the partition, since and until when;
    empty or null if nobody), hold_unread (why that is unknown for the group; empty or null if it is
    known), and skew_s. `now` must be when the log end offsets were read, and skew_s the seconds
    since the commits were: meanwhile members only seem silent.

    status is a value of the table above. member_state: "alive and committing", "alive and silent"
    (lag, but no commits), "alive and idle" (caught up), "gone", null if unknown and for commits
    without members. trend: "catching up", "falling behind", "steady", null without a known earlier
    log end offset that commits reach back to. Rates are offsets per second; catch_up_s is the
    estimated time until caught up, null if never or unknown.
    """
    chosen = rules or StatusRules()
    return assign_by_slices(partitions, partial(_status_columns, now=now, rules=chosen))


def _status_columns(
    partitions: pd.DataFrame, *, now: datetime, rules: StatusRules
) -> dict[str, Any]:
    facts = StatusFacts(partitions, now=now, rules=rules)
    status = np.full(len(partitions), None, dtype=object)
    why = np.full(len(partitions), "", dtype=object)
    open_ = np.ones(len(partitions), dtype=bool)
    for case in _cases(facts):
        rows = np.flatnonzero(case.applies & open_)
        status[rows] = case.word
        why[rows] = case.why if isinstance(case.why, str) else [case.why(i) for i in rows.tolist()]
        open_[rows] = False
    pace, trend = facts.pace, facts.pace.trend.copy()
    trend[status == UNSUBSCRIBED] = None  # no trend for unsubscribed offsets
    rates = {
        "consumed_per_s": pace.consumed_per_s,
        "produced_per_s": pace.produced_per_s,
        "catch_up_s": pace.catch_up_s,
    }
    return {
        "status": status,
        "status_why": why,
        "member_state": facts.member_state(),
        "trend": trend,
        **{name: pd.Series(rate).astype("Float64").array for name, rate in rates.items()},
    }


def _cases(facts: StatusFacts) -> Iterator[StatusCase]:
    """Yield the rules; the first match decides."""
    yield from _without_answer(facts)
    # An abandoned topic loses records and may be re-created: that is not an error of the group.
    yield StatusCase(
        facts.by_members & facts.unsubscribed,
        UNSUBSCRIBED,
        "unsubscribed offset: no member subscribes to the topic",
    )
    yield from _of_the_log(facts)
    yield StatusCase(facts.hold != "", HELD, lambda i: f"paused by {facts.hold[i]}")
    yield StatusCase(facts.no_lag, OK, "caught up")
    yield StatusCase(facts.nothing_left, OK, "caught up: no committed record follows")
    whole_s = np.floor(np.maximum(facts.empty_s, 0.0) + 0.5)
    empty_s = np.where(np.isnan(whole_s), UNKNOWN_S, whole_s).tolist()
    yield StatusCase(
        facts.gone, STOP, lambda i: f"{_empty_text(empty_s[i])}{_moved_back(facts, i)}"
    )
    yield StatusCase(
        (facts.hold_unread != "") & (facts.is_stalled | facts.perhaps_stuck | facts.falls_behind),
        None,
        lambda i: f"unknown whether it is paused: {facts.hold_unread[i]}",
    )
    yield from _of_a_stuck_reader(facts)
    yield StatusCase(
        facts.is_moved_back,
        REWIND,
        lambda i: (
            f"offset was moved back from {facts.max_committed[i]:,}: "
            f"at most {counted(facts.max_committed[i] - facts.committed[i], 'record')} will be "
            "reprocessed"
        ),
    )
    yield from _of_the_reader(facts)


def _without_answer(facts: StatusFacts) -> Iterator[StatusCase]:
    yield StatusCase(
        facts.no_commit & facts.pending, None, "first commit is pending in an open transaction"
    )
    yield StatusCase(facts.no_commit, None, "no committed offset")
    yield StatusCase(facts.topic_deleted, None, "unused offset: the topic does not exist")
    yield StatusCase(
        facts.log_unknown,
        None,
        lambda i: f"log offsets unknown: {facts.log_problem[i] or 'not read'}",
    )
    yield StatusCase(facts.group_unknown, None, "unknown whether the group still exists")


def _of_the_log(facts: StatusFacts) -> Iterator[StatusCase]:
    yield StatusCase(
        facts.beyond,
        ERR,
        lambda i: (
            f"committed offset is {facts.committed[i] - facts.log_end[i]:,} past the log end "
            "offset: the topic was truncated or re-created"
        ),
    )
    yield StatusCase(
        facts.lost > 0, ERR, lambda i: f"at most {counted(facts.lost[i], 'unread record')} deleted"
    )


def _of_a_stuck_reader(facts: StatusFacts) -> Iterator[StatusCase]:
    stuck = facts.is_stalled
    yield StatusCase(
        facts.at_open_transaction & stuck,
        WARN,
        lambda i: f"blocked by an open transaction; lag {facts.lag[i]:,}",
    )
    yield StatusCase(
        stuck & ~facts.no_recent_commit,
        STALL,
        lambda i: (
            f"has committed the same offset for {_time(facts.moved_s[i])}; {_waiting(facts, i)}"
        ),
    )
    yield StatusCase(
        stuck,
        STOP,
        lambda i: (
            f"{'members alive, but ' if facts.by_members[i] else ''}no commit for "
            f"{_time(facts.last_age_s[i])}; {_waiting(facts, i)}"
        ),
    )


def _of_the_reader(facts: StatusFacts) -> Iterator[StatusCase]:
    yield StatusCase(
        facts.perhaps_stuck,
        None,
        lambda i: (
            "commit time unknown"
            if np.isnan(facts.last_age_s[i])
            else f"committed offset unchanged for {_time(facts.moved_s[i])}; age of the unread "
            "records unknown"
        ),
    )
    trend = facts.pace.trend
    yield StatusCase(
        facts.falls_behind,
        WARN,
        lambda i: (
            f"falling behind: {facts.pace.produced_per_s[i]:,.1f} offsets/s produced, "
            f"{facts.pace.consumed_per_s[i]:,.1f} consumed"
        ),
    )
    yield StatusCase(trend == FALLING_BEHIND, OK, "consuming; the unread records are recent")
    yield StatusCase(trend == CATCHING_UP, OK, "consumes faster than records are produced")
    yield StatusCase(trend == STEADY, OK, "consumes as fast as records are produced")
    yield StatusCase(facts.moved_s <= facts.patience_s, OK, "consuming; trend unknown")
    yield StatusCase(~facts.no_lag, OK, "the unread records are recent")


def _waiting(facts: StatusFacts, row: int) -> str:
    commit = "; a commit is pending in an open transaction" if facts.pending[row] else ""
    return (
        f"lag {facts.lag[row]:,}, oldest unread record is {_time(facts.waited_s[row])} old{commit}"
        f"{_moved_back(facts, row)}"
    )


def _moved_back(facts: StatusFacts, row: int) -> str:
    is_back = facts.is_moved_back[row]
    return f"; offset was moved back from {facts.max_committed[row]:,}" if is_back else ""


def _time(seconds: float) -> str:
    return _duration_text(int(max(0.0, float(seconds)) + 0.5))


@lru_cache(maxsize=10_000)  # thousands of groups became Empty in the same second
def _empty_text(seconds: float) -> str:
    if seconds == UNKNOWN_S:
        return "group has no members"
    return f"group has had no members for {format_duration(seconds)}"


@lru_cache(maxsize=10_000)
def _duration_text(seconds: int) -> str:
    return format_duration(seconds)
