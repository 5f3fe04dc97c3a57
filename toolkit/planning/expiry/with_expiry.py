"""
Add the expiry forecast of committed offsets, and the one if their group stopped.

The brokers' rules are in `expiry_rules`; here they become columns of a frame of partitions. A time
is given only if it follows from facts; a bound is marked as such. The time of the brokers' next
check is unknown: within one check interval, and up to one more after a coordinator moved or
restarted.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from pandas.arrays import DatetimeArray

from toolkit.planning.expiry.expiry_facts import NO_TIME, ExpiryFacts, Times, later
from toolkit.planning.expiry.expiry_reasons import reasons_of
from toolkit.planning.expiry.expiry_rules import (
    confidences_of,
    expiry_if_stopped,
    retention_timers,
    rules_of,
)
from toolkit.planning.frames.row_slices import assign_by_slices


def with_expiry(partitions: pd.DataFrame, *, now: datetime) -> pd.DataFrame:
    """
    Add when each committed offset expires, by which rule, why, and the confidence.

    Reads committed, type, state, protocol_type, subscribed, unreadable, pending, log_problem,
    source, committed_at, expire_at, empty_since, retention_s, check_interval_s and, if present,
    seen_since: the first observation of this commit, and for a classic group that is Empty, of this
    state. `now` is when the facts were read.

    Adds expires_at (null: never, or unknown), expires_by (the latest: a check interval later, and
    never before that from now), expiry_rule (an `ExpiryRule`), expiry_why, expires_if_stopped_at
    (if the group's last member left now; without members, expires_at),
    expires_immediately_if_stopped (null if unknown) and expiry_confidence (a `Confidence`; "none":
    unknown, and expires_at is null for that reason). Times are UTC.
    """
    at = np.datetime64(now.astimezone(UTC).replace(tzinfo=None)).astype("datetime64[ms]")
    return assign_by_slices(partitions, partial(_expiry_columns, at=at))


def _expiry_columns(partitions: pd.DataFrame, *, at: np.datetime64) -> dict[str, Any]:
    facts = ExpiryFacts.of(partitions)
    rules = rules_of(facts)
    clock = retention_timers(facts, rules, now=at)
    due = np.where(np.isnat(clock.expires_at), NO_TIME, np.maximum(clock.expires_at, at))
    if_stopped = expiry_if_stopped(facts, clock, now=at)
    at_once = pd.array(facts.live & (if_stopped <= at), dtype="boolean")
    nothing_to_lose = facts.nothing | facts.simple | facts.empty | facts.share | facts.pending
    answered = ~np.isnat(if_stopped) | nothing_to_lose
    at_once[~answered] = pd.NA
    return {
        "expires_at": _column(clock.expires_at),
        "expires_by": _column(later(due, facts.check_interval)),
        "expiry_rule": rules,
        "expiry_why": reasons_of(facts, rules, clock),
        "expires_if_stopped_at": _column(if_stopped),
        "expires_immediately_if_stopped": at_once,
        "expiry_confidence": confidences_of(facts, rules, clock),
    }


def _column(times: Times) -> DatetimeArray:
    return pd.DatetimeIndex(times).tz_localize("UTC").array
