"""
Lag of partitions and groups as plain rows, for commands that start at once and for large clusters.

The rules are those of `lag.py`, which computes them for frames; a test compares the two. With an
earlier reading of the cluster, the rows also have what changed since: the lag, and what was
consumed.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter

from toolkit.model import Snapshot, TopicPartition
from toolkit.model.commit_columns import CommitColumns, columns_of
from toolkit.model.offsets import NO_LOG
from toolkit.model.rows import Kind, Row, Rows, largest_first
from toolkit.planning.lag.group_topics import UNKNOWN, GroupTopic, by_group_and_topic
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
CHANGES: dict[str, Kind] = {"lag_change": "change", "consumed_per_s": "number"}
KEYS = ("cluster", "group", "topic", "partition")
LACKING = "unknown_lag_partitions"


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
    # Large clusters have a million rows: until all are ordered, only numbers of each are in memory.
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
    return Rows(GROUP_COLUMNS, largest_first(rows, list(GROUP_COLUMNS).index("lag")))


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


def with_changes(table: Callable[[Snapshot], Rows], now: Snapshot, before: Snapshot | None) -> Rows:
    """
    Return the rows that `table` makes of a reading, with what changed since the one before.

    `table` is `group_rows` or `partition_rows`. After the column lag: lag_change, and
    consumed_per_s, by how much committed offsets advanced per second; negative after a
    reset. None where one of the two readings lacks the fact, or of a group the lag of more
    partitions than the other: the sums are not of the same.
    """
    rows = table(now)
    names, columns = list(rows.columns), list(rows.columns.items())
    place = names.index("lag") + 1
    with_both = dict([*columns[:place], *CHANGES.items(), *columns[place:]])
    key = itemgetter(*(names.index(name) for name in KEYS if name in names))
    summed = itemgetter(names.index(LACKING)) if LACKING in names else len
    earlier = (
        {key(row): (row[place - 1], summed(row)) for row in table(before).rows} if before else {}
    )
    rates = _rates(now, before, by_group="partition" not in names) if before else {}

    def changed(row: Row) -> Row:
        found, lag = key(row), row[place - 1]
        then, summed_then = earlier.get(found, (None, None))
        is_known = lag is not None and then is not None and summed(row) == summed_then
        return (*row[:place], lag - then if is_known else None, rates.get(found[1:]), *row[place:])

    return Rows(with_both, map(changed, rows.rows))


def _rates(now: Snapshot, before: Snapshot, *, by_group: bool) -> dict[tuple[object, ...], float]:
    """Return how fast committed offsets advanced, by group, or by group, topic and partition."""
    took_s = (now.taken_at - before.taken_at).total_seconds()
    if took_s <= 0:  # a clock that was set back
        return {}
    then, advanced = _committed(before), defaultdict[tuple[object, ...], int](int)
    for place, offset in _committed(now).items():
        if place in then:
            advanced[place[:1] if by_group else place] += offset - then[place]
    return {place: round(count / took_s, 3) for place, count in advanced.items()}


def _committed(snapshot: Snapshot) -> dict[tuple[str, str, int], int]:
    commits = columns_of(snapshot.commits)
    return {
        (block.group_id, block.topic, commits.partitions[place]): commits.offsets[place]
        for block in commits.blocks
        for place in block.places
    }
