"""
The records of committed offsets in `__consumer_offsets`, one at a time.

This alone decides what is malformed; what decodes many at once (`decode_commits`) leaves to it
every record that is not of the common shapes. It refuses some of what Kafka's own classes accept,
because no client can have meant it: negative partitions, text that is not UTF-8 (Java puts a
replacement character there), bytes after the end, a topic id with another size
than 16 bytes, and a varint of more than 31 bits. Layout: Kafka's schemas OffsetCommitKey and
OffsetCommitValue; version 4 (Kafka 4.1 and later) is flexible.

If only the time of a commit is needed, it is taken from the common shapes at once, without decoding
the rest.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from toolkit.kafka_io.offsets_topic.partitions import OFFSET_COMMIT_TYPES
from toolkit.kafka_io.wire.fields import FieldReader, MalformedMessage, topic_id_text

NEWEST_VERSION, FLEXIBLE_VERSION = 4, 4
NO_EPOCH = -1
TOPIC_ID_TAG, TOPIC_ID_BYTES = 0, 16

# Values without metadata, as nearly all are: version, offset, leader epoch, metadata length, time
# and, from version 4 on, tagged fields: none, or the topic id.
PLAIN = struct.Struct(">hqihq")
FLEXIBLE = struct.Struct(">hqibqb")
WITH_ID = struct.Struct(f">hqibqbbb{TOPIC_ID_BYTES}s")
PLAIN_IS, FLEXIBLE_IS = (3, 0), (4, 1, 0)  # version, length of metadata, number of tagged fields
WITH_ID_IS = (4, 1, 1, 0, TOPIC_ID_BYTES)  # the same, then tag and size


class CommitKey(NamedTuple):
    """Whose offset it is."""

    group_id: str
    topic: str
    partition: int


class CommitValue(NamedTuple):
    """
    A committed offset; `expire_time_ms` only if an old client set a retention.

    Brokers store a negative offset, and answer with it as for a partition without a commit.
    """

    offset: int
    leader_epoch: int | None
    metadata: str
    commit_time_ms: int
    expire_time_ms: int | None = None
    topic_id: str | None = None  # as Kafka's tools write it


def decode_commit_key(key: bytes) -> CommitKey:
    """Decode the key of an offset commit; raises MalformedMessage for any other bytes."""
    fields = FieldReader(key, "offset commit key")
    kind = fields.int16()
    if kind not in OFFSET_COMMIT_TYPES:
        raise MalformedMessage(f"record type {kind}")
    found = CommitKey(fields.text(), fields.text(), fields.int32())
    fields.end()
    if found.partition < 0:
        raise fields.refusal("a negative partition")
    return found


def decode_commit_value(value: bytes) -> CommitValue:
    """Decode an OffsetCommitValue of version 0 to 4; raises MalformedMessage for other bytes."""
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


_id_text = lru_cache(topic_id_text)


class CommitTime(NamedTuple):
    """When an offset was committed, for which topic, and when it expires, where that is known."""

    offset: int
    time_ms: int
    topic_id: str | None = None
    expires_ms: int | None = None  # as an old client asked for


def commit_time(value: bytes) -> CommitTime | None:
    """Return when a commit was made, by the value of its record; None for a malformed one."""
    size = len(value)
    if size == PLAIN.size:  # which is that of FLEXIBLE too
        version, offset, _, length, time_ms = PLAIN.unpack(value)
        if (version, length) == PLAIN_IS and offset >= 0:
            return CommitTime(offset, time_ms)
        version, offset, _, length, time_ms, tags = FLEXIBLE.unpack(value)
        if (version, length, tags) == FLEXIBLE_IS and offset >= 0:
            return CommitTime(offset, time_ms)
    if size == WITH_ID.size:
        version, offset, _, length, time_ms, *tagged, topic_id = WITH_ID.unpack(value)
        if (version, length, *tagged) == WITH_ID_IS and offset >= 0:
            return CommitTime(offset, time_ms, _id_text(topic_id))
    try:
        found = decode_commit_value(value)
    except MalformedMessage:
        return None
    return CommitTime(found.offset, found.commit_time_ms, found.topic_id, found.expire_time_ms)
