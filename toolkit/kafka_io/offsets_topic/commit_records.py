"""
The records of committed offsets in `__consumer_offsets`, one at a time.

This alone decides what is malformed; what decodes many at once (`commit_columns`) leaves to it
every record that is not of the common shapes. It refuses some of what Kafka's own classes accept,
because nobody can have meant it: negative partitions, text that is not UTF-8 (Java puts a
replacement character there), bytes after the end, a topic id that is said to have another size
than 16 bytes, and a varint of more than 31 bits. Layout: Kafka's schemas OffsetCommitKey and
OffsetCommitValue; version 4 (Kafka 4.1 and later) is flexible.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import datetime
from typing import NamedTuple

from toolkit.kafka_io.client.timestamps import from_ms
from toolkit.kafka_io.offsets_topic.partitions import OFFSET_COMMIT_TYPES, UnknownRecord
from toolkit.kafka_io.offsets_topic.record_fields import FieldReader

NEWEST_VERSION, FLEXIBLE_VERSION = 4, 4
NO_EPOCH = -1
TOPIC_ID_TAG, TOPIC_ID_BYTES = 0, 16


class CommitKey(NamedTuple):
    """Whose offset it is."""

    group_id: str
    topic: str
    partition: int


class CommitValue(NamedTuple):
    """
    What was committed; `expire_time_ms` only where an old client asked for a retention.

    Brokers store a negative offset, and answer with it as for a partition without a commit.
    """

    offset: int
    leader_epoch: int | None
    metadata: str
    commit_time_ms: int
    expire_time_ms: int | None = None
    topic_id: str | None = None  # as Kafka's tools write it

    @property
    def committed_at(self) -> datetime | None:
        """When it was committed; None for a time beyond the calendar: old clients may choose it."""
        return from_ms(self.commit_time_ms)


def decode_commit_key(key: bytes) -> CommitKey:
    """Decode the key of an offset commit; raises UnknownRecord for any other bytes."""
    fields = FieldReader(key, "offset commit key")
    kind = fields.int16()
    if kind not in OFFSET_COMMIT_TYPES:
        raise UnknownRecord(f"record type {kind}")
    found = CommitKey(fields.text(), fields.text(), fields.int32())
    fields.end()
    if found.partition < 0:
        raise fields.refusal("a negative partition")
    return found


def decode_commit_value(value: bytes) -> CommitValue:
    """Decode an OffsetCommitValue of version 0 to 4; raises UnknownRecord for any other bytes."""
    fields = FieldReader(value, "offset commit value")
    version = fields.version(NEWEST_VERSION, flexible_from=FLEXIBLE_VERSION)
    offset = fields.int64()
    epoch = fields.int32() if version >= 3 else NO_EPOCH
    metadata, commit_time_ms = fields.text(), fields.int64()
    expire_time_ms = fields.int64() if version == 1 else None
    id_bytes = fields.tags({TOPIC_ID_TAG: TOPIC_ID_BYTES}).get(TOPIC_ID_TAG)
    fields.end()
    return CommitValue(
        offset,
        epoch if epoch != NO_EPOCH else None,
        metadata,
        commit_time_ms,
        expire_time_ms,
        topic_id_text(id_bytes) if id_bytes else None,
    )


def topic_id_text(data: bytes) -> str | None:
    """Return the 16 bytes of a topic id as Kafka's tools write them; None for Kafka's "none"."""
    return urlsafe_b64encode(data).decode().rstrip("=") if any(data) else None
