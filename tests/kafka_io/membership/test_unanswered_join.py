"""A join that another join of the same member has overtaken, on a real broker."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from applications import eventually

from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import DescribeClassic, Join, Leave, Sync
from toolkit.kafka_io.membership.protocol_bytes import protocol_named
from toolkit.model import Cluster

OVERTAKEN_AFTER_S = 1.0  # nothing shows whether a second join has arrived


def test_a_join_that_was_overtaken_is_sent_again(
    bare_cluster: Cluster, unique_name: Callable[[str], str]
) -> None:
    """The coordinator answers only the later of two joins of a member; the earlier is repeated."""
    group = unique_name("overtaken")
    protocol = protocol_named("range")

    def join(member_id: str) -> Join:
        return Join(member_id, ((protocol.name, protocol.subscription(())),), 30_000, 60_000)

    with (
        GroupChannel(bare_cluster, group) as keeper,
        GroupChannel(bare_cluster, group) as lost,
        ThreadPoolExecutor() as pool,
    ):
        ours = keeper.ask(join("")).member_id
        led = keeper.ask(join(ours))
        keeper.ask(Sync(ours, led.generation, protocol.name, {}))
        # While an id is out with which nobody has joined, the rebalance does not end.
        blocker = lost.ask(join("")).member_id
        with GroupChannel(bare_cluster, group) as looking:

            def rebalances() -> bool:
                return bool(looking.ask(DescribeClassic()).state == "PreparingRebalance")

            answered = pool.submit(keeper.ask, join(ours))
            eventually(rebalances)
            overtaking = lost.send_ahead(join(ours))
            time.sleep(OVERTAKEN_AFTER_S)
            assert not answered.done()
            looking.ask(Leave((blocker,)))
            first = lost.wait_for(overtaking)
            eventually(answered.done)

            joined = answered.result()
            assert (0, 0) == (first.error, joined.error)
            assert (ours, ours) == (first.leader, joined.leader)
            assert first.generation == joined.generation
            looking.ask(Leave((ours,)))
