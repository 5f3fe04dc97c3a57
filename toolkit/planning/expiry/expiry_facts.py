"""Inputs of the expiry rules, as one array per fact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from toolkit.model import GroupState, GroupType
from toolkit.model.snapshot import NO_TOPIC

Flags = npt.NDArray[np.bool_]
Texts = npt.NDArray[np.object_]
Times = npt.NDArray[np.datetime64]
Durations = npt.NDArray[np.timedelta64]

CONSUMERS = "consumer"  # protocol type of classic consumer groups
REBALANCING = (GroupState.PREPARING_REBALANCE, GroupState.COMPLETING_REBALANCE)
NOT_LIVE = (GroupState.EMPTY, GroupState.DEAD, GroupState.UNKNOWN)
NO_TIME = np.datetime64("NaT", "ms")
LAST_DAY = np.datetime64("9999-12-31T00:00", "ms")  # later dates are out of range


@dataclass(frozen=True, slots=True)
class ExpiryFacts:
    """
    The facts about each row of a frame of partitions.

    `simple`, `classic`, `modern` and `share` are kinds of group; `modern` is KIP-848 and streams,
    whose coordinator has the same rules. `empty`: certainly without members; `live`: with members.
    """

    nothing: Flags  # no committed offset
    deleted: Flags
    pending: Flags
    settled: Flags  # certainly no pending transaction
    simple: Flags
    classic: Flags
    modern: Flags
    share: Flags
    empty: Flags
    live: Flags
    rebalancing: Flags
    stable: Flags
    of_consumers: Flags
    of_others: Flags
    subscribed: Flags
    unsubscribed: Flags
    unreadable: Texts
    committed_at: Times
    chosen_at: Times  # the expiry time that an old client set in the commit
    empty_since: Times
    seen_since: Times
    retention: Durations
    check_interval: Durations

    @classmethod
    def of(cls, partitions: pd.DataFrame) -> ExpiryFacts:
        """Return the facts in a frame; `seen_since` may be missing from it."""
        kind, state = _texts(partitions["type"]), _texts(partitions["state"])
        protocol = _texts(partitions["protocol_type"])
        live = (state != "") & ~_is_in(state, NOT_LIVE)
        empty = np.equal(state, GroupState.EMPTY)
        # A classic group that never had a member has no protocol type, as on the broker.
        simple = np.equal(kind, GroupType.SIMPLE) & ~live
        simple |= np.equal(kind, GroupType.CLASSIC) & (protocol == "") & empty
        subscribed, unsubscribed = _answers(partitions["subscribed"])
        return cls(
            nothing=partitions["committed"].isna().to_numpy(dtype=bool),
            deleted=np.equal(_texts(partitions["log_problem"]), NO_TOPIC),
            pending=_answers(partitions["pending"])[0],
            settled=_answers(partitions["pending"])[1],
            simple=simple,
            classic=np.equal(kind, GroupType.CLASSIC) & ~simple,
            modern=_is_in(kind, (GroupType.CONSUMER, GroupType.STREAMS)),
            share=np.equal(kind, GroupType.SHARE),
            empty=empty,
            live=live,
            rebalancing=_is_in(state, REBALANCING),
            stable=np.equal(state, GroupState.STABLE),
            of_consumers=np.equal(protocol, CONSUMERS),
            of_others=(protocol != "") & (protocol != CONSUMERS),
            subscribed=subscribed,
            unsubscribed=unsubscribed,
            unreadable=_texts(partitions["unreadable"]),
            committed_at=_times(partitions["committed_at"]),
            chosen_at=_times(partitions["expire_at"]),
            empty_since=_times(partitions["empty_since"]),
            seen_since=_times(partitions["seen_since"])
            if "seen_since" in partitions
            else np.full(len(partitions), NO_TIME),
            retention=_durations(partitions["retention_s"]),
            check_interval=_durations(partitions["check_interval_s"]),
        )


def later(times: Times, durations: Durations) -> Times:
    """Return times plus durations; NaT if either is unknown or the result is out of range."""
    moved = times + durations
    return np.where(moved <= LAST_DAY, moved, NO_TIME)


def _texts(column: pd.Series[Any]) -> Texts:
    """Return texts, "" for missing ones."""
    values = column.to_numpy(dtype=object)
    missing = column.isna().to_numpy(dtype=bool)
    return np.where(missing, "", values) if missing.any() else values


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
