"""
List unused offsets (unsubscribed, or of deleted topics) and unused groups.

The three kinds overlap: an offset of a deleted topic may also be unsubscribed. It is then listed
under both, because each has its own reason and remedy.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pandas as pd

from toolkit.model import GroupState, GroupType
from toolkit.model.snapshot import NO_TOPIC
from toolkit.planning.unsubscribed.unsubscribed_offsets import (
    no_member_subscribes,
    uncheckable_reason_for,
)

UNSUBSCRIBED = "unsubscribed"
DELETED_TOPIC = "deleted topic"
EMPTY_GROUP = "empty group"

BY_MEMBERS = "the members' subscriptions"
BY_BROKER = "the broker"
OWN_RECORD = "group record in __consumer_offsets"
LAST_COMMIT = "last commit"

# Values for missing inputs of a rule.
UNKNOWN: dict[Any, Any] = {
    "type": GroupType.UNKNOWN,
    "state": GroupState.UNKNOWN,
    "protocol_type": "",
    "unreadable": "subscription unknown",
}
COLUMNS = [
    *("cluster", "group", "topic", "partition", "kind", "lag", "committed_at", "since"),
    *("source", "why"),
]
GROUP = ["cluster", "group"]
TIME = "datetime64[ms, UTC]"


def find_unused_offsets(
    partitions: pd.DataFrame, *, now: datetime, unused_group_days: float
) -> pd.DataFrame:
    """
    List unused offsets and groups, one row each.

    Columns: cluster, group, topic, partition, kind, lag, committed_at, since, source, why.

    Reads cluster, group, topic, partition, committed, committed_at, lag, log_problem, type, state,
    protocol_type, members, subscribed, unreadable and empty_since.

    - *unsubscribed*: an offset of a live group without a member that subscribes to the topic, by
      the rule of `unsubscribed_offsets`; the broker accepts its deletion.
    - *deleted topic*: an offset of a topic that does not exist.
    - *empty group*: one row for a group unused for `unused_group_days`, without a topic; lag is the
      sum over its partitions, null if one is unknown. `since` is when it became Empty or last
      committed, whichever is later, and `source` the evidence. The last commit alone is a lower
      bound, because members may have left later: `why` says so.
    """
    found = [
        _unsubscribed(partitions),
        _of_deleted_topics(partitions),
        _empty_groups(partitions, now - timedelta(days=unused_group_days)),
    ]
    columns = [part[COLUMNS] for part in found if len(part)]
    if not columns:
        return found[0][COLUMNS].reset_index(drop=True)
    return pd.concat(columns, ignore_index=True)


def _unsubscribed(partitions: pd.DataFrame) -> pd.DataFrame:
    is_out = ~partitions["subscribed"].astype("boolean") & partitions["committed"].notna()
    is_out &= partitions["members"].ne(0)  # live, but without known members: still forming
    rows = partitions[is_out.fillna(value=False).to_numpy(bool)]
    kinds = list(rows[list(UNKNOWN)].fillna(UNKNOWN).itertuples(index=False, name=None))
    why = {kind: uncheckable_reason_for(*kind) for kind in set(kinds)}  # only a few distinct values
    judged = [not why[kind] for kind in kinds]
    rows = rows[np.array(judged, bool)]
    members = rows["members"].astype("Int64").astype("object")
    reasons = members.map(lambda count: no_member_subscribes(None if pd.isna(count) else count))
    return rows.assign(kind=UNSUBSCRIBED, since=_no_time(rows), source=BY_MEMBERS, why=reasons)


def _of_deleted_topics(partitions: pd.DataFrame) -> pd.DataFrame:
    is_gone = (partitions["log_problem"] == NO_TOPIC) & partitions["committed"].notna()
    rows = partitions[is_gone.to_numpy(bool)]
    return rows.assign(
        kind=DELETED_TOPIC, since=_no_time(rows), source=BY_BROKER, why="topic does not exist"
    )


def _empty_groups(partitions: pd.DataFrame, before: datetime) -> pd.DataFrame:
    is_empty = (partitions["state"] == "Empty") & partitions["committed"].notna()
    commits = partitions[is_empty.to_numpy(bool)].groupby(GROUP, sort=False)
    table = commits.agg(
        type=("type", "first"),
        committed_at=("committed_at", "max"),
        empty_since=("empty_since", "max"),
        lag=("lag", "sum"),
        known_lags=("lag", "count"),
        known_times=("committed_at", "count"),
        partitions=("partition", "size"),
    ).reset_index()
    # If a commit time is missing, that commit may be later.
    last_at = table["committed_at"].where(table["known_times"] == table["partitions"])
    facts = (table["type"], table["empty_since"], table["committed_at"], last_at)
    found = [_last_use(*row) for row in zip(*facts, strict=True)]
    used = pd.DataFrame(found, table.index, ["since", "source", "why"], dtype="object")
    table = table.join(used.astype({"since": TIME})).assign(
        topic=None,
        partition=pd.array([pd.NA] * len(table), dtype="Int64"),
        kind=EMPTY_GROUP,
        lag=table["lag"].where(table["known_lags"] == table["partitions"]),
    )
    return table[(table["since"] <= before).to_numpy(bool)]


def _last_use(
    kind: str, empty_since: pd.Timestamp, committed_at: pd.Timestamp, last_at: pd.Timestamp
) -> tuple[pd.Timestamp, str, str]:
    """Return since when an Empty group is unused, by what, and why; NaT if that is not known."""
    # A later commit means that the group was used without joining it.
    if pd.notna(empty_since) and committed_at > empty_since:
        why = "no members, but a later commit (assign() or an admin client)"
        return committed_at, LAST_COMMIT, why
    if pd.notna(empty_since):
        return empty_since, OWN_RECORD, "no members since then"
    if kind == GroupType.SIMPLE:
        why = "simple group (no members by design): last use is the latest commit"
        return last_at, LAST_COMMIT, why
    if kind in {GroupType.CONSUMER, GroupType.STREAMS}:
        return last_at, LAST_COMMIT, "Empty now; the last member may have left later"
    return pd.NaT, "", ""


def _no_time(rows: pd.DataFrame) -> pd.Series:
    return pd.Series(pd.NaT, rows.index, dtype=TIME)
