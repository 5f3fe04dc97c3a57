"""
Add the expiry forecast of committed offsets, its reason, and the one if their group stopped.

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

from toolkit.model.times import format_duration
from toolkit.planning.expiry.expiry_facts import NO_TIME, ExpiryFacts, Texts, Times, later
from toolkit.planning.expiry.expiry_rules import (
    NOT_EXPIRING,
    Basis,
    ExpiryRule,
    RetentionTimer,
    confidences_of,
    expiry_if_stopped,
    retention_timers,
    rules_of,
)
from toolkit.planning.frames.row_slices import assign_by_slices

NOBODY_THERE, NOBODY_SUBSCRIBES = "group has no members", "no member subscribes"
RULE_TEXTS = {
    ExpiryRule.NO_COMMIT: "no committed offset",
    ExpiryRule.TOPIC_DELETED: ("topic does not exist; brokers normally delete its offsets with it"),
    ExpiryRule.SHARE_GROUP: "a share group has no committed offsets that could expire",
    ExpiryRule.OPEN_TRANSACTION: "an open transaction has a pending commit: kept until it ends",
    ExpiryRule.OTHER_PROTOCOL: "protocol type is not consumer: kept while the group is live",
    ExpiryRule.REBALANCING: "kept while the group rebalances",
    ExpiryRule.UNPARSED: (
        "a member's subscription cannot be parsed: no offset expires while the group is live"
    ),
    ExpiryRule.SUBSCRIBED: "a member subscribes to the topic",
}
COUNTED = {
    Basis.CHOSEN: "at the expiry time that the client set in the commit",
    Basis.EMPTY: "{length} after the group became Empty at {since}",
    Basis.COMMIT: "{length} after the commit at {since}",
    Basis.OLD_RECORD: (
        "at the earliest {length} after the commit at {since}: unknown when the group became Empty"
    ),
    Basis.SEEN: (
        "at most {length} after {since}, when it was first observed; a new commit delays it"
    ),
}


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
        "expiry_why": _reasons_of(facts, rules, clock),
        "expires_if_stopped_at": _column(if_stopped),
        "expires_immediately_if_stopped": at_once,
        "expiry_confidence": confidences_of(facts, rules, clock),
    }


def _column(times: Times) -> DatetimeArray:
    return pd.DatetimeIndex(times).tz_localize("UTC").array


def _reasons_of(facts: ExpiryFacts, rules: Texts, clock: RetentionTimer) -> Texts:
    """Return why each offset expires when it does, does not expire, or has no forecast."""
    lacks = _lacks(facts, rules, clock)
    timed = ~np.isnat(clock.expires_at) & ~np.equal(rules, ExpiryRule.TOPIC_DELETED)
    parts = pd.DataFrame(
        {
            "head": _heads(facts, rules),
            "basis": np.where(timed, clock.basis, ""),
            "length": np.where(timed, facts.retention.astype("int64"), 0),
            "since": np.where(timed, _minutes(clock.since), 0),
            "lacks": lacks,
        }
    )
    # Many offsets have the same reason: each is formatted once.
    of = parts.groupby(list(parts.columns), sort=False).ngroup().to_numpy()
    words = [
        _reason_text(*row) for row in parts.drop_duplicates().itertuples(index=False, name=None)
    ]
    return np.array([*words, ""], dtype=object)[of]


def _reason_text(head: str, basis: str, length_ms: int, since_min: int, lacks: str) -> str:
    if not basis:
        return "; ".join(filter(None, (head, lacks)))
    since = str(np.datetime64(since_min, "m")).replace("T", " ")
    counted = COUNTED[Basis(basis)].format(
        length=format_duration(length_ms / 1000),
        since=f"{since} UTC",
    )
    return f"{head}; {counted}"


def _heads(facts: ExpiryFacts, rules: Texts) -> Texts:
    alone = facts.simple | facts.empty
    head = np.where(alone, NOBODY_THERE, NOBODY_SUBSCRIBES).astype(object)
    for rule, words in RULE_TEXTS.items():
        head[np.equal(rules, rule)] = words
    head[np.equal(rules, ExpiryRule.UNKNOWN)] = ""
    return head


def _lacks(facts: ExpiryFacts, rules: Texts, clock: RetentionTimer) -> Texts:
    """Return which fact is missing for offsets without a forecast."""
    unknown = np.equal(rules, ExpiryRule.UNKNOWN)
    a_kind = facts.simple | facts.classic | facts.modern
    a_state = facts.empty | facts.live
    waiting = np.isnat(clock.expires_at) & ~np.isin(rules, NOT_EXPIRING) & ~unknown
    no_start = waiting & np.isnat(clock.since)
    unread = unknown & a_kind & a_state & (facts.unreadable != "")
    cases = [
        (unknown & ~a_kind, "group type unknown"),
        (unknown & ~a_state, "group state unknown, or the group no longer exists"),
        (unknown, "subscription unknown"),
        (no_start & np.equal(rules, ExpiryRule.EMPTY_SINCE), "unknown when the group became Empty"),
        (no_start, "commit time unknown"),
        (waiting & np.isnat(facts.retention), "offsets.retention.minutes unknown"),
        (waiting, "the date is out of range"),
    ]
    found = np.select([where for where, _ in cases], [text for _, text in cases], "")
    words = found.astype(object)
    words[unread] += ": " + facts.unreadable[unread]
    return words


def _minutes(times: Times) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return times.astype("datetime64[m]").astype("int64")
