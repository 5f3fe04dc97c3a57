"""
Keys and values of committed offsets in `__consumer_offsets`, decoded many at once.

A row is decoded here only after its whole structure has been checked: known version, lengths that
fit exactly, text that is UTF-8, partition and offset not negative, and a tagged section that is
empty or holds just a topic id. Every other row goes through the decoders of `commit_records`, which
alone decide whether it is malformed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.kafka_io.logs.byte_columns import ByteColumn, Numbers, column, texts
from toolkit.kafka_io.offsets_topic.commit_records import (
    FLEXIBLE_VERSION,
    NO_EPOCH,
    TOPIC_ID_BYTES,
    CommitKey,
    CommitValue,
    decode_commit_key,
    decode_commit_value,
)
from toolkit.kafka_io.wire.fields import MalformedMessage, topic_id_text

SHORT = 0x80  # a compact string's length from here on takes more than one byte
TAGGED_ID_BYTES = 19  # one tagged field: its number, tag 0, 16 bytes
NO_TIME = -1

Decoded = TypeVar("Decoded", CommitKey, CommitValue)


class CommitKeys(NamedTuple):
    """Decoded keys, and of each row whether it could be decoded."""

    groups: Any  # Arrow strings
    topics: Any
    partitions: Numbers
    decoded: Any
    malformed: Counter[str]


class CommitScan(NamedTuple):
    """Committed offsets and times, and whether the value of each row could be decoded."""

    offsets: Numbers
    times_ms: Numbers  # commitTimestamp as it is in the record
    decoded: Any  # False for a tombstone, and for an offset that is none
    malformed: Counter[str]
    shape: _Shape
    rest: dict[int, CommitValue]  # those that were decoded one by one, by row


class CommitValues(NamedTuple):
    """The other fields of the values that could be decoded."""

    epochs: Numbers  # NO_EPOCH: none
    expires_ms: Numbers  # NO_TIME: none
    metadata: Any  # Arrow strings
    topic_ids: Any  # Arrow strings, null: none


class _Shape(NamedTuple):
    """Where the parts of values lie in their bytes; only of rows that `fits` is it certain."""

    values: ByteColumn
    versions: Numbers
    metadata_at: Numbers
    time_at: Numbers
    has_id: Any
    fits: Any


def commit_keys(array: Any) -> CommitKeys:
    """Decode an Arrow array of raw keys."""
    keys = column(array)
    group_at = keys.starts + 4
    group_end = group_at + keys.int_at(keys.starts + 2, 2)
    topic_at = group_end + 2
    topic_end = topic_at + keys.int_at(group_end, 2)
    partitions = keys.int_at(keys.ends - 4, 4)
    kinds = keys.int_at(keys.starts, 2)
    fits = (kinds == 0) | (kinds == 1)
    fits &= (group_end >= group_at) & (topic_end >= topic_at) & (topic_end == keys.ends - 4)
    fits &= partitions >= 0
    groups, valid = texts(keys.parts(group_at, group_end, fits))
    topics, valid_too = texts(keys.parts(topic_at, topic_end, fits))
    fits &= valid & valid_too
    rest, malformed = _one_by_one(keys.array, ~fits, decode_commit_key)
    if rest:
        groups = _with(groups, {row: key.group_id for row, key in rest.items()})
        topics = _with(topics, {row: key.topic for row, key in rest.items()})
        _put(partitions, {row: key.partition for row, key in rest.items()})
        fits[[*rest]] = True
    return CommitKeys(groups, topics, partitions, fits, malformed)


def scan_commit_values(array: Any, is_commit: Any, is_legacy: Any) -> CommitScan:
    """
    Check an Arrow array of raw values, null for a tombstone, and decode offsets and times.

    Other records than commits are left alone. Under the older type of key brokers know version 0
    only.
    """
    shape = _shape(column(array))
    there = is_commit & shape.values.array.is_valid().to_numpy(zero_copy_only=False)
    too_new = there & is_legacy & (shape.versions != 0)
    there &= ~too_new
    fits = shape.fits & there
    fits &= texts(shape.values.parts(shape.metadata_at, shape.time_at, fits))[1]
    offsets = shape.values.int_at(shape.values.starts + 2, 8)
    fits &= offsets >= 0
    times_ms = shape.values.int_at(shape.time_at, 8)
    found, malformed = _one_by_one(shape.values.array, ~fits & there, decode_commit_value)
    rest = {row: value for row, value in found.items() if value.offset >= 0}
    _put(offsets, {row: value.offset for row, value in rest.items()})
    _put(times_ms, {row: value.commit_time_ms for row, value in rest.items()})
    malformed += Counter({"offset commit value too new for its key": int(too_new.sum())})
    decoded = fits.copy()
    decoded[[*rest]] = True
    return CommitScan(offsets, times_ms, decoded, malformed, shape._replace(fits=fits), rest)


def commit_values(scan: CommitScan) -> CommitValues:
    """Decode what the scan left out; a row that could not be decoded gets anything."""
    values, versions, metadata_at, time_at, has_id, fits = scan.shape
    epochs = np.where(versions >= 3, values.int_at(values.starts + 10, 4), NO_EPOCH)
    expires_ms = np.where(versions == 1, values.int_at(time_at + 8, 8), NO_TIME)
    metadata, _ = texts(values.parts(metadata_at, time_at, fits))
    with_id = fits & has_id
    ids = values.parts(values.ends - TOPIC_ID_BYTES, values.ends, with_id).dictionary_encode()
    names = pa.array([topic_id_text(raw) for raw in ids.dictionary.to_pylist()], pa.string())
    topic_ids = names.take(ids.indices)
    if rest := scan.rest:
        _put(epochs, {row: _or(value.leader_epoch, NO_EPOCH) for row, value in rest.items()})
        _put(expires_ms, {row: _or(value.expire_time_ms, NO_TIME) for row, value in rest.items()})
        metadata = _with(metadata, {row: value.metadata for row, value in rest.items()})
        topic_ids = _with(topic_ids, {row: value.topic_id for row, value in rest.items()})
    return CommitValues(epochs, expires_ms, metadata, topic_ids)


def _shape(values: ByteColumn) -> _Shape:
    versions = values.int_at(values.starts, 2)
    flexible = versions == FLEXIBLE_VERSION
    if flexible.all():
        return _flexible_shape(values, versions)
    if not flexible.any():
        return _plain_shape(values, versions)
    two = _plain_shape(values, versions)[2:], _flexible_shape(values, versions)[2:]
    parts = (
        np.where(flexible, flexible_part, plain_part)
        for plain_part, flexible_part in zip(*two, strict=True)
    )
    return _Shape(values, versions, *parts)


def _plain_shape(values: ByteColumn, versions: Numbers) -> _Shape:
    length_at = values.starts + np.where(versions >= 3, 14, 10)
    lengths = values.int_at(length_at, 2)
    metadata_at = length_at + 2
    time_at = metadata_at + lengths
    left = values.ends - time_at - np.where(versions == 1, 16, 8)
    fits = (versions >= 0) & (versions <= 3) & (lengths >= 0) & (left == 0)
    return _Shape(values, versions, metadata_at, time_at, np.zeros(len(fits), bool), fits)


def _flexible_shape(values: ByteColumn, versions: Numbers) -> _Shape:
    length_at = values.starts + 14
    lengths = values.byte_at(length_at)
    metadata_at = length_at + 1
    goes_on = lengths >= SHORT
    if goes_on.any():
        second = values.byte_at(metadata_at)
        metadata_at += goes_on
        # Those with three bytes, of more than 16 KiB, are left to the decoder for one record.
        long = np.where(second < SHORT, (lengths & 0x7F) | (second << 7), 0)
        lengths = np.where(goes_on, long, lengths)
    time_at = metadata_at + lengths - 1
    tail = time_at + 8
    left, tags = values.ends - tail, values.byte_at(tail)
    has_id = (left == TAGGED_ID_BYTES) & (tags == 1)
    has_id &= values.int_at(tail + 1, 2) == TOPIC_ID_BYTES  # tag 0, then the size
    fits = (versions == FLEXIBLE_VERSION) & (lengths >= 1)
    fits &= has_id | ((left == 1) & (tags == 0))
    return _Shape(values, versions, metadata_at, time_at, has_id, fits)


def _one_by_one(
    array: Any, rows: Any, decode: Callable[[bytes], Decoded]
) -> tuple[dict[int, Decoded], Counter[str]]:
    """Decode some rows by the decoder that knows every shape."""
    found: dict[int, Decoded] = {}
    malformed: Counter[str] = Counter()
    indices = np.flatnonzero(rows)
    for row, data in zip(indices.tolist(), array.take(pa.array(indices)).to_pylist(), strict=True):
        try:
            found[row] = decode(data)
        except MalformedMessage as exc:
            malformed[str(exc)] += 1
    return found, malformed


def _or(number: int | None, otherwise: int) -> int:
    return otherwise if number is None else number


def _put(numbers: Numbers, found: Mapping[int, int]) -> None:
    numbers[[*found]] = [*found.values()]


def _with(strings: Any, found: Mapping[int, str | None]) -> Any:
    mask = np.zeros(len(strings), bool)
    mask[[*found]] = True
    in_order = [found[row] for row in sorted(found)]
    return pc.replace_with_mask(strings, pa.array(mask), pa.array(in_order, pa.string()))
