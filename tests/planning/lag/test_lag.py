"""Lag in records, in frames and in rows, and what changed between two readings."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pandas as pd
import pytest
from facts import NOON, live, member, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.model import Commit, GroupType, LogOffsets, Snapshot, TopicPartition
from toolkit.model.commit_columns import CommitColumns
from toolkit.planning.frames.snapshot_frames import offsets_frame
from toolkit.planning.lag.group_summary import status_by_group
from toolkit.planning.lag.lag import (
    BEYOND_LOG_END,
    IN_RANGE,
    LOG_UNKNOWN,
    LOST_RECORDS,
    NO_COMMIT,
    lag_by_group,
    with_lag,
)
from toolkit.planning.lag.lag_rows import group_rows, partition_rows, with_changes
from toolkit.report.cell_text import rows_of

OFFSETS = ["committed", "log_start", "log_end", "last_stable"]
offset = st.one_of(st.none(), st.integers(0, 9), st.integers(0, 2**62))


def frame(*rows: tuple[int | None, ...]) -> pd.DataFrame:
    """Return partitions of group g with the given committed, start, end, last stable offset."""
    offsets = pd.DataFrame(list(rows), columns=OFFSETS, dtype="object").astype("Int64")
    names = offsets.assign(cluster="eu", group="g", topic="t", partition=range(len(rows)))
    return names[["cluster", "group", "topic", "partition", *OFFSETS]]


@pytest.mark.parametrize(
    ("row", "lag", "stable_lag", "lost", "position"),
    [
        ((40, 0, 100, 100), 60, 60, 0, IN_RANGE),
        ((100, 0, 100, 100), 0, 0, 0, IN_RANGE),
        ((10, 40, 100, 100), 60, 60, 30, LOST_RECORDS),
        ((500, 0, 100, 100), None, None, None, BEYOND_LOG_END),
        ((None, 0, 100, 100), None, None, None, NO_COMMIT),
        ((40, None, None, None), None, None, None, LOG_UNKNOWN),
        ((40, None, 100, 100), None, None, None, LOG_UNKNOWN),
        ((0, 0, 0, 0), 0, 0, 0, IN_RANGE),
        # At an open transaction there is no stable lag.
        ((11, 0, 16, 11), 5, 0, 0, IN_RANGE),
        # An offset beyond a float is not rounded.
        ((2**60 + 1, 0, 2**60 + 4, 2**60 + 4), 3, 3, 0, IN_RANGE),
    ],
)
def test_lag_and_position(
    row: tuple[int | None, ...],
    lag: int | None,
    stable_lag: int | None,
    lost: int | None,
    position: str,
) -> None:
    """Each place that a commit can have in a log has its numbers, or none, and its word."""
    result = with_lag(frame(row, (None, 0, 1, 1))).astype(object).iloc[0]
    numbers = result[["lag", "stable_lag", "lost"]]

    assert position == result["position"]
    assert [lag, stable_lag, lost] == numbers.where(numbers.notna(), None).tolist()


@settings(max_examples=40)
@given(st.lists(st.tuples(offset, offset, offset, offset), max_size=8))
def test_lag_is_never_negative_and_never_invented(rows: list[tuple[int | None, ...]]) -> None:
    """
    Whatever the offsets, lag and lost are null or not negative, and null without a commit.

    What is still to read and what is gone make the whole way from commit to log end.
    """
    result = with_lag(frame(*rows))

    for column in ("lag", "lost", "stable_lag"):
        assert (result[column].dropna() >= 0).all()
    assert result.loc[result["committed"].isna(), ["lag", "lost", "stable_lag"]].isna().all(None)
    found = result[result["log_start"] <= result["log_end"]].dropna(subset=["lag"])
    assert (found["log_end"] - found["committed"] == found["lag"] + found["lost"]).all()


def test_a_group_is_summed_and_its_worst_partition_named() -> None:
    """The sum counts known partitions and says how many are not; of none known it is unknown."""
    rows = frame((90, 0, 100, 100), (20, 0, 100, 100), (None, 0, 100, 100))
    result = lag_by_group(with_lag(rows)).iloc[0]
    assert (90, 1) == (result["lag"], result["unknown_lag_partitions"])
    assert ("t", 1, 80) == tuple(result[["worst_topic", "worst_partition", "worst_lag"]])

    # Of nothing, pandas alone would make the sum 0.
    result = lag_by_group(with_lag(frame((None, 0, 100, 100), (40, None, None, None)))).iloc[0]
    assert pd.isna(result["lag"])
    assert pd.isna(result["worst_partition"])
    assert (2, 2) == (result["partitions"], result["unknown_lag_partitions"])


def test_ties_do_not_depend_on_the_order_of_rows() -> None:
    """Of equal lags the first by name is the worst, and comes first."""
    rows = with_lag(frame(*[(0, 0, 100, 100)] * 4)).assign(
        topic=["b", "a", "a", "b"], partition=[0, 2, 1, 0], group=["g", "g", "g", "f"]
    )
    of_all = {"status": "OK", "status_why": "", "member_state": "gone", "trend": "steady"}
    alike = rows.assign(log_problem="", **of_all)
    worst = ["group", "worst_topic", "worst_partition"]

    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        by_lag, by_status = lag_by_group(rows.iloc[order]), status_by_group(alike.iloc[order])
        assert [["g", "a", 1], ["f", "b", 0]] == by_lag[worst].to_numpy().tolist()
        assert [["f", "b", 0], ["g", "a", 1]] == by_status[worst].sort_values(
            "group"
        ).to_numpy().tolist()
    by_name = lag_by_group(rows.assign(group=["d", "c", "b", "a"]).iloc[[1, 0, 3, 2]])
    assert ["a", "b", "c", "d"] == by_name["group"].tolist()


def test_groups_of_the_same_name_stay_apart_by_cluster() -> None:
    """A group's name means something within its cluster only."""
    both = pd.concat([frame((90, 0, 100, 100)), frame((0, 0, 100, 100)).assign(cluster="us")])
    result = lag_by_group(with_lag(both.reset_index(drop=True)))

    assert [("us", 100), ("eu", 10)] == list(zip(result["cluster"], result["lag"], strict=True))


P0, P1, P2 = (TopicPartition("orders", number) for number in range(3))


def reading(committed: dict[TopicPartition, int], end: int = 100, *, after_s: int = 0) -> Snapshot:
    """Return a reading of one group; every log goes from 0 to `end`."""
    commits = tuple(Commit("payments", *place, offset) for place, offset in committed.items())
    logs = dict.fromkeys((P0, P1, P2), (0, end))
    found = snapshot(commits=commits, logs=logs)
    return replace(found, taken_at=NOON + timedelta(seconds=after_s))


def changes(table: Any, now: Snapshot, before: Snapshot | None) -> list[list[Any]]:
    """Return lag, change and rate of each row."""
    found = with_changes(table, now, before)
    places = [list(found.columns).index(n) for n in ("lag", "lag_change", "consumed_per_s")]
    return [[row[place] for place in places] for row in found.rows]


def test_a_group_has_the_sum_of_its_partitions() -> None:
    """The lag of a group grew by what was written and shrank by what was consumed, per second."""
    before, now = reading({P0: 10, P1: 20}), reading({P0: 40, P1: 20}, 110, after_s=5)

    assert [[160, -10, 6.0]] == changes(group_rows, now, before)
    assert [[70, -20, 6.0], [90, 10, 0.0]] == changes(partition_rows, now, before)


def test_a_change_needs_two_readings() -> None:
    """None in the first reading, nor for a partition committed for the first time."""
    before, now = reading({P0: 10}), reading({P0: 12, P1: 50}, after_s=2)

    assert [[88, -2, 1.0], [50, None, None]] == changes(partition_rows, now, before)
    assert [[138, 48, 1.0]] == changes(group_rows, now, before)
    assert [[90, None, None]] == changes(group_rows, before, None)


def test_a_sum_that_lacks_a_log_is_compared_with_none() -> None:
    """What a leader did not tell in one reading has not been consumed or written since."""
    before, now = reading({P0: 10, P1: 20}), reading({P0: 40, P1: 20}, after_s=5)
    less = replace(now, logs={P0: now.logs[P0]})

    assert [[60, None, 6.0]] == changes(group_rows, less, before)
    assert [[170, None, -6.0]] == changes(
        group_rows, replace(before, taken_at=now.taken_at), replace(less, taken_at=before.taken_at)
    )


def test_a_rewind_is_negative_and_a_clock_that_went_back_gives_no_rate() -> None:
    """Offsets that were moved back are seen as such; no rate is made of no time."""
    before, now = reading({P0: 50}), reading({P0: 10}, after_s=4)

    assert [[90, 40, -10.0]] == changes(group_rows, now, before)
    assert [[90, 40, None]] == changes(group_rows, replace(now, taken_at=NOON), before)


def test_the_rows_are_those_of_the_table() -> None:
    """Without the two columns, which follow the lag, the rows are as they are without a watch."""
    before, now = reading({P0: 10, P1: 20}), reading({P0: 40, P1: 20}, after_s=5)
    found = with_changes(partition_rows, now, before)
    place = list(found.columns).index("lag_change")

    assert "lag" == list(found.columns)[place - 1]
    assert list(partition_rows(now).rows) == [
        (*row[:place], *row[place + 2 :]) for row in found.rows
    ]


ANY_OFFSET = st.integers(0, 6) | st.integers(2**60, 2**60 + 2)  # six still fit into Int64
PARTITIONS = st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 2))
LOGS = st.dictionaries(PARTITIONS, st.builds(LogOffsets, *(st.none() | ANY_OFFSET,) * 3))
COMMITS = st.dictionaries(st.tuples(st.sampled_from("gh"), PARTITIONS), ANY_OFFSET)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Return a cluster whose groups have committed and own some partitions."""
    commits = [Commit(group, *p, offset) for (group, p), offset in draw(COMMITS).items()]
    pending = draw(st.sets(st.integers(0, len(commits))))
    commits = [replace(one, pending=n in pending) for n, one in enumerate(commits)]
    groups = [
        live(name, member("a", "b", owns=tuple(draw(st.sets(PARTITIONS)))), type=kind)
        for name, kind in (("g", GroupType.CLASSIC), ("s", GroupType.SHARE))
    ]
    return replace(snapshot(*groups, commits=tuple(commits)), logs=draw(LOGS))


@given(clusters())
def test_rows_are_those_of_the_frames(facts: Snapshot) -> None:
    """Partitions and groups have the same cells, None for null, whatever the reading found."""
    frame = with_lag(offsets_frame(facts))
    in_columns = replace(facts, commits=CommitColumns(facts.commits))

    for one in (facts, in_columns):
        table = partition_rows(one)
        assert list(frame.columns) == list(table.columns)
        assert rows_of(frame).rows == list(table.rows)
    by_group = lag_by_group(frame)
    table = group_rows(facts)
    assert list(by_group.columns) == list(table.columns)
    assert sorted(rows_of(by_group).rows, key=str) == sorted(table.rows, key=str)


@given(clusters())
def test_largest_lag_comes_first(facts: Snapshot) -> None:
    """Unknown lags come last, and equal ones stay in the order of their names."""
    lag = list(partition_rows(facts).columns).index("lag")
    rows = sorted(partition_rows(facts).rows, key=lambda row: (row[lag] is None, -(row[lag] or 0)))

    assert rows == list(partition_rows(facts, largest_first=True).rows)
    lags = [row[4] for row in group_rows(facts).rows]
    assert lags == sorted(lags, key=lambda lag: (lag is None, -(lag or 0)))


def test_columns_give_every_commit_back() -> None:
    """Commits in columns are equal to the objects, also by place, whatever is known of them."""
    first = Commit("g", "a", 1, 2**62, 7, "note", None)
    commits = (first, Commit("g", "a", 0, 5, pending=True), Commit("h", "b", 3, 1, topic_id="id"))
    columns = CommitColumns(commits)

    assert columns == commits
    assert ["g", "h"] == [block.group_id for block in columns.blocks]
    assert [*commits] == [columns[place] for place in range(3)]
    assert columns[-1] == commits[-1]
