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

from toolkit.model.plurals import counted
from toolkit.model.times import format_duration
from toolkit.planning.frames.row_slices import assign_by_slices
from toolkit.planning.lag.commit_series import Flags
from toolkit.planning.lag.group_summary import status_by_group
from toolkit.planning.lag.status_facts import StatusFacts
from toolkit.planning.lag.status_rules import (
    CATCHING_UP,
    ERR,
    FALLING_BEHIND,
    HELD,
    OK,
    REWIND,
    STALL,
    STEADY,
    STOP,
    UNSUBSCRIBED,
    WARN,
    StatusRules,
)

__all__ = ["StatusRules", "status_by_group", "with_status"]

UNKNOWN_S = -1


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
    log_start, log_end, log_problem, earlier_at, earlier_end; if present, past_at and past_end
    (lists of earlier instants and log end offsets; the one that fits the commits of each row is
    used: `trend.look_back_s`), time_lag_s, time_lag_error_s, hold (who has paused the partition,
    since and until when; empty or null if nobody), hold_unread (why that is unknown for the group;
    empty or null if it is known), and skew_s. `now` must be when the log end offsets were read, and
    skew_s the seconds since the commits were: meanwhile members only seem silent.

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
    facts = StatusFacts.of(partitions, now=now, rules=rules)
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
