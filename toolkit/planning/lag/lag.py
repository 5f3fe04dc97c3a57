"""
How far behind a group is, in records.

Lag is what the group has still to read: from its committed offset, or from the log start where
that is later, to the log end. Three cases have no such number and get none:

- *no commit*: where the group would start is a setting of its consumers, unknown outside of them;
- *beyond log end*: the commit points past the last record: the topic was truncated or re-created;
- *log unknown*: the broker could not say where the log ends.

Records between the commit and a later log start are gone unread. They are counted apart as lost.
"""

from __future__ import annotations

import pandas as pd

IN_RANGE = "in range"
LOST_RECORDS = "lost records"
BEYOND_LOG_END = "beyond log end"
NO_COMMIT = "no commit"
LOG_UNKNOWN = "log unknown"


def with_lag(offsets: pd.DataFrame) -> pd.DataFrame:
    """
    Add lag, stable_lag, lost (Int64, records) and position (one of the constants above).

    Reads committed, log_start, log_end and last_stable (Int64). `stable_lag` counts to the last
    stable offset: a read_committed consumer cannot read further while a transaction is open.
    """
    committed, start, end = offsets["committed"], offsets["log_start"], offsets["log_end"]
    beyond = (committed > end).fillna(value=False)
    first_readable = committed.where((committed >= start).fillna(value=False), start)
    known = committed.notna() & start.notna() & end.notna() & ~beyond
    lost = (start - committed).clip(lower=0)
    position = pd.Series(IN_RANGE, index=offsets.index, dtype="object")
    position = position.mask((lost > 0).fillna(value=False), LOST_RECORDS)
    position = position.mask(beyond, BEYOND_LOG_END)
    position = position.mask(start.isna() | end.isna(), LOG_UNKNOWN)
    position = position.mask(committed.isna(), NO_COMMIT)
    return offsets.assign(
        lag=(end - first_readable).clip(lower=0).where(known),
        # A consumer may have committed past the last stable offset under another isolation level.
        stable_lag=(offsets["last_stable"] - first_readable).clip(lower=0).where(known),
        lost=lost.where(known),
        position=position,
    )


def lag_by_group(partitions: pd.DataFrame) -> pd.DataFrame:
    """
    Sum partitions with lag up to one row for each cluster and group, the most behind first.

    Columns: cluster, group, topics, partitions, lag, lost (Int64; null where no partition has a
    number, never 0 for want of one), without_lag (partitions with no number), worst_topic,
    worst_partition, worst_lag.
    """
    keys = ["cluster", "group"]
    grouped = partitions.groupby(keys, sort=False, dropna=False)
    table = grouped.agg(
        topics=("topic", "nunique"), partitions=("partition", "size"), counted=("lag", "count")
    )
    # min_count keeps a group without any known lag null: pandas would say 0.
    table["lag"] = grouped["lag"].sum(min_count=1)
    table["lost"] = grouped["lost"].sum(min_count=1)
    table["without_lag"] = table["partitions"] - table.pop("counted")
    ordered = partitions.sort_values("lag", ascending=False, na_position="last", kind="stable")
    worst = ordered.dropna(subset=["lag"]).drop_duplicates(keys).set_index(keys)
    table["worst_topic"] = worst["topic"]
    table["worst_partition"] = worst["partition"].astype("Int64")
    table["worst_lag"] = worst["lag"]
    by_lag = table.reset_index().sort_values("lag", ascending=False, na_position="last")
    return by_lag.reset_index(drop=True)
