"""
When offsets were committed, by the values of their records, without decoding the rest of them.

The common shapes are taken apart at once; `commit_records` decides about all others.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from toolkit.kafka_io.offsets_topic.commit_records import (
    TOPIC_ID_BYTES,
    decode_commit_value,
    topic_id_text,
)
from toolkit.kafka_io.offsets_topic.partitions import UnknownRecord

# Values without metadata, as nearly all are: version, offset, leader epoch, metadata length, time
# and, from version 4 on, tagged fields: none, or the topic id.
PLAIN = struct.Struct(">hqihq")
FLEXIBLE = struct.Struct(">hqibqb")
WITH_ID = struct.Struct(f">hqibqbbb{TOPIC_ID_BYTES}s")
PLAIN_IS, FLEXIBLE_IS = (3, 0), (4, 1, 0)  # version, length of metadata, number of tagged fields
WITH_ID_IS = (4, 1, 1, 0, TOPIC_ID_BYTES)  # the same, then tag and size

_id_text = lru_cache(topic_id_text)


class CommitTime(NamedTuple):
    """When an offset was committed, and for which topic where that is known."""

    offset: int
    time_ms: int
    topic_id: str | None = None


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
    except UnknownRecord:
        return None
    return CommitTime(found.offset, found.commit_time_ms, found.topic_id)
