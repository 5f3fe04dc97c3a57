"""
What happened in a part of `__consumer_offsets`: how much each group wrote, and what was removed.

Counted while records are read, in the order of the log, because most of them are dropped
afterwards. Records that compaction removed cannot be counted; a gap in the record offsets shows
where that may be. The marker that ends a transaction is a gap as well: consumers see no difference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.kafka_io.logs.byte_columns import Numbers, column, texts
from toolkit.kafka_io.offsets_topic.chunk import NO_GROUP, Chunk
from toolkit.kafka_io.offsets_topic.group_records import FLEXIBLE_CLASSIC, generation_of
from toolkit.kafka_io.offsets_topic.latest_records import (
    NEVER,
    TIME,
    greatest,
    least,
    stable_order,
    times,
)
from toolkit.kafka_io.offsets_topic.partitions import CLASSIC_GROUP, TARGET_TYPES

HOUR_MS = 3_600_000
SMALL = 1000  # cells

ACTIVITY = pa.schema(
    [
        ("group", pa.string()),
        ("hour", TIME),  # in which the records were written
        ("first_at", TIME),
        ("last_at", TIME),
        ("records", pa.int64()),
        ("bytes", pa.int64()),  # of keys and values
        ("commits", pa.int64()),
        ("tombstones", pa.int64()),  # of commits
        ("rebalances", pa.int64()),  # completed ones
        ("complete", pa.bool_()),  # no record of this hour is missing in the part that was read
    ]
)
SUMS = ("records", "bytes", "commits", "tombstones", "rebalances")


class Activity:
    """Counts what each group does, part by part of a log."""

    def __init__(self) -> None:
        self._counted: list[pa.Table] = []
        self._generations: dict[str, int] = {}  # of classic groups
        self._gaps: set[int] = set()  # hours in which records are missing
        self._last: tuple[int, int] | None = None  # the last record's offset, and its hour

    def add(self, chunk: Chunk) -> None:
        """Count the next records of the log."""
        records = chunk.records
        hours = records.written_ms // HOUR_MS
        self._note_gaps(records.offsets, hours)
        rebalanced = chunk.valued & chunk.is_of(*TARGET_TYPES)
        rebalanced[self._completed(chunk)] = True
        sizes = column(records.keys).lengths
        sizes = sizes + np.where(chunk.valued, column(records.values).lengths, 0)
        groups, hour, cell = _cells(chunk, hours)
        count = len(groups)

        def total(of: Any = None) -> Numbers:
            return np.bincount(cell, of, count).astype(np.int64)

        counted = pa.table(
            {
                "group": chunk.names.take(pa.array(groups, mask=groups == NO_GROUP)),
                "hour": times(hour * HOUR_MS),
                "first_at": times(least(cell, records.written_ms, count, at_most=NEVER)),
                "last_at": times(greatest(cell, records.written_ms, count, at_least=-1)),
                "records": total(),
                "bytes": total(sizes),
                "commits": total(chunk.is_commit & chunk.valued),
                "tombstones": total(chunk.is_commit & ~chunk.valued),
                "rebalances": total(rebalanced),
            }
        )
        there = (groups != NO_GROUP) & (total() > 0)
        self._counted.append(counted.filter(pa.array(there)))

    def table(self) -> pa.Table:
        """Return ACTIVITY: one row for each group and hour."""
        if not self._counted:
            return ACTIVITY.empty_table()
        sums = [(name, "sum") for name in SUMS]
        edges = [("first_at", "min"), ("last_at", "max")]
        counted = pa.concat_tables(self._counted)
        found = counted.group_by(["group", "hour"]).aggregate([*sums, *edges])
        named = {f"{name}_{how}": name for name, how in (*sums, *edges)}
        found = found.rename_columns([named.get(name, name) for name in found.column_names])
        gaps = times(np.array(sorted(self._gaps), np.int64) * HOUR_MS)
        complete = pc.invert(pc.is_in(found["hour"], value_set=gaps))
        return found.append_column("complete", complete).select(ACTIVITY.names).cast(ACTIVITY)

    def _note_gaps(self, offsets: Numbers, hours: Numbers) -> None:
        """Records missing between two others may have been written in the hour of either."""
        if self._last:
            offsets, hours = np.append(self._last[0], offsets), np.append(self._last[1], hours)
        before = np.flatnonzero(np.diff(offsets) != 1)
        self._gaps.update(hours[before].tolist(), hours[before + 1].tolist())
        self._last = int(offsets[-1]), int(hours[-1])

    def _completed(self, chunk: Chunk) -> Numbers:
        """Return which records of classic groups have a higher generation than the one before."""
        rows = np.flatnonzero(chunk.is_of(CLASSIC_GROUP))
        rows = rows[chunk.key_groups[chunk.codes[rows]] != NO_GROUP]
        valued = chunk.valued[rows]
        # A re-created group begins at generation 0.
        generations, has_generation = np.zeros(len(rows), np.int64), ~valued
        generations[valued], has_generation[valued] = _generations(
            chunk.records.values.take(pa.array(rows[valued]))
        )
        rows, valued, generations = (
            rows[has_generation],
            valued[has_generation],
            generations[has_generation],
        )
        groups = chunk.key_groups[chunk.codes[rows]]
        order = stable_order(groups)
        rows, valued, generations = rows[order], valued[order], generations[order]
        groups = groups[order]
        is_first = np.append(True, groups[1:] != groups[:-1])[: len(groups)]
        before = np.append(0, generations[:-1])[: len(groups)]
        names = chunk.names.take(pa.array(groups[is_first])).to_pylist()
        known = zip(names, generations[is_first].tolist(), strict=True)
        before[is_first] = [self._generations.get(name, generation) for name, generation in known]
        is_last = np.append(is_first[1:], True)[: len(groups)]
        self._generations.update(zip(names, generations[is_last].tolist(), strict=True))
        return rows[valued & (generations > before)]


def _generations(values: Any) -> tuple[Numbers, Any]:
    """Return the generation in each GroupMetadataValue, and of which rows it can be read."""
    records = column(values)
    versions, type_at = records.int_at(records.starts, 2), records.starts + 4
    type_end = type_at + records.int_at(records.starts + 2, 2)
    fits = (records.lengths >= 8) & (versions >= 0) & (versions < FLEXIBLE_CLASSIC)
    fits &= (type_end >= type_at) & (type_end + 4 <= records.ends)
    fits &= texts(records.parts(type_at, type_end, fits))[1]
    generations = records.int_at(type_end, 4)
    for row in np.flatnonzero(~fits).tolist():
        found = generation_of(values[row].as_py())
        if found is not None:
            generations[row], fits[row] = found, True
    return generations, fits


def _cells(chunk: Chunk, hours: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Return group and hour of each cell of a table, and the cell of each record."""
    first, width = int(hours.min()), int(np.ptp(hours)) + 1
    records, groups = len(hours), len(chunk.names) + 1
    if groups * width <= max(records, SMALL):
        # The last row is for records without a group.
        row = np.where(chunk.key_groups == NO_GROUP, groups - 1, chunk.key_groups)
        cell = (row * width)[chunk.codes] + (hours - first)
        group = np.repeat(np.append(np.arange(groups - 1), NO_GROUP), width)
        return group, np.tile(np.arange(first, first + width), groups), cell
    cells = chunk.key_groups[chunk.codes] * width + (hours - first)
    there, cell = np.unique(cells, return_inverse=True)
    return there // width, there % width + first, cell
