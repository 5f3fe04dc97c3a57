"""What changed between two readings."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from facts import NOON, snapshot

from toolkit.model import Commit, Snapshot, TopicPartition
from toolkit.planning.lag.lag_changes import with_changes
from toolkit.planning.lag.lag_rows import group_rows, partition_rows

P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))


def reading(committed: dict[TopicPartition, int], end: int = 100, *, after_s: int = 0) -> Snapshot:
    """Return a reading of one group; every log goes from 0 to `end`."""
    commits = tuple(Commit("payments", *place, offset) for place, offset in committed.items())
    logs = dict.fromkeys((P0, P1, P2), (0, end))
    found = snapshot(commits=commits, logs=logs)
    return replace(found, taken_at=NOON + timedelta(seconds=after_s))


def changes(table: Any, now: Snapshot, before: Snapshot | None) -> list[tuple[Any, ...]]:
    """Return lag, change and rate of each row."""
    found = with_changes(table, now, before)
    wanted = [list(found.columns).index(n) for n in ("lag", "lag_change", "consumed_per_s")]
    return [tuple(row[place] for place in wanted) for row in found.rows]


def test_a_group_has_the_sum_of_its_partitions() -> None:
    """The lag of a group grew by what was written and shrank by what was consumed, per second."""
    before, now = reading({P0: 10, P1: 20}), reading({P0: 40, P1: 20}, 110, after_s=5)

    assert [(160, -10, 6.0)] == changes(group_rows, now, before)
    assert [(70, -20, 6.0), (90, 10, 0.0)] == changes(partition_rows, now, before)


def test_what_one_reading_lacks_is_not_known() -> None:
    """There is no change in the first reading, nor of a partition committed for the first time."""
    before, now = reading({P0: 10}), reading({P0: 12, P1: 50}, after_s=2)

    assert [(88, -2, 1.0), (50, None, None)] == changes(partition_rows, now, before)
    assert [(138, 48, 1.0)] == changes(group_rows, now, before)
    assert [(90, None, None)] == changes(group_rows, before, None)


def test_a_rewind_is_negative_and_a_clock_that_went_back_gives_no_rate() -> None:
    """Offsets that were moved back are seen as such; no rate is made of no time."""
    before, now = reading({P0: 50}), reading({P0: 10}, after_s=4)

    assert [(90, 40, -10.0)] == changes(group_rows, now, before)
    assert [(90, 40, None)] == changes(group_rows, replace(now, taken_at=NOON), before)


def test_the_rows_are_those_of_the_table() -> None:
    """Without the two columns, which follow the lag, the rows are as they are without a watch."""
    before, now = reading({P0: 10, P1: 20}), reading({P0: 40, P1: 20}, after_s=5)
    found = with_changes(partition_rows, now, before)
    place = list(found.columns).index("lag_change")

    assert "lag" == list(found.columns)[place - 1]
    assert list(partition_rows(now).rows) == [
        (*row[:place], *row[place + 2 :]) for row in found.rows
    ]
