"""Which partitions of a cooperative group members of ours can own for a moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import TopicPartition
from toolkit.planning.holds.claims import MOST_PARTITIONS, partitions_to_claim

BOTH = frozenset({"a", "b"})


@given(
    st.integers(1, 30),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.integers(1, 60), min_size=1),
)
def test_each_partition_is_claimed_once(members: int, counts: dict[str, int]) -> None:
    """Where all members subscribe to the same topics, however many they are."""
    found = partitions_to_claim([frozenset(counts)] * members, counts)

    assert {TopicPartition(t, n) for t, count in counts.items() for n in range(count)} == {*found}
    assert sorted(set(found)) == list(found)


@pytest.mark.parametrize(
    ("subscriptions", "counts"),
    [
        ([BOTH, frozenset({"a"})], {"a": 2, "b": 2}),  # a leader shares out by other rules
        ([BOTH], {"a": MOST_PARTITIONS, "b": 1}),
        ([BOTH], {"a": 1}),  # one of the topics cannot be seen
        ([], {}),
    ],
)
def test_nothing_is_claimed(subscriptions: list[frozenset[str]], counts: dict[str, int]) -> None:
    """All or nothing."""
    assert () == partitions_to_claim(subscriptions, counts)
