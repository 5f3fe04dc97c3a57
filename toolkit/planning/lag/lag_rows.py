"""
Lag of partitions and groups as plain rows, for commands that start at once and for large clusters.

The rules are those of `lag.py`, which computes them for frames; a test compares the two.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter, itemgetter

from toolkit.model import Snapshot, TopicPartition
from toolkit.model.commit_columns import CommitColumns, columns_of
from toolkit.model.rows import Kind, Row, Rows
from toolkit.planning.lag.group_topics import NO_LOG, UNKNOWN, GroupTopic, by_group_and_topic
from toolkit.planning.lag.lag import lag_of

PARTITION_COLUMNS: dict[str, Kind] = {
    "cluster": "text",
    "group": "name",
    "topic": "text",
    **dict.fromkeys(("partition", "committed", "log_start", "log_end", "last_stable"), "number"),
    "committed_at": "time",
    "pending": "text",
    "owner": "text",
    **dict.fromkeys(("lag", "stable_lag", "lost"), "number"),
    "position": "text",
}
GROUP_COLUMNS: dict[str, Kind] = {
    "cluster": "text",
    "group": "name",
    **dict.fromkeys(("topics", "partitions", "lag", "lost", "unknown_lag_partitions"), "number"),
    "worst_topic": "text",
    "worst_partition": "number",
    "worst_lag": "number",
}


def partition_rows(snapshot: Snapshot, *, largest_first: bool = False) -> Rows:
    """
    Return a row for each partition that a group has committed or owns; columns as in `with_lag`.

    By group, topic and partition, or by lag. Without share groups (KIP-932), as `offsets_frame`.
    """
    parts = by_group_and_topic(snapshot)
    commits = columns_of(snapshot.commits)
    if not largest_first:
        rows = (
            _row(snapshot, commits, part, index)
            for part in parts
            for index in range(len(part.partitions))
        )
        return Rows(PARTITION_COLUMNS, rows)
    # Large clusters have a million rows: what is kept of each until all are ordered is numbers.
    lags = array("q", (UNKNOWN if one[0] is None else one[0] for p in parts for one in p.lags))
    part_of = array("i", (n for n, p in enumerate(parts) for _ in p.partitions))
    index_of = array("i", (n for p in parts for n in range(len(p.partitions))))
    order = sorted(range(len(lags)), key=lags.__getitem__, reverse=True)
    return Rows(
        PARTITION_COLUMNS,
        (_row(snapshot, commits, parts[part_of[place]], index_of[place]) for place in order),
    )


def _row(snapshot: Snapshot, commits: CommitColumns, part: GroupTopic, index: int) -> Row:
    number, place, offset = part.partitions[index], part.places[index], part.offsets[index]
    committed = None if offset == UNKNOWN else offset
    log = part.logs.get(number, NO_LOG)
    return (
        snapshot.cluster,
        part.group_id,
        part.topic,
        number,
        committed,
        log.log_start,
        log.log_end,
        log.last_stable,
        commits.committed_at(place),
        place in commits.pending,
        part.owners.get(TopicPartition(part.topic, number), "") if part.owners else "",
        *lag_of(committed, log),
    )


def group_rows(snapshot: Snapshot) -> Rows:
    """Return a row for each group with a commit or owner, largest lag first; see `lag_by_group`."""
    by_group = groupby(by_group_and_topic(snapshot), attrgetter("group_id"))
    rows = [_group_row(snapshot.cluster, group_id, list(parts)) for group_id, parts in by_group]
    lag = itemgetter(list(GROUP_COLUMNS).index("lag"))
    rows.sort(key=lambda row: UNKNOWN if lag(row) is None else lag(row), reverse=True)
    return Rows(GROUP_COLUMNS, rows)


def _group_row(cluster: str, group_id: str, parts: Sequence[GroupTopic]) -> Row:
    found = [one for part in parts for one in part.lags]
    lags = [UNKNOWN if one[0] is None else one[0] for one in found]
    known = [lag for lag in lags if lag != UNKNOWN]
    worst = max(known, default=None)
    places = [(part.topic, number) for part in parts for number in part.partitions]
    topic, partition = (None, None) if worst is None else places[lags.index(worst)]
    return (
        cluster,
        group_id,
        len(parts),
        len(lags),
        sum(known) if known else None,
        sum(one[2] or 0 for one in found) if known else None,
        len(lags) - len(known),
        topic,
        partition,
        worst,
    )
