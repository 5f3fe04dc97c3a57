"""
The bytes of `__consumer_offsets`: which group lives where, what was committed, who became Empty.

All integers are big-endian. A key is an int16 record type and a body; a value is an int16 version
and a body; no value is a tombstone. Types 0 and 1 are offset commits, of which 0 is the older name
for the same layout. Value versions 0 to 3 are plain, version 4 (Kafka 4.1 and later) is flexible:
compact strings and a tagged section. Type 2 is a classic group's own record, with the same change
of layout at version 4. Layout: Kafka's schemas OffsetCommitKey, OffsetCommitValue, GroupMetadataKey
and GroupMetadataValue.
"""

from __future__ import annotations

import struct
from datetime import datetime
from typing import NamedTuple

from toolkit.kafka_io.timestamps import from_ms

OFFSETS_TOPIC = "__consumer_offsets"
OFFSET_COMMIT_TYPES = frozenset({0, 1})
CLASSIC_GROUP_TYPE = 2
MODERN_GROUP_TYPES = frozenset({3, 17})  # KIP-848 and streams: one record a group, with its epoch
NO_EPOCH = -1


class CommitKey(NamedTuple):
    """Whose offset it is."""

    group_id: str
    topic: str
    partition: int


class CommitValue(NamedTuple):
    """What was committed; `expire_time_ms` only where an old client asked for a retention."""

    offset: int
    leader_epoch: int | None
    metadata: str
    commit_time_ms: int
    expire_time_ms: int | None = None

    @property
    def committed_at(self) -> datetime | None:
        """When it was committed; None for a time beyond the calendar: old clients may choose it."""
        return from_ms(self.commit_time_ms)


class UnknownRecord(ValueError):
    """A record of a type or version that is not known here."""


def partition_of(group_id: str, partitions: int) -> int:
    """Return the partition of the offsets topic that holds a group: Java's String.hashCode, abs."""
    data = group_id.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(data) // 2}H", data):
        code = (31 * code + unit) & 0xFFFFFFFF
    signed = code - 2**32 if code >= 2**31 else code
    # Java's abs of the smallest integer is negative, which Kafka turns into 0.
    return (0 if signed == -(2**31) else abs(signed)) % partitions


def record_type(key: bytes) -> int:
    """Return the record type in a key; raises UnknownRecord for a key too short to have one."""
    if len(key) < 2:
        raise UnknownRecord("key too short")
    return int.from_bytes(key[:2], "big", signed=True)


def decode_commit_key(key: bytes) -> CommitKey:
    """Decode the key of an offset commit; raises UnknownRecord for any other bytes."""
    try:
        if record_type(key) not in OFFSET_COMMIT_TYPES:
            raise UnknownRecord(f"record type {record_type(key)}")
        group_id, position = _string(key, 2)
        topic, position = _string(key, position)
        (partition,) = struct.unpack_from(">i", key, position)
    except (struct.error, UnicodeDecodeError) as exc:
        raise UnknownRecord("malformed offset commit key") from exc
    if position + 4 != len(key) or partition < 0:
        raise UnknownRecord("malformed offset commit key")
    return CommitKey(group_id, topic, partition)


def decode_commit_value(value: bytes) -> CommitValue:
    """Decode an OffsetCommitValue of version 0 to 4; raises UnknownRecord for any other bytes."""
    try:
        (version,) = struct.unpack_from(">h", value)
        if version not in range(5):
            raise UnknownRecord(f"offset commit value version {version}")
        (offset,) = struct.unpack_from(">q", value, 2)
        position, epoch = 10, NO_EPOCH
        if version >= 3:
            (epoch,) = struct.unpack_from(">i", value, position)
            position += 4
        metadata, position = (_compact_string if version >= 4 else _string)(value, position)
        (commit_time_ms,) = struct.unpack_from(">q", value, position)
        expire_time_ms = struct.unpack_from(">q", value, position + 8)[0] if version == 1 else None
    except (struct.error, UnicodeDecodeError, IndexError) as exc:
        raise UnknownRecord("malformed offset commit value") from exc
    if offset < 0:
        raise UnknownRecord(f"negative offset {offset}")
    known_epoch = epoch if epoch != NO_EPOCH else None
    return CommitValue(offset, known_epoch, metadata, commit_time_ms, expire_time_ms)


def decode_group_key(key: bytes) -> str:
    """Return the group in the key of a group's own record; raises UnknownRecord for other bytes."""
    try:
        group_id, position = _string(key, 2)
    except (struct.error, UnicodeDecodeError) as exc:
        raise UnknownRecord("malformed group key") from exc
    if position != len(key):
        raise UnknownRecord("malformed group key")
    return group_id


def decode_empty_since(value: bytes) -> datetime | None:
    """
    Return since when a classic group is Empty, from its GroupMetadataValue of version 0 to 4.

    None where it has members, where it never had any (no protocol type yet), and for versions
    before 2, which do not tell. Raises UnknownRecord for any other bytes.
    """
    try:
        (version,) = struct.unpack_from(">h", value)
        if version not in range(5):
            raise UnknownRecord(f"group metadata value version {version}")
        length = _compact_length if version >= 4 else _length
        protocol_type, position = _text(value, *length(value, 2))
        position += 4  # the generation
        for _ in ("protocol", "leader"):
            size, position = length(value, position)
            position += max(size, 0)
        since_ms = -1
        if version >= 2:
            (since_ms,) = struct.unpack_from(">q", value, position)
            position += 8
        members = (
            _compact_length(value, position)[0]
            if version >= 4
            else struct.unpack_from(">i", value, position)[0]
        )
    except (struct.error, UnicodeDecodeError, IndexError) as exc:
        raise UnknownRecord("malformed group metadata value") from exc
    return from_ms(since_ms) if protocol_type and members == 0 else None


def _string(data: bytes, position: int) -> tuple[str, int]:
    return _text(data, *_length(data, position))


def _compact_string(data: bytes, position: int) -> tuple[str, int]:
    return _text(data, *_compact_length(data, position))


def _length(data: bytes, position: int) -> tuple[int, int]:
    return struct.unpack_from(">h", data, position)[0], position + 2


def _compact_length(data: bytes, position: int) -> tuple[int, int]:
    length, shift = 0, 0
    while True:
        byte = data[position]
        position += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return length - 1, position


def _text(data: bytes, length: int, start: int) -> tuple[str, int]:
    end = start + length
    if length < 0 or end > len(data):
        raise UnknownRecord("a length that does not fit")
    return data[start:end].decode(), end
