"""
When committed offsets expire, and when they would if their group stopped.

The brokers' rules are in `expiry_rules`; here they become columns of a frame of partitions. A time
is given only where it follows from facts, and a bound is called one. What a single look at a
cluster cannot tell is when its brokers next look for what is due: within a check interval, and up
to one more after the coordinator of a group moved or was restarted.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pandas as pd
from pandas.arrays import DatetimeArray

from toolkit.planning.expiry.expiry_facts import NO_TIME, ExpiryFacts, Times, later
from toolkit.planning.expiry.expiry_reasons import reasons_of
from toolkit.planning.expiry.expiry_rules import clocks_of, confidences_of, rules_of, stopped_at


def with_expiry(partitions: pd.DataFrame, *, now: datetime) -> pd.DataFrame:
    """
    Add when each committed offset expires, by which rule, why, and how sure that is.

    Reads committed, type, state, protocol_type, subscribed, unreadable, pending, log_problem,
    source, committed_at, expire_at, empty_since, retention_s, check_interval_s and, where there is
    one, seen_since: the first reading of ours that saw just this commit, and for a classic group
    that is Empty, this state. `now` is when the facts were read.

    Adds expires_at (null: never, or unknown), expires_by (the latest: a check interval later, and
    never before that from now), expiry_rule (an `ExpiryRule`), expiry_why, expires_if_stopped_at
    (were the group's last member to leave now; where it has none, expires_at),
    at_once_if_stopped (null where unknown) and expiry_confidence (a `Confidence`; "none": nothing
    is known, and expires_at is null for that reason). Times are UTC.
    """
    facts, at = ExpiryFacts.of(partitions), np.datetime64(now.astimezone(UTC).replace(tzinfo=None))
    at = at.astype("datetime64[ms]")
    rules = rules_of(facts)
    clock = clocks_of(facts, rules, now=at)
    due = np.where(np.isnat(clock.expires_at), NO_TIME, np.maximum(clock.expires_at, at))
    if_stopped = stopped_at(facts, clock, now=at)
    at_once = pd.array(facts.live & (if_stopped <= at), dtype="boolean")
    nothing_to_lose = facts.nothing | facts.simple | facts.empty | facts.share | facts.pending
    answered = ~np.isnat(if_stopped) | nothing_to_lose
    at_once[~answered] = pd.NA
    return partitions.assign(
        expires_at=_column(clock.expires_at),
        expires_by=_column(later(due, facts.check_interval)),
        expiry_rule=rules,
        expiry_why=reasons_of(facts, rules, clock),
        expires_if_stopped_at=_column(if_stopped),
        at_once_if_stopped=at_once,
        expiry_confidence=confidences_of(facts, rules, clock),
    )


def _column(times: Times) -> DatetimeArray:
    return pd.DatetimeIndex(times).tz_localize("UTC").array
