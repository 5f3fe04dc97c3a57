"""What changed between two readings of a cluster: the lag, and what was consumed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from operator import itemgetter

from toolkit.model import Snapshot
from toolkit.model.commit_columns import columns_of
from toolkit.model.rows import Kind, Row, Rows

CHANGES: dict[str, Kind] = {"lag_change": "change", "consumed_per_s": "number"}
KEYS = ("cluster", "group", "topic", "partition")


def with_changes(table: Callable[[Snapshot], Rows], now: Snapshot, before: Snapshot | None) -> Rows:
    """
    Return the rows that `table` makes of a reading, with what changed since the one before.

    `table` is `group_rows` or `partition_rows`. After the column lag: lag_change, and
    consumed_per_s, by how much committed offsets advanced per second; negative after a
    reset. None where one of the two readings lacks the fact.
    """
    rows = table(now)
    place = list(rows.columns).index("lag") + 1
    columns = list(rows.columns.items())
    with_both = dict([*columns[:place], *CHANGES.items(), *columns[place:]])
    key = itemgetter(*(list(rows.columns).index(name) for name in KEYS if name in rows.columns))
    earlier = {key(row): row[place - 1] for row in table(before).rows} if before else {}
    rates = _rates(now, before, by_group="partition" not in rows.columns) if before else {}

    def changed(row: Row) -> Row:
        found = key(row)
        lag, then = row[place - 1], earlier.get(found)
        change = None if lag is None or then is None else lag - then
        return (*row[:place], change, rates.get(found[1:]), *row[place:])

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
