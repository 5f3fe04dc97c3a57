"""Which tasks each thread of a Streams application gets while some are held."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from recipe_runs import ScriptedChannel, orders

from toolkit.errors import NotCaptured
from toolkit.kafka_io.membership.classic import (
    ClassicHeartbeat,
    DescribedClassicMember,
    Join,
    JoinResult,
    Sync,
    SyncResult,
)
from toolkit.kafka_io.membership.request import ErrorCodeResult
from toolkit.kafka_io.membership.streams_assignment import (
    NEVER,
    StreamsAssignment,
    TaskPartition,
)
from toolkit.kafka_io.wire.fields import (
    int16,
    int32,
    optional_bytes,
    partitions,
    strings,
)
from toolkit.live.leader_hold import BEAT_S
from toolkit.live.streams_hold import CannotLead, StreamsHold, StreamsTasks, StreamsThread
from toolkit.model import HoldNote, TopicPartition

TOPICS = ("bills", "orders")
NOBODY_IS_HELD: frozenset[TopicPartition] = frozenset()
TAIL = bytes(20) + NEVER.to_bytes(8, "big")


def member_id(name: str, life: int = 1) -> str:
    """Return the id that a thread has the nth time it joins."""
    return f"{name}-{life:036}"


def subscription(
    process: int,
    *owned: int,
    topics: Iterable[str] = TOPICS,
    version: int = 11,
    error: int = 0,
) -> bytes:
    words = int32(version) + int32(version) + process.to_bytes(16, "big")
    words += bytes(9) + int32(error) + bytes(4)
    has = partitions(TopicPartition("orders", number) for number in owned)
    return int16(1) + strings(topics) + optional_bytes(words) + has


def assignment(*numbers: int, topics: Iterable[str] = ("orders",)) -> StreamsAssignment:
    """Return what a thread has: partitions of topics that one task reads together."""
    pairs = (
        TaskPartition(TopicPartition(topic, n), int32(0) + int32(n) + int32(0))
        for topic in topics
        for n in numbers
    )
    return StreamsAssignment(3, 11, 11, tuple(pairs), TAIL)


def thread(name: str, process: int, has: StreamsAssignment) -> DescribedClassicMember:
    one = member_id(name)
    return DescribedClassicMember(one, name, "", None, subscription(process), has.write())


def two_threads() -> StreamsTasks:
    """Return what two threads have: a 0, 2 and 4, b 1, 3 and 5."""
    members = [thread("a", 1, assignment(0, 2, 4)), thread("b", 2, assignment(1, 3, 5))]
    return StreamsTasks.read(members)


def shares(
    tasks: StreamsTasks,
    members: dict[str, bytes],
    *held: int,
    keep_absent: bool = False,
) -> dict[str, list[int]]:
    """Share tasks out, and return the numbers of the partitions that each member gets."""
    places = frozenset(TopicPartition("orders", number) for number in held)
    given = tasks.share_out(members, held=places, keep_absent=keep_absent)
    found = {one[:-37]: StreamsAssignment.read(data) for one, data in given.items()}
    numbers = {
        name: [pair.partition.partition for pair in one.pairs] for name, one in found.items()
    }
    assert {name: assignment(*numbers[name]) for name in found} == found
    return numbers


BOTH = {member_id("a", 2): subscription(1), member_id("b", 2): subscription(2)}


def test_each_thread_keeps_its_tasks_but_the_held_ones() -> None:
    """A thread is known by its name and instance, whatever its member id."""
    tasks = two_threads()

    assert {"a": [0, 2], "b": [3, 5]} == shares(tasks, BOTH, 4, 1)
    assert {} == shares(tasks, {})  # nobody is there meanwhile
    assert {"a": [0, 2, 4], "b": [1, 3, 5]} == shares(tasks, BOTH)
    assert not tasks.absent


def test_a_thread_that_is_about_to_rejoin_keeps_its_tasks() -> None:
    """The tasks of an evicted thread wait for it; those of a dead one are assigned to others."""
    tasks, (only_a, _) = two_threads(), BOTH
    alone = {only_a: BOTH[only_a]}

    assert {"a": [0, 2, 4]} == shares(tasks, alone, keep_absent=True)
    assert {StreamsThread("b", f"{2:032x}")} == tasks.absent
    assert {TopicPartition("orders", n) for n in (1, 3, 5)} == tasks.has(tasks.absent)
    assert {"a": [0, 2, 3, 4, 5]} == shares(tasks, alone, 1)
    assert {"a": [0, 1, 2, 3, 4, 5]} == shares(tasks, alone)


def test_tasks_of_a_dead_thread_are_assigned_to_the_least_loaded() -> None:
    """A new thread has no task until another one is gone."""
    tasks = two_threads()
    new = member_id("c"), subscription(3)

    assert {"a": [0, 2, 4], "b": [1, 3, 5], "c": []} == shares(tasks, BOTH | dict([new]))
    assert {"a": [0, 2, 4], "c": [1, 3, 5]} == shares(
        tasks, dict([new]) | {member_id("a", 2): subscription(1)}
    )


def test_a_second_thread_of_one_name_is_new() -> None:
    """It is assigned no task, but bytes that it can read."""
    again = BOTH | {member_id("a", 3): subscription(1)}
    given = two_threads().share_out(again, held=NOBODY_IS_HELD, keep_absent=False)

    assert assignment().write() == given[member_id("a", 3)]
    assert assignment(0, 2, 4).write() == given[member_id("a", 2)]


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (subscription(1, version=10), "older version"),
        (subscription(1, error=3), "shutdown of the whole application"),
        (subscription(1, topics=["orders"]), "other topics"),
        (b"\0\1", "cannot be parsed"),
    ],
)
def test_threads_that_cannot_be_led(says: bytes, words: str) -> None:
    """Nothing is assigned to a thread that would fail on it, or needs more."""
    with pytest.raises(CannotLead, match=words):
        shares(two_threads(), {member_id("a", 2): says})


WHOLE = assignment(0)


@pytest.mark.parametrize(
    ("has", "words"),
    [
        (replace(WHOLE, tail=int32(1) + TAIL[4:]), "standby"),
        (replace(WHOLE, tail=bytes(28)), "application is stable"),
        (replace(WHOLE, tail=bytes(16) + int32(1) + TAIL[-8:]), "application is stable"),
        (replace(WHOLE, version=12), "version 12"),
        (replace(WHOLE, common_version=12), "older version"),
    ],
)
def test_assignments_that_cannot_be_shortened(has: StreamsAssignment, words: str) -> None:
    """Standby tasks, a planned next rebalance and unknown versions are refused."""
    with pytest.raises(NotCaptured, match=words):
        StreamsTasks.read([thread("a", 1, has)])


def test_threads_that_cannot_be_distinguished() -> None:
    """Threads of one name differ by instance; two of the same instance are refused."""
    StreamsTasks.read([thread("a", 1, assignment(0)), thread("a", 2, assignment(1))])

    with pytest.raises(NotCaptured, match="could not be distinguished"):
        StreamsTasks.read([thread("a", 1, assignment(0)), thread("a", 1, assignment(1))])


def test_whole_tasks_only() -> None:
    """Partitions of one task are held together; a partition that no task reads is not held."""
    tasks = StreamsTasks.read([thread("a", 1, assignment(0, 1, topics=TOPICS))])
    order, bill = TopicPartition("orders", 1), TopicPartition("bills", 1)

    tasks.check({order, bill})
    tasks.check(set())
    with pytest.raises(NotCaptured, match="orders:1 belongs to the same task as bills:1"):
        tasks.check({order})
    with pytest.raises(NotCaptured, match="no thread is assigned orders:7"):
        tasks.check({order, bill, TopicPartition("orders", 7)})


def test_another_process_can_continue() -> None:
    """The facts about threads survive being written down."""
    tasks = two_threads()
    shares(tasks, BOTH)

    again = StreamsTasks.from_state(tasks.as_state())

    assert (tasks.topics, tasks.threads) == (again.topics, again.threads)


@dataclass
class Coordinator(ScriptedChannel):
    """A coordinator whose members say at each join what they still own."""

    joins: Iterator[JoinResult]
    beats: Iterator[int]  # the codes that heartbeats are answered with

    def answer(self, request: Any) -> Any:
        match request:
            case Join():
                return next(self.joins)
            case Sync():
                return SyncResult(0)
            case ClassicHeartbeat():
                return ErrorCodeResult(next(self.beats))
        raise AssertionError(request)


def test_an_added_partition_is_waited_for() -> None:
    """It is held only when its thread has said that it has revoked it."""
    state = {
        "member_id": "ours",
        "generation": 1,
        "subscription": subscription(1).hex(),
        "session_timeout_s": 45,
        "held": [["orders", 0]],
        "tasks": two_threads().as_state(),
    }
    hold = StreamsHold.from_state(state, note=HoldNote())

    def joined(*still: int) -> JoinResult:
        here = {member_id("a"): subscription(1, 2, 4), member_id("b"): subscription(2, *still)}
        return JoinResult(0, "ours", 2, "ours", "stream", {**here, "ours": b""})

    group = Coordinator(iter([joined(1, 3, 5), joined(3, 5)]), iter([27]))
    hold.capture(group, orders(0, 1))

    assert [Join, Sync, ClassicHeartbeat, Join, Sync] == [type(one) for one in group.requests]
    sync = group.requests[-1]
    given = {one: data for one, data in sync.assignments.items() if one != "ours"}
    assert {member_id("a"): assignment(2, 4).write(), member_id("b"): assignment(3, 5).write()} == (
        given
    )
    assert (orders(0, 1), BEAT_S) == (hold.held, group.clock)
