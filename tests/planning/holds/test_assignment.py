"""Sharing out partitions: each rule as a property; and which of them holds can claim."""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.model import TopicPartition
from toolkit.planning.holds.assignment import CutAssignment, Subscriber, assign
from toolkit.planning.holds.recipes import MOST_PARTITIONS, partitions_to_claim

TOPICS = ("a", "b", "c")
counts_ = st.dictionaries(st.sampled_from(TOPICS), st.integers(0, 9), max_size=3)
places = st.builds(TopicPartition, st.sampled_from(TOPICS), st.integers(0, 9))
paused_ = st.frozensets(places, max_size=6)
topics_ = st.frozensets(st.sampled_from(TOPICS), max_size=3)
members_ = st.lists(
    st.builds(
        Subscriber,
        st.sampled_from([f"m{number}" for number in range(6)]),
        topics_,
        st.frozensets(places, max_size=8),
        st.integers(-1, 3),
    ),
    max_size=6,
    unique_by=lambda member: member.member_id,
)
cooperative_ = st.booleans()


def everything(counts: Mapping[str, int]) -> set[TopicPartition]:
    return {TopicPartition(topic, n) for topic, count in counts.items() for n in range(count)}


def rejoined(members: Iterable[Subscriber], assignment: CutAssignment) -> list[Subscriber]:
    """Return the members as they come back once they have taken an assignment."""
    return [
        Subscriber(m.member_id, m.topics, assignment.shares[m.member_id], generation=9)
        for m in members
    ]


@given(members_, counts_, paused_)
def test_each_partition_has_one_subscribed_owner(
    members: list[Subscriber], counts: dict[str, int], paused: frozenset[TopicPartition]
) -> None:
    """A paused partition, or one without subscribers, has none."""
    shares = assign(members, counts, paused=paused).shares
    wanted = frozenset().union(*(member.topics for member in members))
    owners = Counter(partition for share in shares.values() for partition in share)

    assert {one: 1 for one in everything(counts) - paused if one.topic in wanted} == owners
    assert {member.member_id for member in members} == shares.keys()
    for member in members:
        assert {one.topic for one in shares[member.member_id]} <= member.topics


@given(members_, counts_, paused_)
def test_shares_are_balanced(
    members: list[Subscriber], counts: dict[str, int], paused: frozenset[TopicPartition]
) -> None:
    """No owner has two more than another subscriber of its topic; equals differ by one."""
    shares = assign(members, counts, paused=paused).shares

    for one in members:
        for other in members:
            more = len(shares[one.member_id]) - len(shares[other.member_id])
            if {p.topic for p in shares[one.member_id]} & other.topics:
                assert more <= 1
            if one.topics == other.topics:
                assert abs(more) <= 1


@given(members_, counts_, paused_)
def test_as_few_partitions_as_possible_move(
    members: list[Subscriber], counts: dict[str, int], paused: frozenset[TopicPartition]
) -> None:
    """Of equally subscribed members, as many keep their partitions as balance allows."""
    alike = [
        Subscriber(member.member_id, frozenset(TOPICS), member.owned, number)
        for number, member in enumerate(members)
    ]
    shares = assign(alike, counts, paused=paused).shares
    left = everything(counts) - paused
    had = {}
    for member in reversed(alike):  # the later of two claims counts
        had[member.member_id] = member.owned & left
        left -= member.owned

    kept = sum(len(shares[member_id] & had[member_id]) for member_id in had)
    quota, larger = divmod(sum(map(len, shares.values())), len(alike) or 1)
    most = (
        sum(min(len(had[one]), quota + (one in chosen)) for one in had)
        for chosen in combinations(had, larger)
    )
    assert max(most, default=0) == kept


@given(members_, counts_, paused_)
def test_a_balanced_group_that_nothing_happens_to_stays_as_it_is(
    members: list[Subscriber], counts: dict[str, int], paused: frozenset[TopicPartition]
) -> None:
    """Members that come back with what they were given are given it again."""
    before = assign(members, counts, paused=paused)

    assert before == assign(rejoined(members, before), counts, paused=paused, cooperative=True)


@given(members_, counts_, paused_, cooperative_, st.randoms())
def test_the_order_of_the_facts_does_not_matter(
    members: list[Subscriber],
    counts: dict[str, int],
    paused: frozenset[TopicPartition],
    cooperative: bool,  # noqa: FBT001
    random: st.DataObject,
) -> None:
    """The same facts give the same shares."""
    shuffled, topics = list(members), list(counts.items())
    random.shuffle(shuffled)
    random.shuffle(topics)

    assert assign(members, counts, paused=paused, cooperative=cooperative) == assign(
        shuffled, dict(topics), paused=paused, cooperative=cooperative
    )


@given(members_, counts_, paused_)
def test_cooperative_members_are_not_assigned_owned_partitions(
    members: list[Subscriber], counts: dict[str, int], paused: frozenset[TopicPartition]
) -> None:
    """A partition that a member still owns is withheld, and nothing else."""
    first = assign(members, counts, paused=paused, cooperative=True)
    final = assign(members, counts, paused=paused)

    for member in members:
        for other, share in first.shares.items():
            assert other == member.member_id or not share & member.owned
        assert final.shares[member.member_id] - first.withheld == (first.shares[member.member_id])
    assert first.withheld <= frozenset().union(*final.shares.values())


@given(members_, counts_, paused_)
def test_cooperative_assignments_come_to_an_end(
    members: list[Subscriber], counts: dict[str, int], paused: frozenset[TopicPartition]
) -> None:
    """Once all have taken an assignment the next withholds less; members alike need no third."""
    wanted = frozenset().union(*(member.topics for member in members))
    alike = len({member.topics for member in members}) <= 1
    found = assign(members, counts, paused=paused, cooperative=True)
    rounds = 1
    while found.withheld:
        members = rejoined(members, found)
        found = assign(members, counts, paused=paused, cooperative=True)
        rounds += 1
        assert rounds <= (2 if alike else 4)

    assert {one for one in everything(counts) - paused if one.topic in wanted} == set().union(
        *found.shares.values()
    )


@given(members_, counts_, paused_, topics_)
def test_only_a_new_member_gets_partitions_of_others(
    members: list[Subscriber],
    counts: dict[str, int],
    paused: frozenset[TopicPartition],
    topics: frozenset[str],
) -> None:
    """A new member gives none away; those of a lost one go to the others."""
    alike = [Subscriber(member.member_id, topics, member.owned) for member in members]
    before = rejoined(alike, assign(alike, counts, paused=paused))
    joined = assign([*before, Subscriber("new", topics)], counts, paused=paused).shares
    left = assign(before[1:], counts, paused=paused).shares

    for member in before:
        assert joined[member.member_id] <= member.owned
    for member in before[1:]:
        assert member.owned <= left[member.member_id]


BOTH = frozenset({"a", "b"})


def places_of(topic: str, *numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for number in numbers)


def test_the_newer_of_two_claims_counts() -> None:
    """A partition that two members claim stays with the later generation."""
    place = places_of("a", 0)
    stale, owner = (
        Subscriber(name, frozenset("a"), place, generation)
        for name, generation in (("m1", 3), ("m2", 4))
    )

    assert {"m1": frozenset(), "m2": place} == assign([stale, owner], {"a": 1}).shares
    # Both may be reading it, so neither goes on until both have let go.
    assert place == assign([stale, owner], {"a": 1}, cooperative=True).withheld


def test_of_two_equal_claims_the_same_one_counts_always() -> None:
    """Which of two members keeps what both say they own does not depend on their order."""
    claims = [Subscriber(name, frozenset("a"), places_of("a", 0)) for name in ("m1", "m2")]

    assert assign(claims, {"a": 2}) == assign(reversed(claims), {"a": 2})


def test_newly_assigned_partitions_move_first() -> None:
    """A member with too many keeps its old ones and passes on the new ones."""
    three = [
        Subscriber("x", frozenset("au"), places_of("a", 0)),
        Subscriber("y", frozenset("a")),
        Subscriber("z", frozenset("uv"), places_of("v", 0, 1, 2, 3, 4)),
    ]
    shares = assign(three, {"a": 3, "u": 1, "v": 5}).shares

    assert places_of("a", 0) | places_of("u", 0) == shares["x"]


def test_the_largest_share_gives_first() -> None:
    """A partition of a small share does not move where one of the largest could."""
    small = Subscriber("m1", BOTH, places_of("a", 0) | places_of("b", 0))
    large = Subscriber("m2", BOTH, places_of("b", 1, 2, 3))
    shares = assign([small, large, Subscriber("new", BOTH)], {"a": 1, "b": 4}).shares

    assert (small.owned, 1) == (shares["m1"], len(shares["new"]))


@pytest.mark.parametrize(
    ("counts", "sizes"), [({"a": 3, "b": 1}, [2, 2]), ({"a": 1, "b": 5}, [5, 1])]
)
def test_shares_of_different_subscriptions_are_as_even_as_they_can_be(
    counts: dict[str, int], sizes: list[int]
) -> None:
    """A member with more topics takes what others cannot, and no more than that."""
    shares = assign([Subscriber("m1", BOTH), Subscriber("m2", frozenset("a"))], counts).shares

    assert sizes == [len(shares["m1"]), len(shares["m2"])]


@given(st.integers(1, 30), st.dictionaries(st.sampled_from("abc"), st.integers(1, 60), min_size=1))
def test_each_partition_is_claimed_once(members: int, counts: dict[str, int]) -> None:
    """Where all members subscribe to the same topics, however many they are."""
    found = partitions_to_claim([frozenset(counts)] * members, counts)

    assert sorted(everything(counts)) == list(found)


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
