"""
The newest record of every key of `__consumer_offsets`, with a short series of recent commits.

This is the state that brokers rebuild from the topic (the highest record offset wins), and what is
stored for the next read. Records that were just read and a stored state are the same thing here,
*rows* of a part of the log, and `_condense` leaves one row of each key. So it does not matter into
which parts a log was cut, and records that are in two of them count once.

Keys are given to reductions as *codes*: numbers from 0 on, one for each distinct key.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.kafka_io.client.timestamps import LAST_MS
from toolkit.kafka_io.logs.byte_columns import Numbers, column
from toolkit.kafka_io.offsets_topic.chunk import Chunk

RECENT = 16
ONE_PASS = 1 << 16
TIME = pa.timestamp("ms", "UTC")
NONE = -1  # in numbers that are never negative
NEVER = np.iinfo(np.int64).max

LATEST = pa.schema(
    [
        ("offsets_partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),  # null: a tombstone
        ("record_offset", pa.int64()),
        ("written_at", TIME),
        # Of commits since the key's newest tombstone, oldest first; null for other keys.
        ("recent_at", pa.list_(TIME)),
        ("recent_offset", pa.list_(pa.int64())),
        ("recent_record", pa.list_(pa.int64())),  # the record offset of each
        ("max_committed", pa.int64()),
        ("max_committed_at", TIME),
        # The record offset of a commit key's newest tombstone: nothing before it counts.
        ("tombstone_offset", pa.int64()),
    ]
)


class _RecentCommits(NamedTuple):
    """Recent commits of all rows, one row after the other."""

    lengths: Numbers  # of each row
    records: Numbers
    times_ms: Numbers
    offsets: Numbers


class _LatestColumns(NamedTuple):
    """LATEST with numbers that can be worked on: NONE for null."""

    partitions: Numbers
    keys: Any
    values: Any
    offsets: Numbers
    written_ms: Numbers
    is_commit: Any
    tombstones: Numbers
    max_committed: Numbers
    highest_ms: Numbers
    series: _RecentCommits


def latest_of(chunk: Chunk) -> pa.Table:
    records, commits, decoded = chunk.records, chunk.commits, chunk.commits.decoded
    is_commit, times_ms = chunk.is_commit, _calendar(chunk.commits.times_ms)
    rows = _LatestColumns(
        np.full(len(decoded), records.partition),
        records.keys,
        records.values,
        records.offsets,
        records.written_ms,
        is_commit,
        np.where(is_commit & ~chunk.valued, records.offsets, NONE),
        np.where(decoded, commits.offsets, NONE),
        np.where(decoded, times_ms, NONE),
        _RecentCommits(
            decoded.astype(np.int64),
            records.offsets[decoded],
            times_ms[decoded],
            commits.offsets[decoded],
        ),
    )
    return _table(_condense(rows, chunk.codes, len(chunk.key_kinds)))


def merge_latest(old: pa.Table, new: pa.Table) -> pa.Table:
    """
    Return the LATEST of both: of each offsets partition and key the newest value.

    Commits of both make one series, of which the newest 16 stay; a tombstone in `new` takes the
    series, the highest offset and its time away. The same records may be in both. Tombstones stay
    (see `drop_tombstones`), so that what is merged later is taken away as well.
    """
    rows = _rows(pa.concat_tables([table.select(LATEST.names) for table in (old, new)]))
    codes = _codes(rows)
    return _table(_condense(rows, codes, int(codes.max(initial=-1)) + 1))


def drop_tombstones(latest: pa.Table, *, before: datetime) -> pa.Table:
    """Return LATEST without the tombstones that were written before an instant."""
    written_at = latest["written_at"]
    old = pc.less(written_at, pa.scalar(before, TIME))
    gone = pc.and_(pc.is_null(latest["value"]), pc.fill_null(old, True))
    return latest.filter(pc.invert(gone))


def empty_latest() -> pa.Table:
    return LATEST.empty_table()


def record_types(latest: pa.Table) -> Numbers:
    """Return the record type in each key of LATEST; -1 for a key too short to have one."""
    keys = column(latest["key"])
    return np.where(keys.lengths >= 2, keys.int_at(keys.starts, 2), -1)


def _codes(rows: _LatestColumns) -> Any:
    codes = rows.keys.dictionary_encode().indices.to_numpy(zero_copy_only=False)
    if rows.partitions.min(initial=NEVER) < rows.partitions.max(initial=NONE):
        # The same key may be in two partitions after partitions were added to the topic.
        both = codes.astype(np.int64) << 32 | rows.partitions
        codes = np.unique(both, return_inverse=True)[1]
    return codes


def _condense(rows: _LatestColumns, codes: Any, count: int) -> _LatestColumns:
    """Return one row of each key; `codes` are the keys of the rows."""
    gone_until = greatest(codes, rows.tombstones, count, at_least=NONE)
    highest = rows.max_committed
    if gone_until.max(initial=NONE) != NONE:
        # A row is from before the tombstone, or from after it, but never from both.
        highest = np.where(rows.offsets > gone_until[codes], highest, NONE)
    top = greatest(codes, highest, count, at_least=NONE)
    first = (highest == top[codes]) & (highest != NONE) & (rows.highest_ms != NONE)
    since_ms = least(codes[first], rows.highest_ms[first], count, at_most=NEVER)
    newest = _newest(codes, rows.offsets, count)
    return _LatestColumns(
        rows.partitions[newest],
        rows.keys.take(pa.array(newest)),
        rows.values.take(pa.array(newest)),
        rows.offsets[newest],
        rows.written_ms[newest],
        rows.is_commit[newest],
        gone_until,
        top,
        np.where(since_ms == NEVER, NONE, since_ms),
        _newest_of_series(rows.series, codes, gone_until),
    )


def _newest_of_series(series: _RecentCommits, codes: Any, gone_until: Numbers) -> _RecentCommits:
    # There may be millions of elements, so that every array of them counts.
    key = np.repeat(codes, series.lengths)
    if gone_until.max(initial=NONE) != NONE:
        places = np.flatnonzero(series.records > gone_until[key])
        order = stable_order(key[places])
        places = places[order]
    else:
        places = stable_order(key)
    key = key[places]
    if np.any(series.records[1:] <= series.records[:-1]):
        once = _once_in_order(key, series.records[places])
        key, places = key[once], places[once]
    counts = np.bincount(key, minlength=len(gone_until))
    del key
    younger = np.repeat(np.cumsum(counts), counts)
    younger -= np.arange(1, len(places) + 1)
    places = places[younger < RECENT]
    return _RecentCommits(
        np.minimum(counts, RECENT),
        series.records[places],
        series.times_ms[places],
        series.offsets[places],
    )


def _once_in_order(key: Any, records: Numbers) -> Any:
    """Return indices that drop duplicate records, in log order."""
    same, step = key[1:] == key[:-1], np.diff(records)
    if np.all(~same | (step > 0)):
        return slice(None)
    order = np.lexsort((records, key))
    # Keys lie where they did, only what is within them has moved.
    return order[np.append(True, ~same | (np.diff(records[order]) != 0))]


def _calendar(times_ms: Numbers) -> Numbers:
    return np.where((times_ms >= 0) & (times_ms <= LAST_MS), times_ms, NONE)


def _table(rows: _LatestColumns) -> pa.Table:
    ends = np.cumsum(rows.series.lengths)
    bounds = pa.array(np.append(0, ends).astype(np.int32))
    other = pa.array(~rows.is_commit)

    def listed(values: Any) -> Any:
        return pa.ListArray.from_arrays(bounds, values, mask=other)

    columns = [
        pa.array(rows.partitions.astype(np.int32)),
        rows.keys,
        rows.values,
        pa.array(rows.offsets),
        times(rows.written_ms),
        listed(times(rows.series.times_ms)),
        listed(pa.array(rows.series.offsets)),
        listed(pa.array(rows.series.records)),
        numbers(rows.max_committed),
        times(rows.highest_ms),
        numbers(rows.tombstones),
    ]
    return pa.Table.from_arrays(columns, schema=LATEST)


def _rows(table: pa.Table) -> _LatestColumns:
    table = table.cast(LATEST)

    def of(name: str) -> Any:
        return table[name].combine_chunks()

    def ints(name: str) -> Numbers:
        return _ints(of(name))

    recent = of("recent_record")
    return _LatestColumns(
        ints("offsets_partition"),
        of("key"),
        of("value"),
        ints("record_offset"),
        ints("written_at"),
        recent.is_valid().to_numpy(zero_copy_only=False),
        ints("tombstone_offset"),
        ints("max_committed"),
        ints("max_committed_at"),
        _RecentCommits(
            _ints(pc.fill_null(pc.list_value_length(recent), 0)),
            _ints(recent.flatten()),
            _ints(of("recent_at").flatten()),
            _ints(of("recent_offset").flatten()),
        ),
    )


def _ints(array: Any) -> Numbers:
    """Return an Arrow array of numbers or times, NONE for null."""
    plain = array.cast(pa.int64())
    if plain.null_count:
        plain = plain.fill_null(NONE)
    return plain.to_numpy(zero_copy_only=False)


def numbers(values: Numbers) -> Any:
    """Return numbers as Arrow, null for those below 0."""
    null = values < 0
    return pa.array(values, pa.int64(), mask=null if null.any() else None)


def times(values_ms: Numbers) -> Any:
    """Return milliseconds since 1970 as Arrow times, null for what no calendar has."""
    beyond = values_ms > LAST_MS
    return numbers(np.where(beyond, NONE, values_ms) if beyond.any() else values_ms).cast(TIME)


def greatest(codes: Any, values: Numbers, count: int, *, at_least: int) -> Numbers:
    """Return the greatest value of each of `count` keys, and not less than a number."""
    found = np.full(count, at_least)
    np.maximum.at(found, codes, values)
    return found


def least(codes: Any, values: Numbers, count: int, *, at_most: int) -> Numbers:
    """Return the least value of each of `count` keys, and not more than a number."""
    found = np.full(count, at_most)
    np.minimum.at(found, codes, values)
    return found


def _newest(codes: Any, offsets: Numbers, count: int) -> Numbers:
    """Return the row of each of `count` keys that has the greatest offset, which is not below 0."""
    rows = np.flatnonzero(offsets == greatest(codes, offsets, count, at_least=-1)[codes])
    found = np.empty(count, np.int64)
    found[codes[rows]] = rows
    return found


def stable_order(codes: Any) -> Numbers:
    """Return the rows in the order of their keys; those of one key stay as they are."""
    # Numbers of 16 bits are sorted by counting, which two passes do for 32.
    order = np.argsort((codes % ONE_PASS).astype(np.uint16), kind="stable")
    if len(codes) and codes.max() >= ONE_PASS:
        high = (codes // ONE_PASS).astype(np.uint16)
        order = order[np.argsort(high[order], kind="stable")]
    return order
