from collections.abc import Sequence
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsets_records import (
    AT_MS,
    chunk_with,
    classic_value,
    current_value,
    epoch_value,
    group_key,
    log_of,
    member_value,
    mutated,
    pattern_value,
    streams_value,
    subscription,
    topology_value,
)

from toolkit.kafka_io.offsets_topic.group_records import (
    ClassicGroup,
    ConsumerMemberRecord,
    CurrentAssignment,
    GroupKey,
    StreamsGroup,
    Topology,
    decode_classic_group,
    decode_consumer_member,
    decode_current_assignment,
    decode_epoch,
    decode_group_key,
    decode_resolved_pattern,
    decode_streams_group,
    decode_topology,
    generation_of,
)
from toolkit.kafka_io.offsets_topic.latest_records import latest_of
from toolkit.kafka_io.offsets_topic.latest_tables import DAMAGED, DECODERS, GROUPS, decode_groups
from toolkit.kafka_io.wire.fields import MalformedMessage

AT = datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)

TEXT = st.text(st.characters(codec="utf-8"), max_size=40)
NAMES = st.lists(TEXT, max_size=4)
INT32 = st.integers(-(2**31), 2**31 - 1)


def groups_of(*records: tuple[bytes, bytes | None]) -> Any:
    """Return the groups that some records make, by name, and the reasons of malformed ones."""
    table, malformed = decode_groups(latest_of(chunk_with(log_of(*records))))
    assert table.schema.equals(GROUPS)
    return {row["group"]: row for row in table.to_pylist()}, dict(malformed)


def group_of(*records: tuple[bytes, bytes | None]) -> Any:
    """Return the one group that some records make."""
    found, malformed = groups_of(*records)
    assert malformed == {}
    (row,) = found.values()
    return row


def consumer_group(members: Sequence[tuple[str, bytes, bytes | None]], target: int = 4) -> Any:
    """Return the records of a KIP-848 group of epoch 4: of each member its own and its current."""
    found = [(group_key(3, "g"), epoch_value(4)), (group_key(6, "g"), epoch_value(target))]
    for member, value, current in members:
        found.append((group_key(5, "g", member), value))
        if current is not None:
            found.append((group_key(8, "g", member), current))
    return found


@given(st.integers(0, 4), TEXT, INT32, st.integers(0, 2**62), st.lists(NAMES, max_size=3))
def test_classic_round_trip(
    version: int, protocol_type: str, generation: int, changed_ms: int, topics: list[list[str]]
) -> None:
    """Any classic group that can be written is read back, in each of the five versions."""
    subscribed = [subscription(names) for names in topics]
    fields = {"generation": generation, "changed_ms": changed_ms}
    value = classic_value(version, protocol_type, subscriptions=subscribed, **fields)
    found = decode_classic_group(value)

    since = changed_ms if version >= 2 else -1
    assert found == ClassicGroup(protocol_type, generation, since, tuple(subscribed))
    assert generation_of(value) == generation


@given(NAMES, st.none() | TEXT, INT32, st.integers(0, 2))
def test_modern_round_trip(topics: list[str], pattern: str | None, epoch: int, state: int) -> None:
    """Records of KIP-848 and streams groups are read back with what is used of them."""
    assert decode_consumer_member(member_value(topics, pattern)) == ConsumerMemberRecord(
        tuple(topics), pattern
    )
    assert decode_resolved_pattern(pattern_value(topics)) == tuple(topics)
    assert decode_epoch(epoch_value(epoch)) == epoch
    wanted = Topology(epoch, frozenset([*topics, "repartition"]), ())
    assert decode_topology(topology_value(epoch, topics, ["repartition"])) == wanted
    assert decode_streams_group(streams_value(5, epoch)) == StreamsGroup(5, epoch)
    if epoch > -(2**31):
        found = decode_current_assignment(current_value(epoch, state))
        assert found == CurrentAssignment(epoch, state)


@given(TEXT, TEXT)
def test_key_round_trip(group: str, member: str) -> None:
    """Keys with and without a member are read back, and one that is cut or too long is refused."""
    for key, wanted in (
        (group_key(2, group), GroupKey(group, None)),
        (group_key(5, group, member), GroupKey(group, member)),
    ):
        assert decode_group_key(key) == wanted
        for damaged in (key[:-1] if group and member else b"", key + b"\0"):
            with pytest.raises(MalformedMessage):
                decode_group_key(damaged)


WHOLE = [
    *[
        (2, classic_value(v, changed_ms=AT_MS, subscriptions=[subscription("ab")]))
        for v in range(5)
    ],
    (3, epoch_value(3)),
    (5, member_value(["a", "b"], "c.*")),
    (16, pattern_value(["c1", "c2"])),
    (17, streams_value(1, 2)),
    (23, topology_value(1, ["a"], ["r"])),
]


@pytest.mark.parametrize(("kind", "value"), WHOLE, ids=lambda part: str(part)[:30])
def test_values_cut_anywhere_are_refused(kind: int, value: bytes) -> None:
    """A group's value that ends too early or too late, or is of a newer version, is refused."""
    for end in range(len(value)):
        with pytest.raises(MalformedMessage):
            DECODERS[kind](value[:end])
    for damaged in (value + b"\0", b"\0\x09" + value[2:]):
        with pytest.raises(MalformedMessage, match=r"version 9|extra bytes"):
            DECODERS[kind](damaged)


@given(st.sampled_from(WHOLE), st.integers(0, 2**32))
def test_damaged_group_records_are_refused_or_read(whole: tuple[int, bytes], seed: int) -> None:
    """Damaged records of groups never cause another error, alone or in a table of groups."""
    kind, value = whole
    chance = Random(seed)  # noqa: S311 - repeatable, not secret
    key = group_key(kind, "group", "member" if kind in (5, 16) else None)
    groups_of((mutated(key, chance), value), (key, mutated(value, chance)))


@given(st.binary(max_size=80))
def test_arbitrary_bytes(data: bytes) -> None:
    """Any bytes at all are refused as unknown, or read."""
    for decode in (decode_group_key, *DECODERS.values()):
        try:
            decode(data)
        except MalformedMessage:
            continue


@pytest.mark.parametrize("version", range(5))
def test_classic_group_with_members(version: int) -> None:
    """A classic group with members is Stable, and subscribes to what all its members name."""
    members = [subscription(["b", "a"]), subscription(["c"])]
    row = group_of((group_key(2, "g"), classic_value(version, subscriptions=members)))

    assert (row["type"], row["protocol_type"], row["state"]) == ("classic", "consumer", "Stable")
    assert (row["members"], row["epoch"], row["empty_since"]) == (2, 7, None)
    assert (row["subscribed"], row["unreadable"]) == (["a", "b", "c"], "")


@pytest.mark.parametrize(
    ("value", "protocol_type", "since"),
    [
        (classic_value(3, changed_ms=AT_MS), "consumer", AT),
        (classic_value(4, "connect", changed_ms=AT_MS), "connect", AT),
        (classic_value(1, changed_ms=AT_MS), "consumer", None),  # that version does not tell
        (classic_value(3, changed_ms=-1), "consumer", None),
        (classic_value(3, "", changed_ms=AT_MS), None, None),  # before its first member had joined
    ],
)
def test_classic_group_without_members(value: bytes, protocol_type: Any, since: Any) -> None:
    """A classic group without members is Empty since its record says; "" is no protocol type."""
    row = group_of((group_key(2, "g"), value))

    assert (row["state"], row["members"]) == ("Empty", 0)
    assert (row["protocol_type"], row["empty_since"]) == (protocol_type, since)
    assert row["subscribed"] == []


@pytest.mark.parametrize(
    ("members", "subscribed", "unreadable"),
    [
        # As for a broker, the group's is not known where one member's cannot be read.
        ([subscription(["a"]), b"\0"], ["a"], "the member's subscription could not be parsed"),
        # It ends after its topics, whatever its version promises.
        ([b"\0\1\0\0\0\1\0\1t\0\0\0\0"], ["t"], ""),
    ],
    ids=["cut", "without owned partitions"],
)
def test_classic_subscriptions(members: Any, subscribed: list[str], unreadable: str) -> None:
    """The subscription of a classic group is known where that of each member can be read."""
    row = group_of((group_key(2, "g"), classic_value(3, subscriptions=members)))

    assert (row["subscribed"], row["unreadable"]) == (subscribed, unreadable)


@pytest.mark.parametrize(
    ("current", "target", "state"),
    [
        (current_value(4), 4, "Stable"),
        (current_value(4), 3, "Assigning"),
        (current_value(3), 4, "Reconciling"),
        (current_value(4, 1), 4, "Reconciling"),
        (None, 4, "Reconciling"),
    ],
)
def test_state_of_a_modern_group(current: Any, target: int, state: str) -> None:
    """The state of a KIP-848 group follows from its epochs and those of its members."""
    row = group_of(*consumer_group([("m", member_value(["a"]), current)], target))

    assert (row["type"], row["protocol_type"]) == ("consumer", "consumer")
    assert (row["state"], row["members"], row["epoch"]) == (state, 1, 4)


def test_modern_subscription_with_patterns() -> None:
    """Names and topics of used patterns count; one that is not resolved leaves it unknown."""
    members = [("m1", member_value(["a"], "b.*"), None), ("m2", member_value([], None), None)]
    resolved = (group_key(16, "g", "b.*"), pattern_value(["b1", "b2"]))
    unused = (group_key(16, "g", "c.*"), pattern_value(["c1"]))
    row = group_of(*consumer_group(members), resolved, unused)
    unresolved = group_of(*consumer_group(members[:1]))

    assert (row["subscribed"], row["unreadable"]) == (["a", "b1", "b2"], "")
    assert unresolved["unreadable"] == "pattern 'b.*' is not resolved yet"


def test_modern_group_without_members() -> None:
    """A KIP-848 group whose members left is Empty since the newest of its records was written."""
    records = consumer_group([("m", member_value(["a"]), current_value(4))])
    left = [(key, None) for key, _ in records if key[1] in (5, 8)]
    row = group_of(*records, *left, (group_key(3, "g"), epoch_value(5)))

    assert (row["state"], row["members"], row["subscribed"]) == ("Empty", 0, [])
    assert row["empty_since"] == row["changed_at"]
    assert row["changed_at"].microsecond == 1000 * (len(records) + len(left))


@pytest.mark.parametrize(
    ("topology", "validated", "state", "subscribed", "unreadable"),
    [
        (topology_value(2, ["a"], ["r"]), 2, "Stable", ["a", "r"], ""),
        (topology_value(2, ["a"], ["r"]), 1, "NotReady", ["a", "r"], ""),
        (None, -1, "NotReady", [], "the topology is not known yet"),
    ],
)
def test_streams_group(
    topology: Any, validated: int, state: str, subscribed: Any, unreadable: str
) -> None:
    """A streams group reads the source and repartition topics of its topology."""
    row = group_of(
        (group_key(17, "g"), streams_value(4, validated)),
        (group_key(20, "g"), epoch_value(4)),
        (group_key(19, "g", "m"), b"\0\0whatever"),
        (group_key(22, "g", "m"), current_value(4)),
        (group_key(23, "g"), topology),
    )

    assert (row["type"], row["state"], row["members"]) == ("streams", state, 1)
    assert (row["subscribed"], row["unreadable"]) == (subscribed, unreadable)


def test_records_that_make_a_group() -> None:
    """Members before the first epoch do; remains of a deleted group, or commits alone, do not."""
    row = group_of((group_key(5, "g", "m"), member_value([])))
    gone, _ = groups_of((group_key(2, "g"), None), (group_key(3, "h"), None))

    assert ("consumer", 1, {}) == (row["type"], row["members"], gone)


def test_group_that_became_another_type() -> None:
    """A group that was converted is of the type of its newest live record."""
    classic = (group_key(2, "g"), classic_value(3))
    modern = consumer_group([("m", member_value(["a"]), current_value(4))])

    assert group_of(classic, (group_key(2, "g"), None), *modern)["type"] == "consumer"
    gone = [(key, None) for key, _ in modern]
    assert group_of(*modern, *gone, classic)["type"] == "classic"
    assert group_of(classic, *modern)["type"] == "consumer"
    assert group_of(*modern, classic)["type"] == "classic"


def test_record_that_cannot_be_read_leaves_the_subscription_unknown() -> None:
    """A damaged member record could name any topic, so the group's subscription is unknown."""
    found, malformed = groups_of(*consumer_group([("m", b"\0\0\x7f", None)]))

    assert found["g"]["unreadable"] == DAMAGED
    assert malformed == {"malformed member: truncated": 1}
