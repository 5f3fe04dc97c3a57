"""What a group's own assignor decides stays true while partitions are paused."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from held import blocks, classic, facts, notes, reader
from hypothesis import given
from hypothesis import strategies as st
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

from toolkit.model import TopicPartition
from toolkit.planning.changes.pause import plan_pause
from toolkit.planning.holds.assignment import Shares, Subscriber, assign

TOPICS = ("a", "b", "c")
KAFKA_PYTHON = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
counts_ = st.fixed_dictionaries({topic: st.integers(1, 9) for topic in TOPICS})
places = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 9))
paused_ = st.frozensets(places, max_size=8)
members_ = st.lists(
    st.builds(
        Subscriber,
        st.sampled_from([f"m{number}" for number in range(8)]),
        st.frozensets(st.sampled_from(TOPICS), max_size=3),
        instance_id=st.sampled_from(["", "", "s1", "s2", "s3"]),
    ),
    min_size=1,
    max_size=8,
    unique_by=(lambda m: m.member_id, lambda m: m.instance_id or m.member_id),
)


def as_kafka_python_does(
    name: str, members: Sequence[Subscriber], counts: Mapping[str, int]
) -> Shares:
    given_: list[Any] = [
        SimpleNamespace(
            member_id=member.member_id,
            group_instance_id=member.instance_id or None,
            metadata=SimpleNamespace(topics=sorted(member.topics)),
        )
        # It loses members unless the static ones come first.
        for member in sorted(members, key=lambda member: not member.instance_id)
    ]
    cluster = SimpleNamespace(
        partitions_for_topic=lambda topic: set(range(counts[topic])) if topic in counts else None
    )
    found = KAFKA_PYTHON[name].assign(cluster, given_)
    return {
        member_id: frozenset(TopicPartition(t, n) for t, ns in one.assigned_partitions for n in ns)
        for member_id, one in found.items()
    }


@pytest.mark.parametrize("name", sorted(KAFKA_PYTHON))
@given(members_, counts_, paused_)
def test_a_hold_assigns_as_the_client_library_does(
    name: str, members: list[Subscriber], counts: dict[str, int], paused: frozenset[TopicPartition]
) -> None:
    """Without the paused partitions; no other partition changes its owner."""
    if name == "roundrobin":  # with different subscriptions kafka-python 3.0.12 raises a KeyError
        members = [replace(member, topics=frozenset(TOPICS)) for member in members]
    whole = as_kafka_python_does(name, members, counts)
    found = assign(members, counts, paused=paused, assignor=name)

    assert whole == found.whole
    assert {one: share - paused for one, share in whole.items()} == found.shares


@given(st.integers(1, 8), st.integers(1, 9), paused_, st.data())
def test_topics_that_are_read_together_stay_together(
    readers: int, count: int, paused: frozenset[TopicPartition], data: st.DataObject
) -> None:
    """Equal numbers of two topics have one owner, also when members come and go, and come back."""
    both = frozenset("ab")
    members = [Subscriber(f"m{n}", both) for n in range(readers)]
    gone = data.draw(st.integers(0, readers - 1))
    others = [*members[:gone], *members[gone + 1 :], Subscriber("k9", both)]
    for group in (members, others):
        shares = assign(group, {"a": count, "b": count}, paused=paused, assignor="range").shares
        owner = {place: one for one, share in shares.items() for place in share}
        for number in range(count):
            pair = TopicPartition("a", number), TopicPartition("b", number)
            if not paused.intersection(pair):
                assert owner[pair[0]] == owner[pair[1]]


def test_a_member_with_a_new_id_keeps_its_rank() -> None:
    """A member that was removed by the capture reads the same as before."""
    members = [Subscriber(f"m{n}", frozenset("a")) for n in range(3)]
    before = assign(members, {"a": 6}, assignor="range").whole
    back = [Subscriber("z", frozenset("a"), former_id="m0"), *members[1:]]

    assert before["m0"] == assign(back, {"a": 6}, assignor="range").whole["z"]


@given(members_, counts_, paused_)
def test_a_pause_of_a_sticky_group_moves_nothing(
    members: list[Subscriber], counts: dict[str, int], paused: frozenset[TopicPartition]
) -> None:
    """Paused partitions count for their former owner, so the others keep theirs."""
    before = assign(members, counts, assignor="sticky").whole
    back = [
        Subscriber(m.member_id, m.topics, before[m.member_id], paused=before[m.member_id] & paused)
        for m in members
    ]
    after = assign(back, counts, paused=paused, assignor="sticky")

    assert {one: share - paused for one, share in before.items()} == after.shares
    assert before == after.whole


@pytest.mark.parametrize(
    ("topics", "assignment", "found"),
    [
        (("orders",), ((0, 1), (2, 3)), ""),
        (("orders",), ((0, 2), (1, 3)), "note"),
        (("orders", "bills"), ((0, 2), (1, 3)), "block"),
    ],
)
def test_an_assignor_that_differs_from_kafkas_is_noted(
    topics: tuple[str, ...], assignment: tuple[tuple[int, ...], ...], found: str
) -> None:
    """If topics may be read together by partition number, it blocks."""
    readers = (reader(n, *own, topics=topics) for n, own in zip("ab", assignment, strict=True))
    plan = plan_pause(facts(classic(*readers)), group="g", topics=["orders:0"])

    assert ("assignor-differs" in blocks(plan)) == (found == "block")
    assert ("assignor-differs" in notes(plan)) == (found == "note")
