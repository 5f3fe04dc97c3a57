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

from toolkit.kafka_io.byte_columns import Numbers
from toolkit.kafka_io.commit_columns import commit_keys, commit_values, scan_commit_values
from toolkit.kafka_io.group_records import decode_classic_group
from toolkit.kafka_io.key_runs import Runs
from toolkit.kafka_io.offsets_activity import NO_GROUP, Keys
from toolkit.kafka_io.offsets_latest import TIME, Records, numbers, times
from toolkit.kafka_io.offsets_topic import (
    CLASSIC_GROUP,
    CONSUMER_GROUP,
    STREAMS_GROUP,
    TYPE_OF_GROUP,
    UnknownRecord,
)

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
        """Begin with nothing."""
        self._found: list[pa.Table] = []
        self._kinds: dict[str, str] = {}  # of groups
        self._classic: dict[str, bytes] = {}  # the newest value of classic groups

    def add(self, records: Records, keys: Keys, runs: Runs, latest: pa.Table) -> None:
        """Add the next records of the log; `latest` is of those before them."""
        kinds = keys.kinds[keys.codes]
        valued = records.values.is_valid().to_numpy(zero_copy_only=False)
        commit = (kinds == 0) | (kinds == 1)
        removed = np.flatnonzero(commit & ~valued)
        ours = ~commit & (keys.groups[keys.codes] != NO_GROUP)
        # Where nobody asks in between, the newest record of each key will do.
        told = np.flatnonzero(ours) if len(removed) else runs.newest[ours[runs.newest]]
        facts = self._follow(records, keys, told, removed)
        if len(removed):
            before = self._before(records, keys, runs, removed, latest)
            self._found.append(_removals(records, removed, before, facts))

    def table(self) -> pa.Table:
        """Return REMOVALS: one row for each tombstone of a commit, in the order of the log."""
        return pa.concat_tables([REMOVALS.empty_table(), *self._found])

    def _follow(
        self, records: Records, keys: Keys, told: Numbers, removed: Numbers
    ) -> list[tuple[int, str | None]]:
        """Return since when (in ms) each removed offset's group was Empty by then, and its kind."""
        rows = np.sort(np.concatenate([told, removed]))
        codes = keys.codes[rows]
        groups = keys.groups[codes]
        names = keys.names.take(pa.array(groups, mask=groups == NO_GROUP)).to_pylist()
        values = records.values.take(pa.array(rows)).to_pylist()
        facts = []
        for kind, name, value in zip(keys.kinds[codes].tolist(), names, values, strict=True):
            if kind in TYPE_OF_GROUP:
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

    @staticmethod
    def _before(
        records: Records, keys: Keys, runs: Runs, removed: Numbers, latest: pa.Table
    ) -> Any:
        """Return the value before each removed record; null where there is none."""
        place = np.empty(len(runs.order), np.int64)
        place[runs.order] = np.arange(len(runs.order))
        at = place[removed]
        first = at == runs.starts[runs.key[at]]
        here = records.values.take(pa.array(runs.order[np.where(first, at, at - 1)]))
        wanted = keys.keys.take(pa.array(keys.codes[removed]))
        known = pc.index_in(wanted, value_set=latest["key"].combine_chunks())
        earlier = latest["value"].combine_chunks().take(known)
        return pc.if_else(pa.array(first), earlier, here)


def _removals(
    records: Records, removed: Numbers, before: Any, facts: list[tuple[int, str | None]]
) -> pa.Table:
    whose = commit_keys(records.keys.take(pa.array(removed)))
    scan = scan_commit_values(before)
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
    if value is None:
        return NOT_KNOWN
    try:
        group = decode_classic_group(value)
    except UnknownRecord:
        return NOT_KNOWN
    return NOT_KNOWN if group.members or not group.protocol_type else group.changed_ms
