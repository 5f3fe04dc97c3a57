"""
How each group does on each partition, in Burrow's words.

People know the words, so they mean what they mean there. The rules differ where Burrow's were
measured to be wrong, because they know more: where the log ended earlier, how long a record has
waited, the highest offset ever committed, and whether anybody is in the group.

| status | |
|---|---|
| OK | caught up, or consuming |
| WARN | it is being read, but more arrives; or an open transaction holds readers back |
| ERR | the commit is not in the log: records were lost unread, or it is beyond the log end |
| STOP | records wait and nothing is committed: nobody is there, or a member is silent |
| STALL | records wait and commits go on, always with the same offset |
| REWIND | the commit went back, and has not regained where it was |
| UNSUBSCRIBED | the group lives, and none of its members subscribes to the topic any more |
| null | it cannot be said; `status_why` says why |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from toolkit.model.times import format_duration
from toolkit.planning.lag.commit_series import Flags
from toolkit.planning.lag.group_summary import status_by_group
from toolkit.planning.lag.status_facts import StatusFacts
from toolkit.planning.lag.status_rules import (
    CATCHING_UP,
    ERR,
    FALLING_BEHIND,
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


class StatusCase(NamedTuple):
    """One rule: where it applies, the word, and why, for one row by its number."""

    applies: Flags
    word: str | None
    why: str | Callable[[int], str]


def with_status(
    partitions: pd.DataFrame, *, now: datetime, rules: StatusRules | None = None
) -> pd.DataFrame:
    """
    Add status, status_why, member_state, trend (text), consumed_per_s, produced_per_s, drain_s.

    Reads what `with_lag` adds, and committed, committed_at, recent_at, recent_offset, highest,
    highest_at, type, protocol_type, state, empty_since, subscribed, pending, log_start, log_end,
    log_problem, earlier_at, earlier_end; where there are such columns, past_at and past_end (lists:
    more earlier instants, and where the log ended then, of which the one that suits the commits of
    each row is taken: `trend.look_back_s`), time_lag_s, time_lag_bound_s, held (whether the
    partition is paused), and commits_read_at. `now` has to be when the log ends were read, and
    commits_read_at up to when commits are known: reading a fleet takes time, in which members only
    seem to be silent.

    status is a word of the table above. member_state: "alive and committing", "alive and silent"
    (records wait), "alive and idle" (none does), "gone", null where unknown and for commits without
    members. trend: "catching up", "falling behind", "steady", null where no earlier log end is
    known to which commits reach back. Rates are records per second; drain_s is how long it takes to
    read what is left, null where that is never or unknown.
    """
    facts = StatusFacts.of(partitions, now=now, rules=rules or StatusRules())
    status = np.full(len(partitions), None, dtype=object)
    why = np.full(len(partitions), "", dtype=object)
    open_ = np.ones(len(partitions), dtype=bool)
    for case in _cases(facts):
        rows = np.flatnonzero(case.applies & open_)
        status[rows] = case.word
        why[rows] = case.why if isinstance(case.why, str) else [case.why(i) for i in rows.tolist()]
        open_[rows] = False
    pace, trend = facts.pace, facts.pace.trend.copy()
    trend[status == UNSUBSCRIBED] = None  # nobody means to keep up with what is left over
    return partitions.assign(
        status=status,
        status_why=why,
        member_state=facts.member_state(),
        trend=trend,
        **{
            name: pd.Series(rate, partitions.index).astype("Float64")
            for name, rate in (
                ("consumed_per_s", pace.consumed_per_s),
                ("produced_per_s", pace.produced_per_s),
                ("drain_s", pace.drain_s),
            )
        },
    )


def _cases(facts: StatusFacts) -> Iterator[StatusCase]:
    """Yield the rules; the first that applies to a row decides."""
    yield from _without_answer(facts)
    # An abandoned topic loses records and is re-created in time: that is no error of its group.
    yield StatusCase(
        facts.by_members & facts.unsubscribed,
        UNSUBSCRIBED,
        "unsubscribed offset: no member subscribes to the topic",
    )
    yield from _of_the_log(facts)
    yield StatusCase(facts.no_lag, OK, "caught up")
    yield StatusCase(facts.gone, STOP, lambda i: f"group has no members{_empty_for(facts, i)}")
    yield StatusCase(facts.held, None, "paused by offsetbook; consumer health unknown")
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
            f"committed offset is {facts.committed[i] - facts.log_end[i]:,} records past the log "
            "end offset: the topic was truncated or re-created"
        ),
    )
    yield StatusCase(
        facts.lost > 0, ERR, lambda i: f"{facts.lost[i]:,} unread records were deleted"
    )
    yield StatusCase(
        (facts.highest > facts.committed) & (facts.highest <= facts.log_end),
        REWIND,
        lambda i: (
            f"offset was moved back from {facts.highest[i]:,}: "
            f"{facts.highest[i] - facts.committed[i]:,} records will be reprocessed"
        ),
    )


def _of_the_reader(facts: StatusFacts) -> Iterator[StatusCase]:
    stuck = facts.stuck
    yield StatusCase(
        facts.at_open_transaction & stuck,
        WARN,
        lambda i: f"blocked by an open transaction; {facts.lag[i]:,} unread records after it",
    )
    yield StatusCase(
        stuck & ~facts.silent,
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
            f"falling behind: {facts.pace.produced_per_s[i]:,.1f} records/s produced, "
            f"{facts.pace.consumed_per_s[i]:,.1f} consumed"
        ),
    )
    yield StatusCase(
        trend == FALLING_BEHIND,
        OK,
        "consuming; the oldest unread record is newer than the threshold",
    )
    yield StatusCase(
        trend == CATCHING_UP, OK, "catching up: consumes faster than records are produced"
    )
    yield StatusCase(trend == STEADY, OK, "consumes as fast as records are produced")
    yield StatusCase(facts.moved_s <= facts.patience_s, OK, "consuming; trend unknown")
    yield StatusCase(~facts.no_lag, OK, "the oldest unread record is newer than the threshold")


def _empty_for(facts: StatusFacts, row: int) -> str:
    empty_s = facts.empty_s[row]
    return "" if np.isnan(empty_s) else f" for {_time(empty_s)}"


def _waiting(facts: StatusFacts, row: int) -> str:
    commit = "; a commit is pending in an open transaction" if facts.pending[row] else ""
    return (
        f"lag {facts.lag[row]:,}, oldest unread record is {_time(facts.waited_s[row])} old{commit}"
    )


def _time(seconds: float) -> str:
    return _in_words(int(max(0.0, float(seconds)) + 0.5))


@lru_cache(maxsize=10_000)  # thousands of groups became Empty in the same second
def _in_words(seconds: int) -> str:
    return format_duration(seconds)
