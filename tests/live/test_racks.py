"""Groups whose leader gives partitions to consumers in the rack of their replicas (KIP-881)."""

from collections.abc import Iterator

import pytest
from applications import eventually
from consumer_processes.analysis import delivered_during, repeats
from holding import MakeHolding

from toolkit.model import Cluster, TopicPartition
from toolkit.sandbox.broker import Broker, addresses_of, start_brokers, stop_brokers

pytestmark = pytest.mark.live("consumers run on three brokers")

Shares = dict[str, frozenset[TopicPartition]]


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster of three brokers, each in a rack of its own: 1, 2 and 3."""
    numbers = iter("123")

    def in_a_rack(_: Broker) -> dict[str, str]:
        return {"broker.rack": next(numbers)}

    brokers = start_brokers(tmp_path_factory.mktemp("racks"), 3, own_properties=in_a_rack)
    try:
        yield Cluster("racks", addresses_of(brokers))
    finally:
        stop_brokers(brokers)


def test_a_group_that_is_assigned_by_rack(racks: Cluster, new_holding: MakeHolding) -> None:
    """Partitions that are not paused stay in their rack; in the end all is as before."""
    shape = {"consumers": ("a",), "replicas": ((1,), (2,)), "client_rack": "1"}
    one = new_holding(racks, "java-range", **shape)
    live = one.live
    live.applications.start("b", client_rack="2")

    def shares() -> Shares:
        return {m.client_id: frozenset(m.assignment) for m in one.group.readers}

    by_rack = {"a": live.places_of(0, 2, 4), "b": live.places_of(1, 3, 5)}
    eventually(lambda: shares() == by_rack)
    live.until_at_rest()
    paused = live.places_of(0, 3)
    paused_at = one.pause(0, 3)
    eventually(lambda: shares() == {who: share - paused for who, share in by_rack.items()})
    live.applications.until_delivered(set(live.places) - paused, since=paused_at)
    resumed_at = one.resume()
    live.applications.until_delivered(live.places, since=resumed_at)
    eventually(lambda: shares() == by_rack)

    log = live.applications.deliveries()
    assert [] == delivered_during(log, paused, paused_at, resumed_at)
    assert [] == repeats(log, start=one.began)
