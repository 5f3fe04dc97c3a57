"""Select offsets that expire within a period, or would if their group stopped; sum by group."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

import pandas as pd

from toolkit.model import GroupType, Snapshot
from toolkit.model.rows import Kind, Rows
from toolkit.planning.expiry.expiry_rules import Confidence
from toolkit.planning.expiry.with_expiry import with_expiry
from toolkit.planning.frames.frame_of import UTC_TIME, frame_of
from toolkit.planning.frames.snapshot_frames import offsets_frame

GROUP = ["cluster", "group"]
PLACE = [*GROUP, "topic", "partition"]
IDLE_COLUMNS: dict[str, Kind] = {
    "group": "name",
    **dict.fromkeys(("type", "state", "protocol_type"), "text"),
    "empty_since": "time",
}
DOUBT = {str(confidence): place for place, confidence in enumerate(Confidence)}


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
    idle = [
        (group.group_id, str(group.type), str(group.state), group.protocol_type, group.empty_since)
        for group in snapshot.groups
        if not group.is_live
    ]
    facts = frame_of(Rows(IDLE_COLUMNS, idle), {"empty_since": UTC_TIME})
    offsets = (
        offsets_frame(snapshot)
        .merge(facts, on="group")
        .assign(
            subscribed=False,
            unreadable="",
            log_problem="",
            source="offsets topic",
            expire_at=None,
            retention_s=retention_s,
            check_interval_s=check_interval_s,
        )
    )
    expiry = with_expiry(offsets, now=snapshot.taken_at)
    return expiry.groupby("group")["expires_at"].agg(lambda at: at.max(skipna=False))
