"""
Subscription and assignment bytes of Kafka Streams in a classic group.

The leader sends each thread its tasks, and their partitions: the first task belongs to the first
partition, sorted by topic and number, and so on, so that a task with several partitions is there
several times. Code that removes tasks copies the rest of the message: standby tasks, where other
tasks are, when to join next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

from toolkit.kafka_io.wire.fields import (
    FieldReader,
    MalformedMessage,
    int16,
    int32,
    optional_bytes,
    partitions,
)
from toolkit.model import TopicPartition

# Since 7 (Kafka 2.6) a message ends with its error and when to join next; a newer one is not known.
KNOWN_VERSIONS = range(7, 12)
ERROR_VERSION = 9  # from then on a thread can ask for the end of the application
NAMED_VERSION = 10  # from then on a task has a name, of no characters
NEVER = 2**63 - 1
ERROR_BYTES, NEXT_BYTES = 4, 8
PROCESS_ID_BYTES = 16
SHORT_OFFSETS_BYTES, OFFSET_BYTES = 12, 16  # of what a thread has of one task


class TaskPartition(NamedTuple):
    """A partition, and the id of the task that it is read for, as it is written."""

    partition: TopicPartition
    task: bytes


@dataclass(frozen=True, slots=True)
class StreamsAssignment:
    """The assignment of one thread: its tasks and their partitions, and the rest as bytes."""

    envelope_version: int
    version: int
    common_version: int
    pairs: tuple[TaskPartition, ...]
    tail: bytes

    @classmethod
    def read(cls, data: bytes) -> Self:
        """Read a message; raises MalformedMessage, also for a version that is not known."""
        envelope = FieldReader(data, "assignment")
        envelope_version = envelope.int16()
        places = sorted(envelope.partitions())
        message = FieldReader(envelope.nullable_blob() or b"", "assignment")
        version, common_version = message.int32(), message.int32()
        if version not in KNOWN_VERSIONS:
            raise MalformedMessage(f"version {version} is not supported")
        tasks = [_task(message, version) for _ in range(message.int32())]
        tail = message.rest()
        if len(tasks) != len(places):
            raise MalformedMessage(
                f"{len(tasks)} tasks cannot be paired with {len(places)} partitions"
            )
        if not envelope.is_at_end or len(tail) < 4 + ERROR_BYTES + NEXT_BYTES:
            raise MalformedMessage("there are extra or missing bytes")
        pairs = tuple(map(TaskPartition, places, tasks))
        return cls(envelope_version, version, common_version, pairs, tail)

    def write(self) -> bytes:
        pairs = sorted(self.pairs)
        tasks = b"".join(pair.task for pair in pairs)
        head = int32(self.version) + int32(self.common_version) + int32(len(pairs))
        places = partitions(pair.partition for pair in pairs)
        return int16(self.envelope_version) + places + optional_bytes(head + tasks + self.tail)

    def of(self, pairs: Iterable[TaskPartition]) -> StreamsAssignment:
        """Return it with other tasks, and the same rest."""
        return replace(self, pairs=tuple(pairs))

    def without(self, held: Collection[TopicPartition]) -> StreamsAssignment:
        """Return it without the tasks of some partitions."""
        return self.of(pair for pair in self.pairs if pair.partition not in held)

    @property
    def standbys(self) -> int:
        """How many tasks the thread only keeps the state of."""
        return FieldReader(self.tail, "assignment").int32()

    @property
    def error(self) -> int:
        """What the leader has to say against going on; 0 where all is well."""
        return int.from_bytes(
            self.tail[-ERROR_BYTES - NEXT_BYTES : -NEXT_BYTES], "big", signed=True
        )

    @property
    def is_final(self) -> bool:
        """Whether no later rebalance is planned for the thread."""
        return int.from_bytes(self.tail[-NEXT_BYTES:], "big") == NEVER


@dataclass(frozen=True, slots=True)
class StreamsSubscription:
    """What a thread says when it joins; `process` is the same for all threads of an instance."""

    topics: frozenset[str]
    owned: frozenset[TopicPartition]
    version: int
    latest_version: int
    process: bytes
    error: int  # what the thread asks of the leader: to end the whole application

    def takes(self, assignment: StreamsAssignment) -> bool:
        """Whether the thread can read an assignment, instead of failing over it."""
        fits = assignment.version <= self.version
        return fits and assignment.common_version <= self.latest_version


def read_streams_subscription(data: bytes) -> StreamsSubscription:
    """Read what a thread says when it joins; raises MalformedMessage."""
    envelope = FieldReader(data, "subscription")
    envelope_version = envelope.int16()
    topics = frozenset(envelope.list_of(envelope.text))
    message = FieldReader(envelope.nullable_blob() or b"", "subscription")
    owned = frozenset(envelope.partitions() if envelope_version >= 1 else ())
    version, latest_version = message.int32(), message.int32()
    if version not in KNOWN_VERSIONS:
        raise MalformedMessage(f"version {version} is not supported")
    process = message.take(PROCESS_ID_BYTES)
    error = _error(message, version)
    return StreamsSubscription(topics, owned, version, latest_version, process, error)


def _task(message: FieldReader, version: int) -> bytes:
    task = message.take(8)
    if version >= NAMED_VERSION:
        characters = message.int32()
        task += int32(characters) + message.take(2 * characters)
    return task


def _error(message: FieldReader, version: int) -> int:
    message.nullable_blob()  # the endpoint for queries of its state
    for _ in range(message.int32()):
        if version >= NAMED_VERSION:
            message.take(OFFSET_BYTES)
            message.take(max(0, message.int16()))
        else:
            message.int32()
            message.take(SHORT_OFFSETS_BYTES * message.int32())
    if version < ERROR_VERSION:
        return 0
    message.take(1)  # changes when the thread requests a new assignment
    return message.int32()
