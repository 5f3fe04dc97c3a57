"""
What happened in a part of `__consumer_offsets`: how much each group wrote, and what was removed.

Counted while records are read, in the order of the log, because most of them are thrown away
afterwards. What compaction took away cannot be counted, and a gap in the record offsets tells where
that may be; the marker that ends a transaction is a gap as well, which no consumer can tell apart.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.kafka_io.byte_columns import Numbers, column, texts
from toolkit.kafka_io.group_records import generation_of
from toolkit.kafka_io.offsets_latest import NEVER, TIME, Records, times
from toolkit.kafka_io.offsets_topic import (
    CLASSIC_GROUP,
    KNOWN_TYPES,
    OFFSET_COMMIT_TYPES,
    TARGET_TYPES,
)

HOUR_MS = 3_600_000
NO_GROUP, NO_TYPE = -1, -1

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


class Keys(NamedTuple):
    """The distinct keys of some records, and which of them each record has."""

    codes: Any  # of each record, the number of its key
    keys: Any  # Arrow binary, each key once
    kinds: Numbers  # of each key, its record type; NO_TYPE: none that is known
    groups: Numbers  # of each key, the number of its group; NO_GROUP: none that can be read
    names: Any  # Arrow strings, the groups
    unknown: Counter[int]  # records of types that are not known
    malformed: Counter[str]


def keys_of(records: Records) -> Keys:
    """Find the distinct keys of some records, and read the type and the group in each once."""
    encoded = records.keys.dictionary_encode()
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    keys = column(encoded.dictionary)
    counts = np.bincount(codes, minlength=len(keys.starts))
    kinds = keys.int_at(keys.starts, 2)
    whole = keys.lengths >= 2
    known = whole & np.isin(kinds, [*KNOWN_TYPES])
    ends = keys.starts + 4 + keys.int_at(keys.starts + 2, 2)
    fits = known & (ends >= keys.starts + 4) & (ends <= keys.ends)
    names, valid = texts(keys.parts(keys.starts + 4, ends, fits))
    fits &= valid
    grouped = names.dictionary_encode()
    groups = np.where(fits, grouped.indices.to_numpy(zero_copy_only=False), NO_GROUP)
    unknown = {int(kind): int(counts[kinds == kind].sum()) for kind in {*kinds[whole & ~known]}}
    malformed = {
        "key too short": int(counts[~whole].sum()),
        "malformed key: no group": int(counts[known & ~fits].sum()),
    }
    return Keys(
        codes,
        encoded.dictionary,
        np.where(known, kinds, NO_TYPE),
        groups,
        grouped.dictionary,
        Counter(unknown),
        +Counter(malformed),
    )


class Activity:
    """Counts what each group does, part by part of a log."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self._counted: list[pa.Table] = []
        self._generations: dict[str, int] = {}  # of classic groups
        self._gaps: set[int] = set()  # hours in which records are missing
        self._last: tuple[int, int] | None = None  # the last record's offset, and its hour

    def add(self, records: Records, keys: Keys) -> None:
        """Count the next records of the log."""
        hours = records.written_ms // HOUR_MS
        self._note_gaps(records.offsets, hours)
        groups = keys.groups[keys.codes]
        kinds = keys.kinds[keys.codes]
        valued = records.values.is_valid().to_numpy(zero_copy_only=False)
        commit = np.isin(kinds, [*OFFSET_COMMIT_TYPES])
        rebalanced = valued & np.isin(kinds, [*TARGET_TYPES])
        rebalanced[self._completed(records, keys, np.flatnonzero(kinds == CLASSIC_GROUP))] = True
        sizes = column(records.keys).lengths + np.where(valued, column(records.values).lengths, 0)
        first_hour = int(hours.min())
        width = int(hours.max()) - first_hour + 1
        cells, cell = np.unique(groups * width + (hours - first_hour), return_inverse=True)
        count = len(cells)
        first, last = np.full(count, NEVER), np.full(count, -1)
        np.minimum.at(first, cell, records.written_ms)
        np.maximum.at(last, cell, records.written_ms)

        def of(which: Any) -> Numbers:
            return np.bincount(cell, which, count).astype(np.int64)

        table = pa.table(
            {
                "group": keys.names.take(pa.array(cells // width, mask=cells < 0)),
                "hour": times((cells % width + first_hour) * HOUR_MS),
                "first_at": times(first),
                "last_at": times(last),
                "records": of(None),
                "bytes": of(sizes),
                "commits": of(commit & valued),
                "tombstones": of(commit & ~valued),
                "rebalances": of(rebalanced),
            }
        )
        self._counted.append(table.filter(pa.array(cells >= 0)))

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
        """What is missing between two records may have been written in the hour of either."""
        if self._last:
            offsets, hours = np.append(self._last[0], offsets), np.append(self._last[1], hours)
        before = np.flatnonzero(np.diff(offsets) != 1)
        self._gaps.update(hours[before].tolist(), hours[before + 1].tolist())
        self._last = int(offsets[-1]), int(hours[-1])

    def _completed(self, records: Records, keys: Keys, rows: Numbers) -> list[int]:
        """Return which of some records of classic groups tell a higher generation than before."""
        found = []
        groups = keys.groups[keys.codes[rows]]
        names = keys.names.take(pa.array(groups, mask=groups < 0)).to_pylist()
        values = records.values.take(pa.array(rows)).to_pylist()
        for row, name, value in zip(rows.tolist(), names, values, strict=True):
            generation = 0 if value is None else generation_of(value)
            if generation is None or name is None:
                continue
            if value is not None and generation > self._generations.get(name, generation):
                found.append(row)
            self._generations[name] = generation
        return found
