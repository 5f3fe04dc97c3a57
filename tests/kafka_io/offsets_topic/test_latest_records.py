from collections.abc import Sequence
from datetime import UTC, datetime
from functools import reduce
from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from offsets_records import (
    AT_MS,
    Record,
    chunk_with,
    commit_key,
    commit_value,
    epoch_value,
    group_key,
)

from toolkit.kafka_io.client.timestamps import LAST_MS, from_ms
from toolkit.kafka_io.offsets_topic.commit_records import (
    CommitKey,
    CommitValue,
    decode_commit_value,
)
from toolkit.kafka_io.offsets_topic.latest_records import (
    LATEST,
    RECENT,
    drop_tombstones,
    empty_latest,
    latest_of,
    merge_latest,
)
from toolkit.kafka_io.wire.fields import MalformedMessage

COMMIT_KEYS = [commit_key(CommitKey("g", "t", number), kind=number % 2) for number in range(3)]
GROUP_KEY = group_key(3, "g")
MALFORMED = b"\0\4nothing"


def value_of(number: int, offset: int, at_ms: int) -> bytes:
    """Return a committed value that brokers know under the key of that number."""
    return commit_value(4 * (number % 2), CommitValue(offset, None, "", at_ms))


@st.composite
def logs(draw: Any) -> list[Record]:
    """Return records of a few keys in the order of a log, with gaps, tombstones and damage."""
    found, offset = [], 0
    for _ in range(draw(st.integers(0, 90))):
        offset += draw(st.sampled_from([1, 1, 1, 5]))
        number = draw(st.integers(0, len(COMMIT_KEYS)))
        at_ms = AT_MS + draw(st.integers(-3, 3)) if draw(st.integers(0, 9)) else -1
        if number == len(COMMIT_KEYS):
            key, value = GROUP_KEY, epoch_value(offset)
        else:
            key, value = COMMIT_KEYS[number], value_of(number, draw(st.integers(0, 5)), at_ms)
        match draw(st.integers(0, 19)):
            case 0:
                value = MALFORMED
            case 1 | 2:
                value = None
        found.append(Record(offset, AT_MS + offset, key, value))
    return found


def latest(records: Sequence[Record], partition: int = 4) -> pa.Table:
    """Return the LATEST of some records in one piece."""
    return latest_of(chunk_with(records, partition)) if records else empty_latest()


def rows(table: pa.Table) -> dict[Any, Any]:
    assert table.schema.equals(LATEST)
    found = {(row["offsets_partition"], row["key"]): row for row in table.to_pylist()}
    assert len(found) == table.num_rows
    return found


def told_one_by_one(records: Sequence[Record], partition: int = 4) -> Any:
    """Return LATEST as one would keep it by hand, record by record."""
    found: dict[Any, Any] = {}
    for offset, written_ms, key, value in records:
        is_commit = key in COMMIT_KEYS
        row = found.setdefault((partition, key), dict.fromkeys(LATEST.names))
        row |= {"offsets_partition": partition, "key": key, "value": value}
        row |= {"record_offset": offset, "written_at": from_ms(written_ms)}
        recents = [name for name in LATEST.names if name.startswith("recent_")]
        if is_commit and (value is None or row["recent_at"] is None):
            row |= {name: [] for name in recents}
        if not is_commit:
            continue
        if value is None:
            row |= {"max_committed": None, "max_committed_at": None, "tombstone_offset": offset}
            continue
        try:
            commit = decode_commit_value(value)
        except MalformedMessage:
            continue
        committed_at = from_ms(commit.commit_time_ms)
        for name, new in zip(recents, (committed_at, commit.offset, offset), strict=True):
            row[name] = [*row[name], new][-RECENT:]
        if row["max_committed"] is None or commit.offset > row["max_committed"]:
            row |= {"max_committed": commit.offset, "max_committed_at": committed_at}
        elif commit.offset == row["max_committed"]:
            times = [at for at in (row["max_committed_at"], committed_at) if at]
            row["max_committed_at"] = min(times, default=None)
    return found


def pieces(records: Sequence[Record], cuts: Sequence[int]) -> list[Sequence[Record]]:
    edges = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    return [records[a:b] for a, b in pairwise(edges)]


@given(logs())
def test_a_batch_gives_what_single_records_give(records: list[Record]) -> None:
    """Records condensed in one go give what somebody who looks at each would have kept."""
    assert rows(latest(records)) == told_one_by_one(records)


@given(logs(), st.lists(st.integers(0, 90), max_size=5))
def test_any_cut_gives_the_same(records: list[Record], cuts: list[int]) -> None:
    """It does not matter into which parts a log is cut, or which of them are merged first."""
    parts = [latest(part) for part in pieces(records, cuts)]
    wanted = told_one_by_one(records)

    assert rows(reduce(merge_latest, parts, empty_latest())) == wanted
    later = empty_latest()
    for part in reversed(parts):
        later = merge_latest(part, later)
    assert rows(later) == wanted


@given(logs(), st.integers(0, 90), st.integers(0, 90))
def test_records_read_twice_count_once(records: list[Record], first: int, second: int) -> None:
    """A reading that starts before the last one ended, or is repeated, changes nothing."""
    begin, end = sorted((first, second))
    old, new = latest(records[:end]), latest(records[begin:])
    merged = merge_latest(old, new)

    assert rows(merged) == told_one_by_one(records)
    assert rows(merge_latest(merged, new)) == told_one_by_one(records)
    assert rows(merge_latest(merged, old)) == told_one_by_one(records)


@given(logs(), logs())
def test_partitions_do_not_mix(left: list[Record], right: list[Record]) -> None:
    """The same key in two partitions is two rows: that of a topic that got more of them."""
    merged = merge_latest(latest(left, partition=4), latest(right, partition=70))

    assert rows(merged) == told_one_by_one(left) | told_one_by_one(right, partition=70)


def test_more_keys_than_one_pass_can_sort() -> None:
    """More than 65,536 keys, which take two passes to bring together, are each found."""
    keys = [commit_key(CommitKey("g", "t", number)) for number in range(70_000)]
    values = [value_of(1, offset, AT_MS) for offset in range(2)]
    records = [
        Record(turn * len(keys) + number, AT_MS, key, values[turn])
        for turn in range(2)
        for number, key in enumerate(reversed(keys) if turn else keys)
    ]
    table = latest(records)

    assert sorted(table["key"].to_pylist()) == keys
    assert table["recent_offset"].to_pylist() == [[0, 1]] * len(keys)


def test_times_without_a_calendar_are_null() -> None:
    """A commit time before 1970 or after the year 9999 is null in the series, not an error."""
    times = (-1, 0, LAST_MS, LAST_MS + 1)
    records = [
        Record(n, AT_MS, COMMIT_KEYS[1], value_of(1, 9 - n, at)) for n, at in enumerate(times)
    ]
    (row,) = rows(latest(records)).values()

    assert row["recent_at"] == [None, from_ms(0), from_ms(LAST_MS), None]
    assert (row["max_committed"], row["max_committed_at"]) == (9, None)


def test_old_tombstones_are_dropped() -> None:
    """Tombstones written before an instant go; younger ones, and all values, stay."""
    records = [
        Record(1, AT_MS, COMMIT_KEYS[0], None),
        Record(2, AT_MS + 1, COMMIT_KEYS[1], None),
        Record(3, AT_MS, COMMIT_KEYS[2], value_of(2, 1, AT_MS)),
    ]
    before = datetime.fromtimestamp((AT_MS + 1) / 1000, UTC)

    kept = drop_tombstones(latest(records), before=before)
    assert set(kept["key"].to_pylist()) == {COMMIT_KEYS[1], COMMIT_KEYS[2]}
