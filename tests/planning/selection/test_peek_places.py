"""Around which committed offsets records are read."""

import pandas as pd
import pytest

from toolkit.errors import NotFound
from toolkit.model import TopicPartition
from toolkit.planning.selection.peek_places import PeekPlace, PeekRequest, peek_places

PLACES = [PeekPlace(TopicPartition("orders", n), n, by_default=n != 1) for n in range(8)]


def request(*topics: str) -> PeekRequest:
    """Return a request for records of eight partitions, of which all but 1 are read by default."""
    return PeekRequest(PLACES, topics, before=1, after=2)


def test_by_default_the_first_five_are_read() -> None:
    """A note has how many more there are; named partitions are all read."""
    chosen, named = request().choose("g"), request("orders:1,7").choose("g")

    assert ([0, 2, 3, 4, 5], 2) == ([*chosen.positions.values()], chosen.left_out)
    assert ([1, 7], 0) == ([*named.positions.values()], named.left_out)
    assert 8 == len(request("orders").choose("g").positions)


def test_a_topic_without_a_committed_offset_is_refused() -> None:
    """Each scope that selects nothing is named, and the topics that would select something."""
    with pytest.raises(NotFound) as refused:
        request("orders:0", "audit", "orders:9").choose("g")

    assert "group 'g' has no committed offset for audit, orders:9" == refused.value.problem
    assert "it has committed offsets for orders" == refused.value.hint


def test_a_partition_without_a_committed_offset_is_no_place() -> None:
    """The others are in the order of the frame, whatever else is unknown of them."""
    columns = {"topic": "orders", "partition": [3, 1, 2], "lag": [None, None, 0]}
    offsets = pd.DataFrame(columns).assign(committed=pd.array([None, 10, 20], "Int64"))
    lag = offsets["lag"].astype("Int64")

    assert [
        PeekPlace(TopicPartition("orders", 1), 10, by_default=True),
        PeekPlace(TopicPartition("orders", 2), 20, by_default=False),
    ] == peek_places(offsets, (lag != 0).fillna(value=True))
