"""What threads of a Kafka Streams application say to each other, read and cut."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from py4j.java_gateway import JavaGateway

from toolkit.kafka_io.membership.streams_assignment import (
    KNOWN_VERSIONS,
    NEVER,
    StreamsAssignment,
    StreamsSubscription,
    TaskPartition,
    read_streams_subscription,
)
from toolkit.kafka_io.wire.fields import (
    MalformedMessage,
    int16,
    int32,
    optional_bytes,
    partitions,
    strings,
)
from toolkit.model import TopicPartition

# Recorded from Kafka Streams 4.3.1: a thread with partitions 1, 3 and 5 of two topics, which are
# read by tasks 0_1, 0_3, 0_5 and 1_1, 1_3, 1_5.
ASSIGNMENT = bytes.fromhex(
    "000300000002000b732d636c61737369632d3000000003000000010000000300000005000b732d636c6173736963"
    "2d3100000003000000010000000300000005000000700000000b0000000b00000006000000000000000100000000"
    "00000000000000030000000000000000000000050000000000000001000000010000000000000001000000030000"
    "000000000001000000050000000000000000000000000000000000000000000000007fffffffffffffff"
)
SUBSCRIPTION = bytes.fromhex(
    "000300000002000b732d636c61737369632d30000b732d636c61737369632d31000000290000000b0000000b1198"
    "42f508544bbbb5e45a6ffd83a055000000000000000002000000000000000000000000ffffffffffff"
)
ONE, TWO = "s-classic-0", "s-classic-1"
TAIL = bytes(20) + NEVER.to_bytes(8, "big")

INTERNALS = "org.apache.kafka.streams.processor.internals.assignment"


def task(subtopology: int, partition: int, *, version: int = 11) -> bytes:
    return int32(subtopology) + int32(partition) + (int32(0) if version > 9 else b"")


@st.composite
def assignments(draw: st.DrawFn) -> StreamsAssignment:
    version = draw(st.sampled_from(KNOWN_VERSIONS))
    topics = st.text("ab.-_Z9", min_size=1, max_size=5)
    places = draw(st.sets(st.builds(TopicPartition, topics, st.integers(0, 9)), max_size=8))
    pairs = [
        TaskPartition(place, task(draw(st.integers(0, 3)), place.partition, version=version))
        for place in sorted(places)
    ]
    return StreamsAssignment(3, version, version, tuple(pairs), TAIL)


def test_an_assignment_of_kafka_streams() -> None:
    """A recorded assignment is read, and written byte for byte as it was."""
    found = StreamsAssignment.read(ASSIGNMENT)

    assert (
        [(ONE, n, task(0, n)) for n in (1, 3, 5)] + [(TWO, n, task(1, n)) for n in (1, 3, 5)]
    ) == [(*pair.partition, pair.task) for pair in found.pairs]
    assert (3, 11, 11, 0, 0, True) == (
        *(found.envelope_version, found.version, found.common_version),
        *(found.standbys, found.error, found.is_final),
    )
    assert ASSIGNMENT == found.write()


@given(assignments(), st.data())
def test_every_cut(whole: StreamsAssignment, data: st.DataObject) -> None:
    """Of any version, what is cut can be read, and every other task has its partition as before."""
    places = [pair.partition for pair in whole.pairs]
    held = data.draw(st.sets(st.sampled_from(places))) if places else set()
    found = StreamsAssignment.read(whole.without(held).write())

    assert [pair for pair in whole.pairs if pair.partition not in held] == [*found.pairs]
    assert whole.of(()) == found.of(())


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """Whatever the bytes are, they are read or refused."""
    for read in (StreamsAssignment.read, read_streams_subscription):
        try:
            found: Any = read(data)
        except MalformedMessage:
            continue
        assert found


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (ASSIGNMENT.replace(b"\x0b\x00\x00\x00\x0b", b"\x0c\x00\x00\x00\x0c", 1), "version 12"),
        (ASSIGNMENT.replace(bytes([0, 0, 0, 6]), bytes([0, 0, 0, 5]), 1), "cannot be paired"),
        (ASSIGNMENT + b"\0", "extra or missing bytes"),
        (ASSIGNMENT[:-1], "truncated"),
    ],
)
def test_assignments_that_cannot_be_shortened(data: bytes, words: str) -> None:
    """An unknown version, and tasks that do not fit the partitions, are refused."""
    with pytest.raises(MalformedMessage, match=words):
        StreamsAssignment.read(data)


def test_a_subscription() -> None:
    """A recorded subscription tells the instance, and the version up to which it reads."""
    found = read_streams_subscription(SUBSCRIPTION)

    process = bytes.fromhex("119842f508544bbbb5e45a6ffd83a055")
    topics = frozenset({ONE, TWO})
    assert StreamsSubscription(topics, frozenset(), 11, 11, process, 0) == found
    assert found.takes(StreamsAssignment(3, 11, 11, (), TAIL))
    assert not found.takes(StreamsAssignment(3, 12, 11, (), TAIL))
    assert not found.takes(StreamsAssignment(3, 11, 12, (), TAIL))


def test_standby_tasks_and_other_remarks() -> None:
    """Standby tasks, an error and a time to join next are seen where they stand."""
    standby = int32(1) + task(0, 4) + int32(1) + b"\0\1x" + int32(4)
    tail = standby + bytes(12) + int32(3) + (1_700_000_000_000).to_bytes(8, "big")
    found = StreamsAssignment(3, 11, 11, (), tail)

    assert (1, 3, False) == (found.standbys, found.error, found.is_final)


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_kafka_streams_reads_it(version: int, streams_jvm: JavaGateway) -> None:
    """Kafka Streams itself reads in a cut assignment of each version what is meant."""
    jvm = streams_jvm.jvm
    tasks = [(0, 1), (0, 3), (1, 1), (1, 3)]
    original = written_by_kafka(jvm, version, tasks)
    places = [TopicPartition(topic, n) for topic in (ONE, TWO) for n in (1, 3)]
    data = int16(3) + partitions(places) + optional_bytes(original)
    whole = StreamsAssignment.read(data)

    assert data == whole.write()
    cut = whole.without({places[1]})
    left = int16(3) + partitions(pair.partition for pair in cut.pairs)
    user_data = cut.write().removeprefix(left)

    decode = getattr(jvm, f"{INTERNALS}.AssignmentInfo").decode
    found = decode(jvm.java.nio.ByteBuffer.wrap(user_data[4:]))
    assert ["0_1", "1_1", "1_3"] == [one.toString() for one in found.activeTasks()]
    assert (version, version) == (found.version(), found.commonlySupportedVersion())
    assert (0, NEVER) == (found.errCode(), found.nextRebalanceMs())


@pytest.mark.parametrize("version", KNOWN_VERSIONS)
def test_a_subscription_of_kafka_streams(version: int, streams_jvm: JavaGateway) -> None:
    """The shutdown request is found in each version of the subscription that has it."""
    jvm = streams_jvm.jvm
    offsets = jvm.java.util.HashMap()
    name = ["of a part"] if version >= 10 else []
    for number in (2, 5):
        offsets.put(jvm.org.apache.kafka.streams.processor.TaskId(0, number, *name), 2**40)
    tags = jvm.java.util.HashMap()
    process = jvm.org.apache.kafka.streams.processor.assignment.ProcessId(jvm.java.util.UUID(1, 2))
    data = getattr(jvm, f"{INTERNALS}.SubscriptionInfo")(
        *(version, version, process, "here:1", offsets, 1, 3, tags)
    ).encode()
    envelope = int16(0) + strings(["x"]) + optional_bytes(bytes(data.array()))
    found = read_streams_subscription(envelope)

    assert (frozenset({"x"}), version, 3 if version > 8 else 0) == (
        *(found.topics, found.version, found.error),
    )
    assert bytes(7) + b"\1" + bytes(7) + b"\2" == found.process


def written_by_kafka(jvm: Any, version: int, tasks: Iterable[tuple[int, int]]) -> bytes:
    """Return what Kafka Streams writes to a thread that is to have some tasks."""
    listed = jvm.java.util.ArrayList()
    for one in tasks:
        listed.add(jvm.org.apache.kafka.streams.processor.TaskId(*one))
    nothing = jvm.java.util.HashMap()
    info = getattr(jvm, f"{INTERNALS}.AssignmentInfo")(
        *(version, version, listed, nothing, nothing, nothing, 0)
    )
    info.setNextRebalanceTime(NEVER)
    return bytes(info.encode().array())
