"""
Match each committed offset to the brokers' expiry rules and compute its retention timer.

The rules were measured one by one on Apache Kafka 4.3 (KIP-211, KIP-496 and KIP-848 describe parts
of them). They are tried in the order of `ExpiryRule`; the first match decides. Brokers check at
every check interval, so an offset expires at the first check at or after its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from toolkit.model import UNPARSED, GroupState, GroupType
from toolkit.model.groups import CLASSIC_REBALANCES
from toolkit.model.snapshot import NO_TOPIC
from toolkit.planning.frames.row_slices import Texts, texts_in

Flags = npt.NDArray[np.bool_]
Times = npt.NDArray[np.datetime64]
Durations = npt.NDArray[np.timedelta64]

CONSUMERS = "consumer"  # protocol type of classic consumer groups
NOT_LIVE = (GroupState.EMPTY, GroupState.DEAD, GroupState.UNKNOWN)
NO_TIME = np.datetime64("NaT", "ms")
LAST_DAY = np.datetime64("9999-12-31T00:00", "ms")  # later dates are out of range


class ExpiryFacts:
    """
    The facts about each row of a frame of partitions.

    `simple`, `classic`, `modern` and `share` are kinds of group; `modern` is KIP-848 and streams,
    whose coordinator has the same rules. `empty`: certainly without members; `live`: with members.
    """

    def __init__(self, partitions: pd.DataFrame) -> None:
        kind, state = texts_in(partitions["type"]), texts_in(partitions["state"])
        protocol = texts_in(partitions["protocol_type"])
        self.nothing: Flags = partitions["committed"].isna().to_numpy(dtype=bool)
        self.deleted: Flags = np.equal(texts_in(partitions["log_problem"]), NO_TOPIC)
        # `settled`: certainly no pending transaction.
        self.pending, self.settled = _answers(partitions["pending"])
        self.live: Flags = (state != "") & ~_is_in(state, NOT_LIVE)
        self.empty: Flags = np.equal(state, GroupState.EMPTY)
        self.rebalancing = _is_in(state, CLASSIC_REBALANCES)
        self.stable: Flags = np.equal(state, GroupState.STABLE)
        # A classic group that never had a member has no protocol type, as on the broker.
        never_used = np.equal(kind, GroupType.CLASSIC) & (protocol == "") & self.empty
        self.simple: Flags = (np.equal(kind, GroupType.SIMPLE) & ~self.live) | never_used
        self.classic: Flags = np.equal(kind, GroupType.CLASSIC) & ~self.simple
        self.modern = _is_in(kind, (GroupType.CONSUMER, GroupType.STREAMS))
        self.share: Flags = np.equal(kind, GroupType.SHARE)
        self.of_consumers: Flags = np.equal(protocol, CONSUMERS)
        self.of_others: Flags = (protocol != "") & (protocol != CONSUMERS)
        self.subscribed, self.unsubscribed = _answers(partitions["subscribed"])
        self.unreadable = texts_in(partitions["unreadable"])
        self.committed_at = _times(partitions["committed_at"])
        self.chosen_at = _times(partitions["expire_at"])  # that an old client set in the commit
        self.empty_since = _times(partitions["empty_since"])
        self.retention = _durations(partitions["retention_s"])
        self.check_interval = _durations(partitions["check_interval_s"])


def later(times: Times, durations: Durations) -> Times:
    """Return times plus durations; NaT if either is unknown or the result is out of range."""
    moved = times + durations
    return np.where(moved <= LAST_DAY, moved, NO_TIME)


def _is_in(texts: Texts, values: tuple[str, ...]) -> Flags:
    found = np.zeros(len(texts), dtype=bool)
    for one in values:
        found |= np.equal(texts, one)
    return found


def _answers(column: pd.Series[Any]) -> tuple[Flags, Flags]:
    """Return where a flag is known to be true, and where it is known to be false."""
    answers = column.astype("boolean")
    return (
        answers.fillna(value=False).to_numpy(dtype=bool),
        (~answers).fillna(value=False).to_numpy(dtype=bool),
    )


def _times(column: pd.Series[Any]) -> Times:
    return column.astype("datetime64[ms, UTC]").to_numpy(dtype="datetime64[ms]")


def _durations(column: pd.Series[Any]) -> Durations:
    seconds = column.astype("Int64")
    lengths = (seconds.fillna(0).to_numpy(dtype="int64") * 1000).astype("timedelta64[ms]")
    return np.where(seconds.isna(), np.timedelta64("NaT", "ms"), lengths)


class ExpiryRule(StrEnum):
    """The expiry rules, in order."""

    NO_COMMIT = "no commit"  # nothing can expire
    TOPIC_DELETED = "topic deleted"
    SHARE_GROUP = "share group"
    OPEN_TRANSACTION = "open transaction"
    OTHER_PROTOCOL = "live, not of consumers"  # Connect
    REBALANCING = "rebalancing"
    UNPARSED = "subscription not parseable"
    SUBSCRIBED = "subscribed"
    CHOSEN_TIME = "time chosen with the commit"  # OffsetCommit versions 2 to 4
    EMPTY_SINCE = "empty since"  # one timer for all offsets of a classic group
    SIMPLE_GROUP = "simple group"  # from here on the timer of each offset starts at its commit
    NOT_SUBSCRIBED = "nobody subscribes"
    UNKNOWN = "unknown"


class Confidence(StrEnum):
    """Confidence of a forecast, with or without a time."""

    HIGH = "high"  # all inputs of the broker's decision are known
    MEDIUM = "medium"  # at the earliest: an open transaction may keep it for longer
    LOW = "low"  # a bound that unseen events move, such as repeated commits of the same offset
    NONE = "none"  # unknown


NOT_EXPIRING = (
    *(
        ExpiryRule.NO_COMMIT,
        ExpiryRule.SHARE_GROUP,
        ExpiryRule.OPEN_TRANSACTION,
        ExpiryRule.OTHER_PROTOCOL,
    ),
    *(ExpiryRule.REBALANCING, ExpiryRule.UNPARSED, ExpiryRule.SUBSCRIBED),
)


class Basis(StrEnum):
    """Start of the retention timer in a forecast."""

    NOTHING = ""
    CHOSEN = "chosen"
    EMPTY = "empty"
    COMMIT = "commit"
    OLD_RECORD = "old record"  # group record from before Kafka 2.1, without a timestamp


@dataclass(frozen=True, slots=True)
class RetentionTimer:
    """Basis, start and end of the retention timer of each offset, as arrays."""

    basis: Texts
    since: Times
    expires_at: Times


def rules_of(facts: ExpiryFacts) -> Texts:
    of_consumers = facts.classic & facts.of_consumers
    listening = (of_consumers & facts.stable) | (facts.modern & facts.live)
    alone = facts.empty & (facts.classic | facts.modern)
    not_subscribed = facts.unsubscribed & ((of_consumers & facts.stable) | facts.modern)
    free = facts.simple | alone | not_subscribed
    table: dict[ExpiryRule, Flags] = {
        ExpiryRule.NO_COMMIT: facts.nothing,
        ExpiryRule.TOPIC_DELETED: facts.deleted,
        ExpiryRule.SHARE_GROUP: facts.share,
        ExpiryRule.OPEN_TRANSACTION: facts.pending,
        ExpiryRule.OTHER_PROTOCOL: facts.classic & facts.of_others & facts.live,
        ExpiryRule.REBALANCING: of_consumers & facts.rebalancing,
        ExpiryRule.UNPARSED: of_consumers & facts.stable & np.equal(facts.unreadable, UNPARSED),
        ExpiryRule.SUBSCRIBED: listening & facts.subscribed,
        ExpiryRule.CHOSEN_TIME: free & ~np.isnat(facts.chosen_at),
        ExpiryRule.EMPTY_SINCE: facts.classic & facts.empty,
        ExpiryRule.SIMPLE_GROUP: facts.simple,
        ExpiryRule.NOT_SUBSCRIBED: free,
    }
    found = np.select([*table.values()], [*map(str, table)], str(ExpiryRule.UNKNOWN))
    return found.astype(object)


def retention_timers(facts: ExpiryFacts, rules: Texts, *, now: np.datetime64) -> RetentionTimer:
    """Return the retention timer of each offset whose rule has one."""
    of_commit, of_group = _commit_clock(facts), _group_clock(facts)
    chosen = np.equal(rules, ExpiryRule.CHOSEN_TIME)
    by_choice = np.full_like(rules, str(Basis.CHOSEN))
    by_commit = np.isin(rules, (ExpiryRule.SIMPLE_GROUP, ExpiryRule.NOT_SUBSCRIBED))
    cases = [chosen, np.equal(rules, ExpiryRule.EMPTY_SINCE), by_commit]
    overdue = np.where(np.equal(rules, ExpiryRule.TOPIC_DELETED), now, NO_TIME)
    return RetentionTimer(
        np.select(cases, [by_choice, of_group.basis, of_commit.basis], ""),
        np.select(cases, [facts.chosen_at, of_group.since, of_commit.since], NO_TIME),
        np.select(cases, [facts.chosen_at, of_group.expires_at, of_commit.expires_at], overdue),
    )


def expiry_if_stopped(facts: ExpiryFacts, clock: RetentionTimer, *, now: np.datetime64) -> Times:
    """
    Return when each offset would expire if the last member of its group left now.

    A classic group then restarts its timer; in a KIP-848 or streams group the timer of each commit
    has been running all the time (measured; KIP-211 and the documentation of
    offsets.retention.minutes differ). A group without members has already stopped.
    """
    from_now = later(np.full(len(facts.live), now), facts.retention)
    own = np.where(facts.modern, _commit_clock(facts).expires_at, from_now)
    own = np.where(np.isnat(facts.chosen_at), own, facts.chosen_at)
    alive = facts.live & (facts.modern | (facts.classic & (facts.of_consumers | facts.of_others)))
    after = np.where(np.isnat(own), NO_TIME, np.maximum(own, now))
    not_expiring = facts.nothing | facts.share | facts.pending
    return np.select(
        [facts.deleted & ~facts.nothing, not_expiring, alive, facts.simple | facts.empty],
        [clock.expires_at, np.full_like(after, NO_TIME), after, clock.expires_at],
        NO_TIME,
    )


def confidences_of(facts: ExpiryFacts, rules: Texts, clock: RetentionTimer) -> Texts:
    not_expiring = np.isin(rules, NOT_EXPIRING)
    missed = np.equal(rules, ExpiryRule.TOPIC_DELETED)  # or it would no longer exist
    cases = [
        ~not_expiring & np.isnat(clock.expires_at),
        np.equal(clock.basis, Basis.OLD_RECORD) | missed,
        ~not_expiring & ~facts.settled,  # an open transaction may keep the offset for longer
    ]
    words = [Confidence.NONE, Confidence.LOW, Confidence.MEDIUM]
    return np.select(cases, words, Confidence.HIGH).astype(object)


def _commit_clock(facts: ExpiryFacts) -> RetentionTimer:
    since = facts.committed_at
    basis = np.where(np.isnat(since), Basis.NOTHING, Basis.COMMIT)
    return RetentionTimer(basis.astype(object), since, later(since, facts.retention))


def _group_clock(facts: ExpiryFacts) -> RetentionTimer:
    """Return the retention timer of a classic group that is Empty."""
    timed, of_commit = ~np.isnat(facts.empty_since), _commit_clock(facts)
    by_commit = np.equal(of_commit.basis, Basis.COMMIT)
    basis = np.select([timed, by_commit], [Basis.EMPTY, Basis.OLD_RECORD], of_commit.basis)
    since = np.where(timed, facts.empty_since, of_commit.since)
    return RetentionTimer(basis.astype(object), since, later(since, facts.retention))
