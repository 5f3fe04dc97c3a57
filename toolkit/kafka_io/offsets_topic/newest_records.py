"""
The newest record of each key that some groups have in `__consumer_offsets`, in plain dictionaries.

For the times of the groups that a command is about: nothing else is decoded, and the next read
continues where this one ended. `reader` reads a whole cluster for the fleet job, with its activity
and its removals.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from toolkit.errors import BrokerRefused, ToolkitError
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.logs.fetch import Fetched, LogReading, NotFetched, corrupt_refused
from toolkit.kafka_io.logs.few_records import committed_one_by_one
from toolkit.kafka_io.logs.log_offsets import READ_COMMITTED
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.model import Cluster, TopicPartition
from toolkit.model.garbage_collection import no_garbage_collection

FEW = 5_000  # records
COMMIT_KINDS = frozenset({b"\0\0", b"\0\1"})  # the types of their keys, which have the same layout


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
    connection: Connection, known: Mapping[int, NewestRecords], ends: Mapping[int, int]
) -> dict[int, ToolkitError]:
    """
    Read partitions from where each read ended to an end; return those that could not be, and why.

    All are read at the same time. Raises ClusterUnreachable where no broker reports their leaders.
    """
    spans = {
        TopicPartition(OFFSETS_TOPIC, number): range(known[number].next_offset, end)
        for number, end in ends.items()
    }
    are_few = sum(map(len, spans.values())) <= FEW
    failed: dict[int, ToolkitError] = {}
    for found in LogReading(connection, spans, READ_COMMITTED).found():
        number, span = found.partition.partition, spans[found.partition]
        try:
            if isinstance(found, NotFetched):
                raise found.error
            with no_garbage_collection():
                for record in _records(connection.cluster, found, span, are_few=are_few):
                    known[number].add(*record)
        except BrokerRefused as exc:
            failed.setdefault(number, exc)
    for number in ends.keys() - failed.keys():
        known[number].next_offset = max(known[number].next_offset, ends[number])
    return failed


def _records(
    cluster: Cluster, found: Fetched, span: range, *, are_few: bool
) -> Iterable[tuple[bytes, bytes | None, int, int]]:
    if are_few:
        with corrupt_refused(cluster, found.partition):
            return committed_one_by_one(found, span)
    # Loads Arrow, which takes longer than to decode a few records.
    from toolkit.kafka_io.logs.bulk_records import committed_records  # noqa: PLC0415

    records = committed_records(cluster, found, span)
    columns = records.keys.to_pylist(), records.values.to_pylist()
    return zip(*columns, records.offsets.tolist(), records.written_ms.tolist(), strict=True)
