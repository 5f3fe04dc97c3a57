"""
Compute lag in offsets.

Lag is counted as Kafka does: from the committed offset, or the log start offset if that is later,
to the log end offset. That is at most so many unread records: aborted records, markers that end
transactions, and records that compaction removed have offsets, too. Lag is null in three cases:

- *no commit*: the start depends on the consumers' auto.offset.reset, which is unknown;
- *beyond log end*: the topic was truncated or re-created;
- *log unknown*: the log offsets could not be read.

Records between the committed offset and a later log start offset were deleted unread. They are
counted separately as lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.model import LogOffsets

if TYPE_CHECKING:
    import pandas as pd

IN_RANGE = "in range"
LOST_RECORDS = "lost records"
BEYOND_LOG_END = "beyond log end"
NO_COMMIT = "no commit"
LOG_UNKNOWN = "log unknown"


def lag_of(
    committed: int | None, log: LogOffsets
) -> tuple[int | None, int | None, int | None, str]:
    """Return lag, stable lag, lost records and position of one partition, as in `with_lag`."""
    start, end, stable = log.log_start, log.log_end, log.last_stable
    if committed is None:
        return None, None, None, NO_COMMIT
    if start is None or end is None:
        return None, None, None, LOG_UNKNOWN
    if committed > end:
        return None, None, None, BEYOND_LOG_END
    first = max(committed, start)
    lost = first - committed
    lag = end - first if end > first else 0
    stable_lag = None if stable is None else stable - first if stable > first else 0
    return lag, stable_lag, lost, LOST_RECORDS if lost else IN_RANGE


def with_lag(offsets: pd.DataFrame) -> pd.DataFrame:
    """
    Add lag, stable_lag, lost (Int64, offsets) and position (one of the constants above).

    Reads committed, log_start, log_end and last_stable (Int64). `stable_lag` counts to the last
    stable offset: a read_committed consumer cannot read further while a transaction is open.
    """
    import pandas as pd  # noqa: PLC0415 - a command that starts at once asks `lag_of`

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
    Sum partitions with lag up to one row for each cluster and group, largest lag first.

    Of equal lags, the first cluster, group, topic and partition comes first, whatever the order of
    the rows.

    Columns: cluster, group, topics, partitions, lag, lost (Int64; null if unknown for all
    partitions, never 0 instead), unknown_lag_partitions (partitions with unknown lag), worst_topic,
    worst_partition, worst_lag.
    """
    keys = ["cluster", "group"]
    grouped = partitions.groupby(keys, sort=False, dropna=False)
    table = grouped.agg(
        topics=("topic", "nunique"), partitions=("partition", "size"), counted=("lag", "count")
    )
    # min_count keeps a group without any known lag null: pandas would return 0.
    table["lag"] = grouped["lag"].sum(min_count=1)
    table["lost"] = grouped["lost"].sum(min_count=1)
    table["unknown_lag_partitions"] = table["partitions"] - table.pop("counted")
    ordered = most_behind_first(partitions, "topic", "partition")
    worst = ordered.dropna(subset=["lag"]).drop_duplicates(keys).set_index(keys)
    table["worst_topic"] = worst["topic"]
    table["worst_partition"] = worst["partition"].astype("Int64")
    table["worst_lag"] = worst["lag"]
    return most_behind_first(table.reset_index(), *keys)


def most_behind_first(rows: pd.DataFrame, *names: str) -> pd.DataFrame:
    """Return rows with the largest lag first and unknown lag last; names decide ties."""
    up = [False, *(True for _ in names)]
    return rows.sort_values(["lag", *names], ascending=up, na_position="last", ignore_index=True)


def lag_in_words(lags: pd.Series, unknown: int | None = None) -> str:
    """
    Return the sum of lags: `180`, or `at least 180 (2 unknown)`.

    `unknown` counts those that the sum lacks; without it, the lags that are null.
    """
    lacking = int(lags.isna().sum() if unknown is None else unknown)
    total = f"{int(lags.sum()):,}"
    return f"at least {total} ({lacking:,} unknown)" if lacking else total
