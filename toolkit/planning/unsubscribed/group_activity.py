"""
What groups do to the offsets topic: commits, rebalances, and why committed offsets were removed.

KIP-496's meters, but by group and from the log instead of JMX. A tombstone does not tell its
reason. When the broker could first have expired the offset does, where it is known: earlier than
that, somebody deleted it (OffsetDelete, DeleteGroups, or its topic was deleted).
"""

from __future__ import annotations

from datetime import datetime
from math import isnan
from typing import Any

import numpy as np
import pandas as pd

EXPIRED = "expired"
DELETED = "deleted"
REMOVED = "removed"  # why cannot be told

# A check is written down within a second of its time, as measured on brokers.
CHECK_TAKES_S = 1.0
# Clients commit each partition every 5 s by default. Ten times as often is more than anybody who
# has to repeat a few seconds needs, and each commit is written, replicated, cleaned and loaded.
HOT_COMMITS_PER_S = 2.0

NOTHING_KNOWN = ""
OWN_TIME = "the expiry time set by the client"
AFTER_EMPTY = "group Empty + offsets.retention.minutes"
AFTER_COMMIT = "commit + offsets.retention.minutes"

ACTIVITY_COLUMNS = [
    *("cluster", "group", "window_from", "commits", "commits_per_s", "expirations", "deletions"),
    *("removals", "rebalances", "bytes_per_s", "complete", "hot", "why"),
]
KEYS = ["cluster", "group"]

Seconds = float | pd.Series | None


def with_removal_kinds(
    removals: pd.DataFrame, *, retention_s: Seconds, check_interval_s: Seconds
) -> pd.DataFrame:
    """
    Add kind (one of the words above) and why to removed offsets.

    Reads removed_at, committed, committed_at, expire_at, empty_since and group_kind: what the log
    held before the tombstone. An offset expires at the expiry time set by the client where it has
    one; of a classic group that is Empty, one retention after it became so; of any other, commit +
    offsets.retention.minutes; and then at the broker's next check. The two settings are numbers or
    a column of them. Without them, or without the value that was removed, the reason cannot be
    told; nor where something has kept the offset for longer, such as a member that subscribed to
    its topic. Give what was read from the start of the log: a group without a record of its own
    counts as simple.
    """
    index = removals.index
    retention, interval = (_column(value, index) for value in (retention_s, check_interval_s))
    is_empty = (removals["group_kind"] == "classic") & removals["empty_since"].notna()
    has_own = removals["expire_at"].notna()
    clock = removals["committed_at"].mask(is_empty, removals["empty_since"])
    due = clock + pd.to_timedelta(retention, unit="s")
    due = due.mask(has_own, removals["expire_at"])
    late = (removals["removed_at"] - due).dt.total_seconds()
    conditions = [removals["committed"].isna(), has_own, is_empty]
    rules = np.select(conditions, [NOTHING_KNOWN, OWN_TIME, AFTER_EMPTY], AFTER_COMMIT)
    judged = [_judged(*row) for row in zip(late, interval, rules, strict=True)]
    told = pd.DataFrame(judged, index=index, columns=["kind", "why"], dtype="object")
    return removals.assign(kind=told["kind"], why=told["why"])


def activity_by_group(
    activity: pd.DataFrame,
    removals: pd.DataFrame,
    *,
    since: datetime,
    now: datetime,
    commits: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """
    Sum up what each group did lately: one row for each cluster and group, busiest first.

    Reads of `activity` cluster, group, hour, bytes, commits, rebalances and complete; of `removals`
    cluster, group, removed_at and kind. `since` is where the window begins (window_from): what is
    counted by the hour counts from the hour in which that is, so give the start of one, or when
    reading began. removals: those of which the reason cannot be told. complete: nothing of it was
    compacted away; otherwise there may have been more of everything. `commits` (cluster, group; a
    row for each partition) tells how many partitions a group has. hot: it commits more than
    HOT_COMMITS_PER_S for each of them; null where that cannot be told, as `why` says.
    """
    window_from = pd.Timestamp(since)
    length_s = (pd.Timestamp(now) - window_from).total_seconds()
    wrote = activity[activity["hour"] >= window_from.floor("h")].groupby(KEYS)
    table = wrote[["commits", "rebalances", "bytes"]].sum()
    table["complete"] = wrote["complete"].all()
    gone = removals[removals["removed_at"] >= window_from]
    kinds = {EXPIRED: "expirations", DELETED: "deletions", REMOVED: "removals"}
    counted = gone.assign(**{name: gone["kind"] == kind for kind, name in kinds.items()})
    counts = counted.groupby(KEYS)[list(kinds.values())].sum()
    table = table.join(counts, how="outer")
    numbers = ["commits", "rebalances", "bytes", *kinds.values()]
    table[numbers] = table[numbers].fillna(0).astype("Int64")
    table["complete"] = table["complete"].astype("boolean")
    rate = table["commits"].astype("Float64") / length_s
    table = table.assign(
        window_from=window_from,
        commits_per_s=rate,
        bytes_per_s=table["bytes"].astype("Float64") / length_s,
    )
    known = commits if commits is not None else pd.DataFrame(columns=KEYS)
    partitions = known.groupby(KEYS).size().reindex(table.index, fill_value=0)
    told = [_hot(*row) for row in zip(rate, partitions, table["complete"], strict=True)]
    table["hot"] = pd.array([hot for hot, _ in told], dtype="boolean")
    table["why"] = pd.Series([why for _, why in told], table.index, dtype="object")
    busiest = table.reset_index().sort_values("commits", ascending=False, kind="stable")
    return busiest[ACTIVITY_COLUMNS].reset_index(drop=True)


def _judged(late_s: float, interval_s: float, rule: str) -> tuple[str, str]:
    """Return the kind of a removal that came some seconds after the offset was due, and why."""
    if rule == NOTHING_KNOWN:
        return REMOVED, "the removed value is no longer in the log"
    if isnan(late_s):
        return REMOVED, "its expiry time is unknown"
    if late_s < 0:
        return DELETED, f"{-late_s:.1f} s before {rule}"
    after = f"{late_s:.1f} s after {rule}"
    if isnan(interval_s):
        return REMOVED, f"{after}; offsets.retention.check.interval.ms is unknown"
    if late_s <= interval_s + CHECK_TAKES_S:
        return EXPIRED, f"{after}, at the next check"
    return REMOVED, f"{after}: expiry was delayed, or it was deleted"


def _hot(rate: float, partitions: int, complete: Any) -> tuple[bool | None, str]:
    """Return whether a group commits too often for the partitions that it has, and why."""
    each = rate / partitions if partitions else rate
    told = f"{each:.2f} commits/s per partition"
    if each > HOT_COMMITS_PER_S:
        if not partitions:
            return None, "number of committed partitions unknown"
        return True, (
            f"{told}; {HOT_COMMITS_PER_S:g} is already ten times the default rate of clients"
        )
    if pd.isna(complete) or not complete:
        return None, f"at least {told}; some of its records may be compacted away"
    return False, told if partitions else f"{rate:.2f} commits/s in total"


def _column(value: Seconds, index: pd.Index[Any]) -> pd.Series[float]:
    """Return a setting for each row, NaN where it is not known."""
    known = value if isinstance(value, pd.Series) else pd.Series(value, index, dtype="Float64")
    return known.astype("Float64").astype("float64")
