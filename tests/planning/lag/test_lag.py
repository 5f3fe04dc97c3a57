"""Lag in records: a number only where there is one."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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

OFFSETS = ["committed", "log_start", "log_end", "last_stable"]
offset = st.one_of(st.none(), st.integers(0, 2**62))


def frame(*rows: tuple[int | None, ...]) -> pd.DataFrame:
    """Return partitions of group g with the given committed, start, end, last stable offset."""
    offsets = pd.DataFrame(list(rows), columns=OFFSETS, dtype="object").astype("Int64")
    offsets.insert(0, "cluster", "eu")
    offsets.insert(1, "group", "g")
    offsets.insert(2, "topic", "t")
    offsets.insert(3, "partition", range(len(rows)))
    return offsets


@pytest.mark.parametrize(
    ("row", "lag", "lost", "position"),
    [
        ((40, 0, 100, 100), 60, 0, IN_RANGE),
        ((100, 0, 100, 100), 0, 0, IN_RANGE),
        ((10, 40, 100, 100), 60, 30, LOST_RECORDS),
        ((500, 0, 100, 100), None, None, BEYOND_LOG_END),
        ((None, 0, 100, 100), None, None, NO_COMMIT),
        ((40, None, None, None), None, None, LOG_UNKNOWN),
        ((40, None, 100, 100), None, None, LOG_UNKNOWN),
        ((0, 0, 0, 0), 0, 0, IN_RANGE),
    ],
)
def test_lag_and_position(
    row: tuple[int | None, ...], lag: int | None, lost: int | None, position: str
) -> None:
    """Each place that a commit can have in a log has its number, or none, and its word."""
    result = with_lag(frame(row)).iloc[0]

    assert position == result["position"]
    assert (lag, lost) == tuple(None if pd.isna(result[c]) else result[c] for c in ("lag", "lost"))


def test_stable_lag_stops_at_an_open_transaction() -> None:
    """A read_committed consumer that stands at an open transaction has no stable lag."""
    result = with_lag(frame((11, 0, 16, 11))).iloc[0]

    assert (5, 0) == (result["lag"], result["stable_lag"])


def test_a_large_offset_stays_exact() -> None:
    """An offset beyond the reach of a float is not rounded, also beside a missing one."""
    result = with_lag(frame((2**60 + 1, 0, 2**60 + 4, 2**60 + 4), (None, 0, 1, 1)))

    assert 3 == result["lag"].iloc[0]


@settings(max_examples=40)
@given(st.lists(st.tuples(offset, offset, offset, offset), max_size=8))
def test_lag_is_never_negative_and_never_invented(rows: list[tuple[int | None, ...]]) -> None:
    """Whatever the offsets, lag and lost are null or not negative, and null without a commit."""
    result = with_lag(frame(*rows))

    for column in ("lag", "lost", "stable_lag"):
        assert (result[column].dropna() >= 0).all()
    assert result.loc[result["committed"].isna(), ["lag", "lost", "stable_lag"]].isna().all(None)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6))
def test_lag_and_lost_add_up_to_the_distance(committed: int, start: int, length: int) -> None:
    """What is still to read and what is gone make the whole way from commit to log end."""
    end = start + length
    result = with_lag(frame((committed, start, end, end))).iloc[0]

    if committed <= end:
        assert end - committed == result["lag"] + result["lost"]


def test_a_group_without_any_known_lag_has_none() -> None:
    """A sum over nothing known is unknown; pandas alone would make it 0."""
    result = lag_by_group(with_lag(frame((None, 0, 100, 100), (40, None, None, None)))).iloc[0]

    assert pd.isna(result["lag"])
    assert pd.isna(result["worst_partition"])
    assert (2, 2) == (result["partitions"], result["unknown_lag_partitions"])


def test_a_group_is_summed_and_its_worst_partition_named() -> None:
    """The sum counts known partitions, says how many are not, and names the worst one."""
    rows = frame((90, 0, 100, 100), (20, 0, 100, 100), (None, 0, 100, 100))
    result = lag_by_group(with_lag(rows)).iloc[0]

    assert (90, 1) == (result["lag"], result["unknown_lag_partitions"])
    assert ("t", 1, 80) == tuple(result[["worst_topic", "worst_partition", "worst_lag"]])


def test_ties_do_not_depend_on_the_order_of_rows() -> None:
    """Of equal lags the first by name is the worst, and comes first."""
    rows = with_lag(frame(*[(0, 0, 100, 100)] * 4)).assign(
        topic=["b", "a", "a", "b"], partition=[0, 2, 1, 0], group=["g", "g", "g", "f"]
    )

    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        result = lag_by_group(rows.iloc[order]).to_dict("list")
        assert ["g", "f"] == result["group"]
        assert ["a", "b"] == result["worst_topic"]
        assert [1, 0] == result["worst_partition"]
        alike = rows.assign(status="OK", status_why="", member_state="gone", trend="steady")
        by_status = status_by_group(alike.iloc[order]).set_index("group").loc[["g", "f"]]
        assert ["a", "b"] == by_status["worst_topic"].tolist()
        assert [1, 0] == by_status["worst_partition"].tolist()
    alike = lag_by_group(rows.assign(group=["d", "c", "b", "a"]).iloc[[1, 0, 3, 2]])
    assert ["a", "b", "c", "d"] == alike["group"].tolist()


def test_groups_of_the_same_name_stay_apart_by_cluster() -> None:
    """A group's name means something within its cluster only."""
    both = pd.concat([frame((90, 0, 100, 100)), frame((0, 0, 100, 100)).assign(cluster="us")])
    result = lag_by_group(with_lag(both.reset_index(drop=True)))

    assert [("us", 100), ("eu", 10)] == list(zip(result["cluster"], result["lag"], strict=True))


def test_nothing_gives_nothing() -> None:
    """An empty fleet is an empty table, with its columns."""
    result = lag_by_group(with_lag(frame()))

    assert 0 == len(result)
    assert {"cluster", "group", "lag", "worst_topic"} <= set(result.columns)
