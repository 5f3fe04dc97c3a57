from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any

import offsets_records
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsets_records import (
    Record,
    chunk_with,
    classic_value,
    commit_key,
    commit_value,
    epoch_value,
    group_key,
    subscription,
)

from toolkit.kafka_io.client.timestamps import from_ms
from toolkit.kafka_io.offsets_topic.activity import ACTIVITY, HOUR_MS, Activity
from toolkit.kafka_io.offsets_topic.commit_records import CommitKey, CommitValue
from toolkit.kafka_io.offsets_topic.latest_records import empty_latest, latest_of, merge_latest
from toolkit.kafka_io.offsets_topic.removals import REMOVALS, Removals

HOUR = datetime(2023, 11, 14, 22, tzinfo=UTC)
AT_MS = 1_699_999_200_000  # the beginning of that hour
KEY = commit_key(CommitKey("g", "t", 1))
OTHER = commit_key(CommitKey("h", "t", 1))
MEMBERS = [subscription(["t"])]


def committed(offset: int = 5, at_ms: int = AT_MS, expire_ms: int | None = None) -> bytes:
    """Return the value of a commit, of version 1 where it has an expiry of its own."""
    value = CommitValue(offset, None, "", at_ms, expire_ms)
    return commit_value(1 if expire_ms else 4, value)


def activity_of(records: Sequence[Record], cuts: Sequence[int] = ()) -> Any:
    """Return activity and removals of a log that is read in parts."""
    activity, removals, latest = Activity(), Removals(), empty_latest()
    edges = sorted({0, len(records), *(cut for cut in cuts if cut < len(records))})
    for begin, end in pairwise(edges):
        chunk = chunk_with(records[begin:end])
        activity.add(chunk)
        removals.add(chunk, latest)
        latest = merge_latest(latest, latest_of(chunk))
    assert activity.table().schema.equals(ACTIVITY)
    assert removals.table().schema.equals(REMOVALS)
    return activity.table().to_pylist(), removals.table().to_pylist()


log_of = partial(offsets_records.log_of, at_ms=AT_MS)


def test_activity_is_counted_by_group_and_hour() -> None:
    """Records, bytes, commits and tombstones of each group are counted in each hour."""
    value = committed()
    records = log_of((KEY, value), (OTHER, value), (KEY, None), (KEY, value), step_ms=HOUR_MS // 3)
    activity, _ = activity_of(records)
    found = {(row["group"], row["hour"]): row for row in activity}

    first = found["g", HOUR]
    assert (first["records"], first["commits"], first["tombstones"]) == (2, 1, 1)
    assert first["bytes"] == 2 * len(KEY) + len(value)
    assert (first["first_at"], first["last_at"]) == (HOUR, from_ms(AT_MS + 2 * HOUR_MS // 3))
    assert found["h", HOUR]["records"] == 1
    assert found["g", from_ms(AT_MS + HOUR_MS)]["commits"] == 1
    assert len(found) == 3


@pytest.mark.parametrize("cut", range(7))
def test_completed_rebalances_of_a_classic_group(cut: int) -> None:
    """A classic group has rebalanced where its generation is higher than in the record before."""
    key = group_key(2, "g")
    values = [
        classic_value(3, generation=4, subscriptions=MEMBERS),  # nobody knows what was before
        classic_value(3, generation=5, subscriptions=MEMBERS),
        classic_value(3, generation=5, subscriptions=MEMBERS),  # a static member came back
        classic_value(4, generation=6),
        None,
        classic_value(3, generation=1, subscriptions=MEMBERS),
    ]
    activity, _ = activity_of(log_of(*[(key, value) for value in values]), [cut])

    assert activity[0]["rebalances"] == 3


@pytest.mark.parametrize("kind", [6, 20])
def test_completed_rebalances_of_a_modern_group(kind: int) -> None:
    """Each new target assignment of a KIP-848 or streams group is a rebalance."""
    key = group_key(kind, "g")
    activity, _ = activity_of(log_of((key, epoch_value(1)), (key, epoch_value(2)), (key, None)))

    assert (activity[0]["rebalances"], activity[0]["tombstones"]) == (2, 0)


def test_hours_with_gaps_are_not_complete() -> None:
    """A missing record may be of the hour before or after the gap; other hours are complete."""
    hours = [0, 0, 1, 2, 2, 3]
    offsets = [7, 8, 9, 20, 21, 22]
    records = [
        Record(offset, AT_MS + hour * HOUR_MS, KEY, committed())
        for offset, hour in zip(offsets, hours, strict=True)
    ]
    for cuts in ([], [3], [1, 2, 3, 4, 5]):
        activity, _ = activity_of(records, cuts)
        complete = {row["hour"]: row["complete"] for row in activity}

        assert [*dict(sorted(complete.items())).values()] == [True, False, False, True]


def test_records_without_a_group_are_counted_apart() -> None:
    """Unknown types are counted apart, and keys without a group for no group."""
    keys = [b"", b"\0", b"\0\x63more", b"\0\2\0\x09short", b"\0\2\0\1\xff", KEY]
    chunk = chunk_with(log_of(*((key, b"\0\0") for key in keys), step_ms=0))
    activity = Activity()
    activity.add(chunk)

    assert dict(chunk.unknown) == {0x63: 1}
    assert activity.table()["group"].to_pylist() == ["g"]


@pytest.mark.parametrize("cuts", [[], [1], [2], [1, 2, 3, 4]])
def test_a_removal_has_the_value_before_it(cuts: list[int]) -> None:
    """A tombstone comes with the value before it and the state of its group by then."""
    records = log_of(
        (group_key(2, "g"), classic_value(3, changed_ms=AT_MS - 9)),
        (KEY, committed(7, AT_MS - 5, AT_MS + 50)),
        (KEY, None),
        (KEY, None),
        (KEY, committed(8)),
    )
    _, removals = activity_of(records, cuts)

    assert [row["record_offset"] for row in removals] == [2, 3]
    assert removals[0] == {
        "group": "g",
        "topic": "t",
        "partition": 1,
        "removed_at": from_ms(AT_MS + 2),
        "record_offset": 2,
        "committed_at": from_ms(AT_MS - 5),
        "expire_at": from_ms(AT_MS + 50),
        "committed": 7,
        "empty_since": from_ms(AT_MS - 9),
        "group_kind": "classic",
    }
    assert removals[1]["committed"] is None


def test_a_removal_after_compaction() -> None:
    """Without the value it has its time and key; a damaged group record takes no place."""
    _, (row,) = activity_of(log_of((KEY, None)))

    assert (row["group"], row["topic"], row["partition"]) == ("g", "t", 1)
    unknown = ("committed_at", "expire_at", "committed", "empty_since", "group_kind")
    assert [row[name] for name in unknown] == [None] * len(unknown)

    nobody = b"\0\2\0\x09short"
    _, removals = activity_of(log_of((KEY, committed(7)), (nobody, classic_value(3)), (KEY, None)))
    assert [row["committed"] for row in removals] == [7]


@pytest.mark.parametrize(
    ("before", "kind", "is_empty"),
    [
        ([(2, classic_value(3, changed_ms=AT_MS))], "classic", True),
        ([(2, classic_value(3, changed_ms=AT_MS, subscriptions=MEMBERS))], "classic", False),
        ([(2, classic_value(3, changed_ms=AT_MS)), (2, None)], None, False),
        ([(2, classic_value(3)), (2, None), (3, epoch_value(1))], "consumer", False),
        ([(17, epoch_value(1))], "streams", False),
        ([(3, epoch_value(1)), (3, None)], None, False),
        ([(2, classic_value(3, changed_ms=AT_MS)), (3, epoch_value(1)), (3, None)], None, True),
    ],
)
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_removal_has_the_group_at_that_time(
    before: Any, kind: Any, is_empty: Any, cut: int
) -> None:
    """Its state by the records before the tombstone, not by those after it."""
    records = [(group_key(number, "g"), value) for number, value in before]
    later = (group_key(3, "g"), epoch_value(9))
    _, (row,) = activity_of(log_of(*records, (KEY, None), later), [cut])

    assert row["group_kind"] == kind
    assert row["empty_since"] == (HOUR if is_empty else None)


@given(
    st.lists(st.tuples(st.sampled_from([KEY, OTHER, group_key(2, "g")]), st.integers(0, 3))),
    st.lists(st.integers(0, 30), max_size=4),
)
def test_any_split_of_a_log_gives_the_same(parts: list[tuple[bytes, int]], cuts: list[int]) -> None:
    """It does not matter in which parts a log is read."""
    values = {
        True: [None, classic_value(3, generation=1), classic_value(4, generation=2), b"\0\3"],
        False: [None, committed(1), committed(2), b"\0\4damaged"],
    }
    records = log_of(*[(key, values[key[1] == 2][choice]) for key, choice in parts])
    if not records:
        return
    (whole, removed), (parted, removed_too) = activity_of(records), activity_of(records, cuts)

    def by_group(rows: Any) -> Any:
        return sorted(rows, key=lambda row: row["group"])

    assert by_group(parted) == by_group(whole)
    assert removed_too == removed
