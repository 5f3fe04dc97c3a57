"""
Which committed offsets were removed in a part of `__consumer_offsets`, and what is known of each.

A tombstone does not say why. What the log held just before it does, as far as it was read: the
value that was removed, and of what type its group was and since when that was Empty.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.kafka_io.logs.byte_columns import Numbers
from toolkit.kafka_io.offsets_topic.chunk import NO_GROUP, Chunk
from toolkit.kafka_io.offsets_topic.decode_commits import (
    commit_keys,
    commit_values,
    scan_commit_values,
)
from toolkit.kafka_io.offsets_topic.group_records import decode_classic_group
from toolkit.kafka_io.offsets_topic.latest_records import TIME, numbers, stable_order, times
from toolkit.kafka_io.offsets_topic.partitions import (
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    LEGACY_COMMIT,
    STREAMS_GROUP,
    TYPE_OF_GROUP,
)
from toolkit.kafka_io.wire.fields import MalformedMessage

REMOVALS = pa.schema(
    [
        ("group", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int64()),
        ("removed_at", TIME),
        ("record_offset", pa.int64()),
        # Of the value before it; null where that was not read.
        ("committed_at", TIME),
        ("expire_at", TIME),
        ("committed", pa.int64()),
        ("empty_since", TIME),
        ("group_kind", pa.string()),
    ]
)
END_OF_GROUP = frozenset({CLASSIC_GROUP, CONSUMER_GROUP, STREAMS_GROUP})
NOT_KNOWN = -1


class Removals:
    """Collects what was removed, part by part of a log."""

    def __init__(self) -> None:
        self._found: list[pa.Table] = []
        self._kinds: dict[str, str] = {}  # of groups
        self._classic: dict[str, bytes] = {}  # the newest value of classic groups

    def add(self, chunk: Chunk, latest: pa.Table) -> None:
        """Add the next records of the log; `latest` is of those before them."""
        removed = np.flatnonzero(chunk.is_commit & ~chunk.valued)
        group_rows = np.flatnonzero(chunk.is_of(*TYPE_OF_GROUP))
        facts = self._follow(chunk, _worth_following(chunk, group_rows, removed))
        if len(removed):
            before = _values_before(chunk, removed, latest)
            self._found.append(_removals(chunk, removed, before, facts))

    def table(self) -> pa.Table:
        """Return REMOVALS: one row for each tombstone of a commit, in the order of the log."""
        return pa.concat_tables([REMOVALS.empty_table(), *self._found])

    def _follow(self, chunk: Chunk, rows: Numbers) -> list[tuple[int, str | None]]:
        """Return since when (in ms) each removed offset's group was Empty by then, and its kind."""
        facts: list[tuple[int, str | None]] = []
        kinds = chunk.key_kinds[chunk.codes[rows]].tolist()
        values = chunk.records.values.take(pa.array(rows)).to_pylist()
        for kind, name, value in zip(kinds, chunk.names_of(rows), values, strict=True):
            if name is None:
                facts.append((NOT_KNOWN, None))
            elif kind in TYPE_OF_GROUP:
                self._note(kind, name, value)
            else:
                facts.append((_empty_since(self._classic.get(name)), self._kinds.get(name)))
        return facts

    def _note(self, kind: int, group: str, value: bytes | None) -> None:
        if value is not None:
            self._kinds[group] = TYPE_OF_GROUP[kind]
            if kind == CLASSIC_GROUP:
                self._classic[group] = value
        elif kind in END_OF_GROUP:
            if self._kinds.get(group) == TYPE_OF_GROUP[kind]:
                del self._kinds[group]
            if kind == CLASSIC_GROUP:
                self._classic.pop(group, None)


def _worth_following(chunk: Chunk, group_rows: Numbers, removed: Numbers) -> Numbers:
    """Return the rows without those about a group that the next one, of the same key, replaces."""
    group_rows = group_rows[chunk.key_groups[chunk.codes[group_rows]] != NO_GROUP]
    rows = np.sort(np.concatenate([group_rows, removed]))
    codes = chunk.codes[rows]
    order = stable_order(chunk.key_groups[codes] + 1)  # NO_GROUP is below 0
    codes = codes[order]
    replaced = np.zeros(len(rows), bool)
    replaced[order[:-1]] = (codes[:-1] == codes[1:]) & chunk.valued[rows[order[1:]]]
    replaced &= ~chunk.is_commit[rows]
    return rows[~replaced]


def _values_before(chunk: Chunk, removed: Numbers, latest: pa.Table) -> Any:
    """Return the value before each removed record; null where there is none."""
    keys, values, codes = chunk.records.keys, chunk.records.values, chunk.codes
    order = stable_order(codes)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    before = order[place[removed] - 1]
    first = (place[removed] == 0) | (codes[before] != codes[removed])
    here = values.take(pa.array(before))
    known = pc.index_in(keys.take(pa.array(removed)), value_set=latest["key"])
    return pc.if_else(pa.array(first), latest["value"].take(known).combine_chunks(), here)


def _removals(
    chunk: Chunk, removed: Numbers, before: Any, facts: list[tuple[int, str | None]]
) -> pa.Table:
    records = chunk.records
    whose = commit_keys(records.keys.take(pa.array(removed)))
    is_legacy = chunk.is_of(LEGACY_COMMIT)[removed]
    scan = scan_commit_values(before, np.ones(len(removed), bool), is_legacy)
    values = commit_values(scan)
    since, kinds = zip(*facts, strict=True)
    columns = [
        whose.groups,
        whose.topics,
        pa.array(whose.partitions),
        times(records.written_ms[removed]),
        pa.array(records.offsets[removed]),
        times(np.where(scan.decoded, scan.times_ms, NOT_KNOWN)),
        times(np.where(scan.decoded, values.expires_ms, NOT_KNOWN)),
        numbers(np.where(scan.decoded, scan.offsets, NOT_KNOWN)),
        times(np.array(since, np.int64)),
        pa.array(kinds, pa.string()),
    ]
    table = pa.Table.from_arrays(columns, schema=REMOVALS)
    return table.filter(pa.array(whose.decoded))


def _empty_since(value: bytes | None) -> int:
    """Return since when a classic group is Empty by its newest record, in ms."""
    try:
        return NOT_KNOWN if value is None else decode_classic_group(value).empty_since_ms
    except MalformedMessage:
        return NOT_KNOWN
