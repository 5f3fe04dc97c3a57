"""An application that joins two topics by partition number keeps both in one member's hands."""

import pytest
from applications import eventually
from holding import Holding, MakeHolding, carried_out
from live_groups import together
from operators import once_at_rest

from toolkit.model import Cluster, GroupState, TopicPartition

pytestmark = pytest.mark.live("consumers come and go")

COUNT, PAUSED = 7, 5

Owners = dict[TopicPartition, str]


def owners(one: Holding) -> Owners:
    """Return which application has each partition; {} while the group is not at rest."""
    group = one.group
    if group.state is not GroupState.STABLE:
        return {}
    return {p: m.client_id for m in group.readers for p in m.assignment}


def pairs_that_are_split(found: Owners, topics: tuple[str, ...]) -> list[int]:
    """Return the partition numbers that two applications have."""
    numbers = set(range(COUNT)) - {PAUSED}
    return [n for n in numbers if len({found[TopicPartition(topic, n)] for topic in topics}) > 1]


def test_a_hold_keeps_equal_partition_numbers_together(
    bare_cluster: Cluster, new_holding: MakeHolding
) -> None:
    """Also after a member joins and one leaves; a pause moves no partition that is not paused."""

    def is_so(kind: str) -> None:
        three = ("a", "b", "c")
        one = new_holding(bare_cluster, kind, consumers=three, topics=2, partitions=COUNT)
        live, session = one.live, one.operator.session
        others = {place for place in live.places if place.partition != PAUSED}

        def settled(members: int) -> Owners:
            def found() -> Owners:
                now = owners(one)
                return now if now.keys() == others and len({*now.values()}) == members else {}

            return dict(eventually(found))

        before = owners(one)
        scopes = [f"{topic}:{PAUSED}" for topic in live.topics]
        assert once_at_rest(lambda: carried_out(session.pause(live.group, scopes))).is_done
        first = settled(3)
        live.applications.start("d")
        joined = settled(4)
        live.applications.stop("d")
        left = settled(3)

        assert {place: before[place] for place in others} == first
        assert [[]] * 3 == [pairs_that_are_split(o, live.topics) for o in (first, joined, left)]

    together(is_so, ("librdkafka-range", "java-range"))
