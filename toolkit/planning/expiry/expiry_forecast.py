"""
Forecast when committed offsets expire, and when they would if their group stopped.

The brokers' rules are in `expiry_rules`; here they become columns of a frame of partitions. A time
is given only if it follows from facts; a bound is marked as such. The time of the brokers' next
check is unknown: within one check interval, and up to one more after a coordinator moved or
restarted.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from pandas.arrays import DatetimeArray

from toolkit.model import GroupType, Snapshot
from toolkit.model.commit_columns import with_own_expiry
from toolkit.model.times import format_duration
from toolkit.planning.expiry.expiry_rules import (
    NO_TIME,
    NOT_EXPIRING,
    Basis,
    Confidence,
    ExpiryFacts,
    ExpiryRule,
    RetentionTimer,
    Times,
    confidences_of,
    expiry_if_stopped,
    later,
    retention_timers,
    rules_of,
)
from toolkit.planning.frames.frame_of import UTC_TIME
from toolkit.planning.frames.row_slices import Texts, assign_by_slices
from toolkit.planning.frames.snapshot_frames import offsets_frame

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
}

GROUP = ["cluster", "group"]
PLACE = [*GROUP, "topic", "partition"]
DOUBT = {str(confidence): place for place, confidence in enumerate(Confidence)}


def with_expiry(partitions: pd.DataFrame, *, now: datetime) -> pd.DataFrame:
    """
    Add when each committed offset expires, by which rule, why, and the confidence.

    Reads committed, type, state, protocol_type, subscribed, unreadable, pending, log_problem,
    committed_at, expire_at, empty_since, retention_s and check_interval_s. `now` is when the facts
    were read.

    Adds expires_at (null: never, or unknown), expires_by (the latest: a check interval later, and
    never before that from now), expiry_rule (an `ExpiryRule`), expiry_why, expires_if_stopped_at
    (if the group's last member left now; without members, expires_at),
    expires_immediately_if_stopped (null if unknown) and expiry_confidence (a `Confidence`; "none":
    unknown, and expires_at is null for that reason). Times are UTC.
    """
    at = np.datetime64(now.astimezone(UTC).replace(tzinfo=None)).astype("datetime64[ms]")
    return assign_by_slices(partitions, partial(_expiry_columns, at=at))


def _expiry_columns(partitions: pd.DataFrame, *, at: np.datetime64) -> dict[str, Any]:
    facts = ExpiryFacts(partitions)
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
            "since": np.where(timed, clock.since.astype("datetime64[m]").astype("int64"), 0),
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


class ExpiryForecast(NamedTuple):
    """
    Offsets that expire within a period, and offsets at risk if the last member leaves now.

    `rows` are the offsets that expire without intervention, soonest first. `at_risk` are other
    offsets, of live groups, whose retention timer runs although the group has members (KIP-848 and
    streams groups; in a classic group only if a client set the expiry time), soonest first. Both
    have the columns of `with_expiry`.
    """

    rows: pd.DataFrame
    at_risk: pd.DataFrame


def select_expiring(partitions: pd.DataFrame, *, now: datetime, within_s: float) -> ExpiryForecast:
    """Return which rows of a `with_expiry` frame expire within a period, and which are at risk."""
    until = pd.Timestamp(now + timedelta(seconds=within_s))
    vanishes = partitions["expires_at"] <= until
    # A group without members has already stopped: its offsets are in `rows`.
    stopped = (partitions["expires_if_stopped_at"] <= until) & ~vanishes
    at_risk = stopped & (
        (partitions["type"] != GroupType.CLASSIC) | partitions["expire_at"].notna()
    )
    return ExpiryForecast(
        partitions[vanishes].sort_values(["expires_at", *PLACE], kind="stable"),
        partitions[at_risk].sort_values(["expires_if_stopped_at", *PLACE], kind="stable"),
    )


def expiry_by_group(partitions: pd.DataFrame) -> pd.DataFrame:
    """
    Sum a frame of `with_expiry` up to one row for each cluster and group, soonest first.

    Columns: cluster, group, type, state, offsets (how many it has committed), expiring (those with
    a time), kept (those that currently do not expire), unknown (neither known), first_at and
    last_at (first and last expiry), first_topic, first_partition, why and rule (of the first),
    expires_immediately_if_stopped (how many would expire at once if the last member left),
    confidence (the lowest of its forecasts).
    """
    rows = partitions[partitions["committed"].notna()]
    unknown = rows["expiry_confidence"] == Confidence.NONE
    timed = rows["expires_at"].notna()
    rows = rows.assign(
        _expiring=timed,
        _unknown=unknown,
        _not_expiring=~timed & ~unknown,
        _at_once=rows["expires_immediately_if_stopped"].fillna(value=False).astype(bool),
        _doubt=rows["expiry_confidence"].map(DOUBT).fillna(0).astype("int64"),
    )
    # The offset that expires first represents its group.
    rows = rows.sort_values(["expires_at", *PLACE], na_position="last", kind="stable")
    table = rows.groupby(GROUP, sort=False, dropna=False).agg(
        type=("type", "first"),
        state=("state", "first"),
        offsets=("committed", "size"),
        expiring=("_expiring", "sum"),
        kept=("_not_expiring", "sum"),
        unknown=("_unknown", "sum"),
        first_at=("expires_at", "min"),
        last_at=("expires_at", "max"),
        first_topic=("topic", "first"),
        first_partition=("partition", "first"),
        why=("expiry_why", "first"),
        rule=("expiry_rule", "first"),
        expires_immediately_if_stopped=("_at_once", "sum"),
        confidence=("_doubt", "max"),
    )
    table["confidence"] = table["confidence"].map(dict(enumerate(map(str, Confidence))))
    return table.reset_index()


def last_expiry(
    snapshot: Snapshot, *, retention_s: int | None, check_interval_s: int | None
) -> pd.Series[pd.Timestamp]:
    """
    Return by group when brokers expire the last offset of each group without members.

    UTC, null if it is unknown for one of its offsets. Takes a snapshot with commit times, and the
    brokers' settings `offsets.retention.minutes` and `offsets.retention.check.interval.ms`.
    """
    idle = {group.group_id: group for group in snapshot.groups if not group.is_live}
    own = {
        (c.group_id, *c.topic_partition): c.expires_at for c in with_own_expiry(snapshot.commits)
    }
    offsets = offsets_frame(snapshot)
    offsets = offsets[offsets["group"].isin(idle.keys())]
    groups = [idle[name] for name in offsets["group"]]
    places = offsets[["group", "topic", "partition"]].itertuples(index=False, name=None)
    facts = offsets.assign(
        type=[str(group.type) for group in groups],
        state=[str(group.state) for group in groups],
        protocol_type=pd.Series([group.protocol_type for group in groups], offsets.index, "object"),
        empty_since=pd.Series([group.empty_since for group in groups], offsets.index, UTC_TIME),
        expire_at=pd.Series([own.get(place) for place in places], offsets.index, UTC_TIME),
        subscribed=False,
        unreadable="",
        log_problem="",
        retention_s=retention_s,
        check_interval_s=check_interval_s,
    )
    expiry = with_expiry(facts, now=snapshot.taken_at)
    return expiry.groupby("group")["expires_at"].agg(lambda at: at.max(skipna=False))
