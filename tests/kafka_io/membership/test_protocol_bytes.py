"""
What classic consumers say to each other: ours against bytes that were recorded from real clients.

They are in `recorded_protocol_bytes.json`, as a broker described groups of two members of one
client on four partitions: `a`, which had been alone for a generation, and `b`.
"""

import json
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recipe_runs import orders

from toolkit.errors import Blocked
from toolkit.kafka_io.groups.subscriptions import (
    assignment_from_bytes,
    from_classic_metadata,
    user_data_from_bytes,
)
from toolkit.kafka_io.membership.protocol_bytes import (
    PROTOCOLS,
    MemberSubscription,
    assignment_with_note,
    note_in_subscription,
    protocol_named,
    read_subscription,
)
from toolkit.model import TopicPartition


class Recorded(NamedTuple):
    """The bytes of one member of a real client."""

    client: str  # with its version
    protocol: str
    member: str
    subscription: bytes
    assignment: bytes


RECORDED = [
    Recorded(*(entry[name] for name in ("client", "protocol", "member")), *map(bytes.fromhex, data))
    for entry in json.loads(Path(__file__).with_name("recorded_protocol_bytes.json").read_text())
    for data in [(entry["subscription"], entry["assignment"])]
]


# What members say they own, where they say anything, and the generation of that.
OWNED = {
    ("librdkafka 2.16.1", "cooperative-sticky", "a"): (orders(2, 3), 2),
    ("librdkafka 2.16.1", "cooperative-sticky", "b"): (orders(), 2),
    ("Java 4.3.1", "range", "a"): (orders(), 1),
    ("Java 4.3.1", "roundrobin", "a"): (orders(), 1),
    ("Java 4.3.1", "sticky", "a"): (orders(0, 1, 2, 3), 1),
    ("Java 4.3.1", "cooperative-sticky", "a"): (orders(0, 1), 2),
    ("kafka-python 3.0.12", "cooperative-sticky", "a"): (orders(0, 1), -1),
    ("aiokafka 0.14.0", "sticky", "a"): (orders(0, 1, 2, 3), -1),
    ("sarama 1.61.1", "sticky", "a"): (orders(0, 1, 2, 3), 1),
    ("franz-go 1.22.2", "range", "a"): (orders(), 1),
    ("franz-go 1.22.2", "roundrobin", "a"): (orders(), 1),
    ("franz-go 1.22.2", "sticky", "a"): (orders(), 1),
    ("franz-go 1.22.2", "cooperative-sticky", "a"): (orders(0, 1), 2),
}
# Whose leader our assignments are those of, to the byte.
AS_OF = {
    ("sarama 1.61.1", "range", "a"),
    ("sarama 1.61.1", "roundrobin", "a"),
    ("sarama 1.61.1", "sticky", "b"),
    ("franz-go 1.22.2", "cooperative-sticky", "a"),
    ("KafkaJS 2.2.4", "RoundRobinAssigner", "a"),
}


@pytest.mark.parametrize("one", RECORDED, ids=lambda one: "-".join(one[:3]))
def test_bytes_of_all_clients_are_read(one: Recorded) -> None:
    """Topics always, owned partitions and generation where a client sends them."""
    found = read_subscription(one.subscription)

    assert frozenset({"orders"}) == found.topics == from_classic_metadata(one.subscription).topics
    if expected := OWNED.get(one[:3]):
        assert expected == (found.owned, found.generation)
    else:
        assert orders() == found.owned
    assert 2 == len(assignment_from_bytes(one.assignment))


@pytest.mark.parametrize(
    "one", [r for r in RECORDED if r[:3] in AS_OF], ids=lambda one: "-".join(one[:2])
)
def test_our_assignments_are_those_of_a_real_leader(one: Recorded) -> None:
    """Byte for byte, for every protocol that we lead."""
    share = assignment_from_bytes(one.assignment)
    generation = 2  # of the group when it was recorded

    assert one.assignment == PROTOCOLS[one.protocol].assignment(share, generation=generation)


def test_every_protocol_that_we_lead_was_recorded() -> None:
    """None is led by guess."""
    assert PROTOCOLS.keys() == {protocol for _, protocol, _ in AS_OF}
    assert AS_OF | OWNED.keys() <= {one[:3] for one in RECORDED}


@pytest.mark.parametrize(
    ("protocol", "subscription", "nothing"),
    [
        ("range", "0000 00000001 0001 61 ffffffff", "0000 00000000 ffffffff"),
        ("roundrobin", "0000 00000001 0001 61 ffffffff", "0000 00000000 ffffffff"),
        (
            "sticky",
            "0000 00000001 0001 61 00000008 00000000 ffffffff",
            "0000 00000000 00000008 00000000 00000007",
        ),
        (
            "cooperative-sticky",
            "0001 00000001 0001 61 00000008 00000000 ffffffff 00000000",
            "0000 00000000 ffffffff",
        ),
        ("RoundRobinAssigner", "0000 00000001 0001 61 00000000", "0000 00000000 00000000"),
    ],
)
def test_the_bytes_of_sentinels(protocol: str, subscription: str, nothing: str) -> None:
    """
    The subscription of a sentinel, and the assignment of a member without partitions.

    Eager ones subscribe by version 0: the version 1 that kafka-go leaders know is not the real one.
    """
    ours = PROTOCOLS[protocol]

    assert bytes.fromhex(subscription) == ours.subscription(["a"])
    assert bytes.fromhex(nothing) == ours.assignment((), generation=7)
    assert MemberSubscription(frozenset({"a"})) == read_subscription(ours.subscription(["a"]))


@pytest.mark.parametrize("protocol", PROTOCOLS)
@given(text=st.text().map("{{{}".format))
def test_a_note_in_our_subscription_is_read_back(protocol: str, text: str) -> None:
    """It hides nothing of what others read there, and of other members none is read."""
    ours = PROTOCOLS[protocol]
    data = ours.subscription([], text)

    assert text.encode() == note_in_subscription(data)
    assert MemberSubscription(frozenset()) == read_subscription(data)
    assert b"" == note_in_subscription(ours.subscription([]))
    assert b"" == note_in_subscription(data[:5])


def test_a_claim_is_written_in_both_places() -> None:
    """Java reads the generation in the message, librdkafka in the user data."""
    place = TopicPartition("a", 7)
    data = PROTOCOLS["cooperative-sticky"].claim(["a"], place)
    owned = "00000001 0001 61 00000001 00000007 7fffffff"

    assert data == bytes.fromhex(f"0003 00000001 0001 61 00000013 {owned} {owned} ffff")
    assert MemberSubscription(frozenset({"a"}), frozenset({place}), 2**31 - 1) == read_subscription(
        data
    )


def test_the_note_is_in_an_assignment_without_partitions() -> None:
    """A reader of the sentinel's assignment finds no partitions, and the note."""
    data = assignment_with_note('{"paused": {}}')

    assert () == assignment_from_bytes(data)
    assert b'{"paused": {}}' == user_data_from_bytes(data)


@pytest.mark.parametrize("name", ["", "stream", "Range", "custom"])
def test_other_protocols_are_refused_by_name(name: str) -> None:
    """A leader that says the wrong thing breaks an application for good."""
    with pytest.raises(Blocked, match=f"assignor {name!r}.*cooperative-sticky"):
        protocol_named(name)


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x00\x00\x00\x00\x00\x05", b"\0\0\xff\xff\xff\xff"]
)
def test_invalid_bytes_are_no_subscription(data: bytes) -> None:
    """They are distinguished from an empty subscription."""
    assert read_subscription(data) is None


places = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["a", "bb", "ü"]), st.integers(0, 2**31 - 1))
)


@given(st.sampled_from(list(PROTOCOLS)), places, st.integers(0, 2**31 - 1))
def test_an_assignment_is_read_as_it_was_written(
    protocol: str, share: frozenset[TopicPartition], generation: int
) -> None:
    """Whatever the share, a member finds exactly it, and as user data what it had, where asked."""
    data = PROTOCOLS[protocol].assignment(share, generation=generation)

    assert tuple(sorted(share)) == assignment_from_bytes(data)
    if PROTOCOLS[protocol].sticky:
        again = b"\x00\x00\x00\x00\x00\x00" + data[-4 - len(user_data_from_bytes(data)) :]
        assert MemberSubscription(frozenset(), share, generation) == read_subscription(again)


@given(st.binary(max_size=60))
def test_no_bytes_break_the_reading(data: bytes) -> None:
    """Members may send anything."""
    found = read_subscription(data)

    assert found is None or isinstance(found.topics, frozenset)
