"""Follow what one group commits, commit by commit, in its partition of the offsets topic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.logs.bulk_records import read_records
from toolkit.kafka_io.logs.log_offsets import partition_numbers, read_log_offsets
from toolkit.kafka_io.offsets_topic.commit_records import decode_commit_key, decode_commit_value
from toolkit.kafka_io.offsets_topic.partitions import (
    OFFSETS_TOPIC,
    partition_of,
)
from toolkit.kafka_io.wire.fields import MalformedMessage
from toolkit.model import LogOffsets, TopicPartition


class NewCommit(NamedTuple):
    """One commit; the offset is None where the committed offset was deleted."""

    partition: TopicPartition
    offset: int | None
    at_ms: int = 0  # by the coordinator's clock; 0 where that is not known


class CommitFollower:
    """Reads a group's partition of the offsets topic from where it ended before."""

    def __init__(self, connection: Connection, group_id: str) -> None:
        """Begin at the end of now; raises BrokerRefused where the topic may not be described."""
        self.connection = connection
        self.group_id = group_id
        number = partition_of(group_id, len(partition_numbers(connection, OFFSETS_TOPIC)))
        self.log = TopicPartition(OFFSETS_TOPIC, number)
        self.position = self._log().log_end or 0

    def end(self) -> int:
        """Return up to where commits may be read now, before the first open transaction."""
        return self._log().stable_end

    def _log(self) -> LogOffsets:
        logs, problems = read_log_offsets(self.connection, [self.log])
        if problems:
            raise BrokerRefused(f"reading {self.log}: {problems[0].why}")
        return logs[self.log]

    def read_to(self, end: int) -> Iterator[NewCommit]:
        """Yield the group's commits up to an end, in order; raises BrokerRefused."""
        unread, self.position = range(self.position, end), max(self.position, end)
        cluster = self.connection.cluster
        for records in read_records(cluster, self.log, unread):
            pairs = zip(records.keys.to_pylist(), records.values.to_pylist(), strict=True)
            for key, value in pairs:
                # What cannot be decoded is no commit that a client of now makes.
                with suppress(MalformedMessage):
                    group_id, topic, partition = decode_commit_key(key)
                    if group_id == self.group_id:
                        place = TopicPartition(topic, partition)
                        yield _commit(place, value)


def _commit(place: TopicPartition, value: bytes | None) -> NewCommit:
    if value is None:
        return NewCommit(place, None)
    found = decode_commit_value(value)
    return NewCommit(place, found.offset if found.offset >= 0 else None, found.commit_time_ms)
