"""An application that joins two topics by partition number keeps both in one member's hands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from applications import eventually
from live_groups import LiveGroup, start_live_group, together
from operators import Operator, once_at_rest

from toolkit.model import Cluster, GroupState, TopicPartition

pytestmark = pytest.mark.live("consumers come and go")

COUNT, PAUSED = 7, 5


def owners(operator: Operator, live: LiveGroup) -> dict[TopicPartition, str]:
    """Return which application has each partition; {} while the group is not at rest."""
    (group,) = operator.look(live.group).groups
    if group.state is not GroupState.STABLE:
        return {}
    return {p: m.client_id for m in group.readers for p in m.assignment}


def pairs_that_are_split(found: dict[TopicPartition, str], live: LiveGroup) -> list[int]:
    """Return the partition numbers that two applications have."""
    left, right = live.topics
    numbers = set(range(COUNT)) - {PAUSED}
    places = {n: (TopicPartition(left, n), TopicPartition(right, n)) for n in numbers}
    return [n for n, (one, other) in places.items() if found[one] != found[other]]


def test_a_hold_keeps_equal_partition_numbers_together(
    bare_cluster: Cluster, unique_name: Callable[[str], str], tmp_path: Path
) -> None:
    """Also after a member joins and one leaves; nothing that is not paused is moved by a pause."""

    def is_so(kind: str) -> None:
        with ExitStack() as ending:
            operator = Operator(bare_cluster, tmp_path / f"state-{kind}")
            name, three = unique_name("pairs"), ("a", "b", "c")
            live = start_live_group(
                bare_cluster,
                kind,
                name,
                tmp_path / kind,
                ending,
                consumers=three,
                topics=2,
                partitions=COUNT,
            )
            scopes = [f"{topic}:{PAUSED}" for topic in live.topics]
            held = live.places_of(PAUSED) | live.places_of(PAUSED, topic=1)

            def settled(members: int) -> dict[TopicPartition, str]:
                def found() -> dict[TopicPartition, str]:
                    now = owners(operator, live)
                    everything = now.keys() == set(live.places) - held
                    return now if everything and len({*now.values()}) == members else {}

                return dict(eventually(found))

            before = owners(operator, live)
            paused = operator.session
            outcome = once_at_rest(
                lambda: (
                    paused.pause(live.group, scopes)
                    .decide(dry_run=False)
                    .approved_by_hand("a test")
                    .apply()
                )
            )
            assert outcome.is_done
            first = settled(3)
            live.applications.start("d")
            joined = settled(4)
            live.applications.stop("d")
            left = settled(3)

            assert {place: one for place, one in before.items() if place not in held} == first
            assert [[], [], []] == [
                pairs_that_are_split(one, live) for one in (first, joined, left)
            ]
            ending.callback(live.end_holds)

    together(is_so, ("librdkafka-range", "java-range"))
