"""Explain the expiry of each committed offset as text."""

from __future__ import annotations

import numpy as np
import pandas as pd

from toolkit.model.times import format_duration
from toolkit.planning.expiry.expiry_facts import ExpiryFacts, Texts, Times
from toolkit.planning.expiry.expiry_rules import KEPT, Basis, ExpiryRule, RetentionTimer

NOBODY_THERE, NOBODY_SUBSCRIBES = "group has no members", "no member subscribes"
SAID = {
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


def reasons_of(facts: ExpiryFacts, rules: Texts, clock: RetentionTimer) -> Texts:
    """Return why each offset expires when it does, is kept, or has no forecast."""
    lacks = _lacks(facts, rules, clock)
    timed = ~np.isnat(clock.expires_at) & ~np.equal(rules, ExpiryRule.TOPIC_DELETED)
    said = pd.DataFrame(
        {
            "head": _heads(facts, rules),
            "basis": np.where(timed, clock.basis, ""),
            "length": np.where(timed, facts.retention.astype("int64"), 0),
            "since": np.where(timed, _minutes(clock.since), 0),
            "lacks": lacks,
        }
    )
    # Many offsets have the same reason: each is formatted once.
    of = said.groupby(list(said.columns), sort=False).ngroup().to_numpy()
    words = [
        _reason_text(*row) for row in said.drop_duplicates().itertuples(index=False, name=None)
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
    for rule, words in SAID.items():
        head[np.equal(rules, rule)] = words
    head[np.equal(rules, ExpiryRule.UNKNOWN)] = ""
    return head


def _lacks(facts: ExpiryFacts, rules: Texts, clock: RetentionTimer) -> Texts:
    """Return which fact is missing for offsets without a forecast."""
    unknown = np.equal(rules, ExpiryRule.UNKNOWN)
    a_kind = facts.simple | facts.classic | facts.modern
    a_state = facts.empty | facts.live
    waiting = np.isnat(clock.expires_at) & ~np.isin(rules, KEPT) & ~unknown
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
    found = np.select([where for where, _ in cases], [said for _, said in cases], "")
    words = found.astype(object)
    words[unread] += ": " + facts.unreadable[unread]
    return words


def _minutes(times: Times) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return times.astype("datetime64[m]").astype("int64")
