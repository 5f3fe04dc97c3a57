"""What vanishes next, what is at risk, and the sum by group."""

from datetime import timedelta
from typing import Any

import pandas as pd
import pytest
from expiry_facts import CLASSIC, EMPTY, KIP848, READS, STREAMS, T0, at, forecast

from toolkit.planning.expiry.expiry_forecast import expiry_by_group, select_expiring

NOW = T0 + timedelta(seconds=40)


def partitions_within(seconds: float, *rows: dict[str, Any]) -> tuple[list[int], list[int]]:
    found = select_expiring(forecast(*rows), now=NOW, within_s=seconds)
    return list(found.rows["partition"]), list(found.at_risk["partition"])


def test_the_next_expiry_is_first() -> None:
    """Only offsets that expire within the time are listed, including overdue ones."""
    rows = ({"committed_at": 30}, {"committed_at": 5}, {"committed_at": -60}, {"committed_at": 90})
    at_risk = [{**KIP848, **READS, "committed_at": s} for s in (20, 5, 10)]

    assert ([2, 1, 0], []) == partitions_within(50, *rows)
    assert ([2, 1], []) == partitions_within(25, *rows)
    assert ([], [1, 2, 0]) == partitions_within(60, *at_risk)


@pytest.mark.parametrize(
    ("row", "is_at_risk"),
    [
        pytest.param({**KIP848, **READS}, True, id="848"),
        pytest.param({**STREAMS, **READS}, True, id="streams"),
        pytest.param({**KIP848, **READS, "committed_at": 35}, False, id="848, new commit"),
        pytest.param({**CLASSIC, **READS}, False, id="classic: all the retention left"),
        pytest.param({**CLASSIC, **READS, "expire_at": 20}, True, id="classic, a chosen time"),
        pytest.param({**KIP848}, False, id="848: it vanishes anyway"),
        pytest.param({**KIP848, **EMPTY}, False, id="848, Empty: it has stopped"),
        pytest.param({}, False, id="simple"),
        pytest.param({**KIP848, **READS, "pending": True}, False, id="open transaction"),
        pytest.param({"type": "unknown", "state": "Stable"}, False, id="unknown"),
    ],
)
def test_offsets_at_risk(row: dict[str, Any], is_at_risk: bool) -> None:  # noqa: FBT001
    """Only members keep them, though their retention has passed."""
    assert is_at_risk == (partitions_within(30, row)[1] == [0])


def test_one_row_for_each_group() -> None:
    """A group counts what expires, is kept, unknown and at risk, and tells of the first."""
    found = expiry_by_group(
        forecast(
            {"group": "b", **KIP848, "committed_at": 10, "topic": "old"},
            {"group": "b", **KIP848, "committed_at": 30, "topic": "old"},
            {"group": "b", **KIP848, **READS, "committed_at": -50},
            {"group": "b", **KIP848, "subscribed": None},
            {"group": "a", **CLASSIC, **READS},
            {"group": "a", **CLASSIC, **READS, "committed": None},
            {"group": "c", "committed_at": 0},
        )
    ).set_index("group")

    assert ["c", "b", "a"] == list(found.index)
    a, b = found.loc["a"], found.loc["b"]
    counts = ["offsets", "expiring", "kept", "unknown", "expires_immediately_if_stopped"]
    assert [4, 2, 1, 1, 1] == b[counts].tolist()
    first = ["first_at", "last_at", "first_topic", "first_partition"]
    assert [at(70), at(90), "old", 0] == b[first].tolist()
    assert ["nobody subscribes", "none"] == b[["rule", "confidence"]].tolist()
    assert "1 min after the commit" in b["why"]
    assert [1, 0, "high"] == a[["offsets", "expiring", "confidence"]].tolist()
    assert pd.isna(a["first_at"])


def test_groups_of_the_same_name_in_two_clusters() -> None:
    """A group's name means nothing without its cluster."""
    found = expiry_by_group(forecast({"cluster": "us"}, {"cluster": "eu"}))

    assert ["eu", "us"] == sorted(found["cluster"])


def test_nothing_at_all() -> None:
    """Frames without rows give frames without rows, with their columns."""
    nothing = forecast()
    found = select_expiring(nothing, now=T0, within_s=60)

    assert [0, 0, 0] == [len(found.rows), len(found.at_risk), len(expiry_by_group(nothing))]
    assert "why" in expiry_by_group(nothing)
