"""
The newest record of each key that some groups have in `__consumer_offsets`, in plain dictionaries.

For the times of the groups that a command is about: nothing else is decoded, no Arrow is loaded,
and the next read continues where this one ended. `reader` reads a whole cluster for
the fleet job, with its activity and its removals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as Assignment

from toolkit.errors import BrokerRefused, ToolkitError
from toolkit.kafka_io.client.bulk_consumer import bulk_consumer, read_error
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.model import Cluster
from toolkit.model.garbage_collection import no_garbage_collection

RECORDS_PER_CALL = 20_000
WAIT_S = 0.02  # a call waits its whole time when fewer records are left
COMMIT_KINDS = frozenset({b"\0\0", b"\0\1"})  # the types of their keys, which have the same layout

SETTINGS = {
    "isolation.level": "read_committed",
    "group.id": "offsetbook-reader",  # required by the client; nothing joins or commits
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "check.crcs": False,
    # With librdkafka's own defaults for the two queue settings a large read takes far longer.
    "fetch.queue.backoff.ms": 2,
    "queued.min.messages": 100_000,
    "queued.max.messages.kbytes": 32_768,
    "fetch.wait.max.ms": 20,
}


class GroupMetadataRecord(NamedTuple):
    """A record that a group has of its own; no value: a tombstone."""

    offset: int
    written_ms: int
    value: bytes | None


@dataclass(slots=True)
class NewestRecords:
    """
    What one partition says of some groups, up to `next_offset`.

    `commits`: by the group's id the live commits, by what their keys have after it: topic and
    partition. `own`: by the group's id the other records, tombstones too, by key.
    """

    next_offset: int
    commits: dict[bytes, dict[bytes, bytes]]
    own: dict[bytes, dict[bytes, GroupMetadataRecord]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    @classmethod
    def of(cls, group_ids: Iterable[str], start: int) -> NewestRecords:
        """Return empty records for groups, before the first read."""
        return cls(start, {id_bytes(name): {} for name in group_ids})

    def knows(self, group_ids: Iterable[str]) -> bool:
        """Whether all of these groups are among those that were read."""
        return all(id_bytes(name) in self.commits for name in group_ids)

    def add(self, key: bytes, value: bytes | None, offset: int, written_ms: int) -> None:
        """Take the next record of the log; that of another group is left out."""
        end = 4 + int.from_bytes(key[2:4], "big")
        group = key[4:end]
        commits = self.commits.get(group)
        if commits is None:
            return
        if key[:2] not in COMMIT_KINDS:
            self.own[group][key] = GroupMetadataRecord(offset, written_ms, value)
        elif value is None:
            commits.pop(key[end:], None)
        else:
            commits[key[end:]] = value


def id_bytes(group_id: str) -> bytes:
    """Return the id of a group in the encoding of keys."""
    return group_id.encode("utf-8", "surrogatepass")


def read_to_ends(
    cluster: Cluster, known: Mapping[int, NewestRecords], ends: Mapping[int, int]
) -> dict[int, ToolkitError]:
    """
    Read partitions from where each read ended to an end; return those that could not be, and why.

    All are read at the same time, through one consumer. Raises ToolkitError where there can be no
    consumer, which all partitions have in common.
    """
    left = {number: end for number, end in ends.items() if known[number].next_offset < end}
    if not left:
        return {}
    reading = _Reading(cluster, known, left)
    try:
        with closing(bulk_consumer(cluster, SETTINGS)) as consumer:
            reading.to_end(consumer)
    except KafkaException as exc:
        reading.fail(exc.args[0].str(), [*left])
    return reading.failed


class _Reading:
    """Reads some partitions to their ends."""

    def __init__(
        self, cluster: Cluster, known: Mapping[int, NewestRecords], left: dict[int, int]
    ) -> None:
        self.cluster, self.known, self.left = cluster, known, left
        self.failed: dict[int, ToolkitError] = {}

    def to_end(self, consumer: Consumer) -> None:
        starts = ((number, self.known[number].next_offset) for number in self.left)
        consumer.assign([Assignment(OFFSETS_TOPIC, *start) for start in starts])
        silent_s = 0.0
        while self.left:
            unread = sum(end - self.known[number].next_offset for number, end in self.left.items())
            with no_garbage_collection():
                messages = consumer.consume(min(RECORDS_PER_CALL, unread), WAIT_S)
                self._take(messages)
            silent_s = 0.0 if messages else silent_s + WAIT_S
            if silent_s > self.cluster.timeout_s:
                self.fail(f"no data for {self.cluster.timeout_s:g} s", [*self.left])

    def _take(self, messages: Sequence[Any]) -> None:
        for message in messages:
            number, key = message.partition(), message.key()
            end = self.left.get(number)
            if key is None:
                self._take_event(message)
            elif end is not None:
                known, offset = self.known[number], message.offset()
                if offset < end:
                    known.add(key, message.value(), offset, message.timestamp()[1])
                    known.next_offset = offset + 1
                if offset + 1 >= end:
                    del self.left[number]

    def _take_event(self, message: Any) -> None:
        """Take an event: the current end of a log, or an error."""
        number, error = message.partition(), message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
            self._go_on(number, message.offset() + (error is None))
        else:
            self.fail(read_error(error), [number] if number in self.left else [*self.left])

    def _go_on(self, number: int, position: int) -> None:
        if (end := self.left.get(number)) is not None:
            known = self.known[number]
            known.next_offset = max(known.next_offset, min(position, end))
            if position >= end:
                del self.left[number]

    def fail(self, why: str, numbers: Iterable[int]) -> None:
        """Read no more of some partitions."""
        doing = f"reading {OFFSETS_TOPIC} partition"
        for number in numbers:
            words = f"{doing} {number} of cluster {self.cluster.name}: {why}"
            self.failed[number] = BrokerRefused(words)
            del self.left[number]
