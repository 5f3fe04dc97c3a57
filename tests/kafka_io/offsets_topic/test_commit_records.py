import struct
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from offsets_records import AT_MS, commit_key, commit_value, mutated

from toolkit.kafka_io.offsets_topic.commit_records import (
    CommitKey,
    CommitValue,
    decode_commit_key,
    decode_commit_value,
)
from toolkit.kafka_io.offsets_topic.decode_commits import (
    commit_keys,
    commit_values,
    scan_commit_values,
)
from toolkit.kafka_io.wire.fields import MalformedMessage

WEEK_MS = 7 * 24 * 3600 * 1000
KEY = bytes.fromhex("0001 0002 6731 0002 7431 00000007")
# Made with Kafka's own message classes.
VALUES = {
    "0001000000000000002a00000000018bcfe568000000018bf3f1ec00": CommitValue(
        42, None, "", AT_MS, AT_MS + WEEK_MS
    ),
    "0003000000000000002affffffff00016d0000018bcfe56800": CommitValue(42, None, "m", AT_MS),
    "0004000000000000002a00000005010000018bcfe5680000": CommitValue(42, 5, "", AT_MS),
    "0004000000000000002a00000005026d0000018bcfe56800"
    "010010000102030405060708090a0b0c0d0e0f": CommitValue(
        42, 5, "m", AT_MS, topic_id="AAECAwQFBgcICQoLDA0ODw"
    ),
}

TEXT = st.text(st.characters(codec="utf-8"), max_size=300)
INT64 = st.integers(0, 2**63 - 1)
KEYS = st.builds(CommitKey, TEXT, TEXT, st.integers(0, 2**31 - 1))
WRITTEN = st.builds(
    CommitValue, INT64, st.none() | st.integers(0, 2**31 - 1), TEXT, INT64, st.none() | INT64
)
IDS = st.none() | st.binary(min_size=16, max_size=16)
ENCODED_KEYS = st.builds(commit_key, KEYS, st.sampled_from([0, 1]))
ENCODED_VALUES = st.builds(commit_value, st.integers(0, 4), WRITTEN, IDS)
SEEDS = st.integers(0, 2**32)


def damaged(whole: Any) -> Any:
    """Return a strategy for damaged forms of some bytes."""
    return st.builds(lambda data, seed: mutated(data, Random(seed)), whole, SEEDS)  # noqa: S311


def outcome(decode: Any, data: bytes | None) -> Any:
    """Return what a decoder for one record makes of it: what it is, or why it is nothing."""
    try:
        return decode(data) if data is not None else None
    except MalformedMessage as exc:
        return str(exc)


def keys_in_bulk(keys: Sequence[bytes]) -> Any:
    """Return what the decoder for many makes of keys, None for a malformed one, and the reasons."""
    found = commit_keys(pa.array(keys, pa.binary()))
    whole = zip(
        found.groups.to_pylist(), found.topics.to_pylist(), found.partitions.tolist(), strict=True
    )
    decoded = found.decoded.tolist()
    rows = [CommitKey(*row) if sure else None for row, sure in zip(whole, decoded, strict=True)]
    return rows, dict(found.malformed)


def values_in_bulk(values: Sequence[bytes | None]) -> Any:
    """Return what the decoder for many makes of values, None for a malformed one or a tombstone."""
    scan = scan_commit_values(
        pa.array(values, pa.binary()), np.ones(len(values), bool), np.zeros(len(values), bool)
    )
    found = commit_values(scan)
    epochs = [None if epoch == -1 else epoch for epoch in found.epochs.tolist()]
    whole = zip(
        *(scan.offsets.tolist(), epochs, found.metadata.to_pylist(), scan.times_ms.tolist()),
        *(found.expires_ms.tolist(), found.topic_ids.to_pylist()),
        strict=True,
    )
    decoded = scan.decoded.tolist()
    rows = [CommitValue(*row) if sure else None for row, sure in zip(whole, decoded, strict=True)]
    return rows, dict(scan.malformed)


def expected(decode: Any, data: Sequence[bytes | None]) -> Any:
    """Return the same as the functions above, from the decoder for one record."""
    rows = [outcome(decode, one) for one in data]
    reasons = [row for row in rows if isinstance(row, str)]
    known = [None if isinstance(row, str) else row for row in rows]
    return known, {why: reasons.count(why) for why in reasons}


def without_never(value: Any) -> Any:
    """
    Return a value as columns have it: with -1 for an expiry that it does not have.

    A negative offset is none, and has no row there.
    """
    if value is None or value.offset < 0:
        return None
    if value.expire_time_ms is not None:
        return value
    return value._replace(expire_time_ms=-1)


def test_golden_key_and_values() -> None:
    """What Kafka's own classes wrote is decoded, one by one and in bulk."""
    key = CommitKey("g1", "t1", 7)
    encoded, values = [bytes.fromhex(data) for data in VALUES], list(VALUES.values())

    assert (key, ([key], {})) == (decode_commit_key(KEY), keys_in_bulk([KEY]))
    assert [decode_commit_value(data) for data in encoded] == values
    assert values_in_bulk(encoded) == ([without_never(value) for value in values], {})


@given(KEYS, st.sampled_from([0, 1]))
def test_key_round_trip(key: CommitKey, kind: int) -> None:
    """Any key that can be written is read back, in its older and its newer type."""
    assert decode_commit_key(commit_key(key, kind)) == key


@given(st.integers(0, 4), WRITTEN, IDS)
def test_value_round_trip(version: int, written: CommitValue, topic_id: bytes | None) -> None:
    """Any value that can be written is read back in every version, with the fields it has there."""
    found = decode_commit_value(commit_value(version, written, topic_id))

    assert found[:4] == (
        written.offset,
        written.leader_epoch if version >= 3 else None,
        written.metadata,
        written.commit_time_ms,
    )
    wanted_expiry = -1 if written.expire_time_ms is None else written.expire_time_ms
    assert found.expire_time_ms == (wanted_expiry if version == 1 else None)
    assert bool(found.topic_id) == bool(version == 4 and topic_id and any(topic_id))


@given(st.lists(ENCODED_KEYS | damaged(ENCODED_KEYS) | st.binary(max_size=40), max_size=12))
def test_keys_in_bulk_as_one_by_one(keys: list[bytes]) -> None:
    """Many keys at once, whole, damaged or arbitrary, give what each gives by itself."""
    assert keys_in_bulk(keys) == expected(decode_commit_key, keys)


@given(
    st.lists(
        st.none() | ENCODED_VALUES | damaged(ENCODED_VALUES) | st.binary(max_size=60), max_size=12
    )
)
def test_values_in_bulk_as_one_by_one(values: list[bytes | None]) -> None:
    """Many values at once, whole, damaged, arbitrary or none, give what each gives by itself."""
    rows, malformed = expected(decode_commit_value, values)

    assert values_in_bulk(values) == ([without_never(row) for row in rows], malformed)


@pytest.mark.parametrize("length", [0, 125, 126, 127, 128, 4096, 16_382, 16_383, 16_384, 32_767])
def test_length_of_metadata_takes_several_bytes(length: int) -> None:
    """Metadata of version 4 is read at every size of its length field, in bulk as well."""
    value = CommitValue(1, 2, "m" * length, AT_MS)
    data = commit_value(4, value)

    assert decode_commit_value(data) == value
    assert values_in_bulk([data]) == ([without_never(value)], {})


def test_text_is_no_longer_than_brokers_read() -> None:
    """A text of more than 32,767 bytes, which Kafka's reader refuses, is refused."""
    with pytest.raises(MalformedMessage, match="too long"):
        decode_commit_value(commit_value(4, CommitValue(1, 2, "m" * 32_768, AT_MS)))


@pytest.mark.parametrize(
    ("key", "why"),
    [
        (b"", "truncated"),
        (b"\0", "truncated"),
        (b"\0\1", "truncated"),
        (KEY[:-1], "truncated"),
        (KEY + b"\0", "extra bytes at the end"),
        (KEY[:-4] + b"\xff\xff\xff\xff", "negative partition"),
        (b"\0\1\xff\xff" + KEY[4:], "a missing string"),
        (b"\0\2" + KEY[2:], "record type 2"),
        (b"\0\1\0\1\xff\0\1t\0\0\0\0", "not UTF-8"),
        (b"\0\1\0\3\xed\xa0\x80\0\1t\0\0\0\0", "not UTF-8"),  # half of a pair, which Java refuses
    ],
    ids=repr,
)
def test_other_keys_are_unknown(key: bytes, why: str) -> None:
    """A key that is cut, too long, of another type or not text is refused, never guessed at."""
    with pytest.raises(MalformedMessage, match=why):
        decode_commit_key(key)


@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_other_versions_are_unknown(version: int) -> None:
    """A version that is newer than this code is refused by its number."""
    value = struct.pack(">h", version) + bytes(40)

    with pytest.raises(MalformedMessage, match=f"version {version}"):
        decode_commit_value(value)


@pytest.mark.parametrize("data", VALUES)
def test_cut_and_extended_values_are_unknown(data: str) -> None:
    """A value that truncated, wherever it was cut, or too late, is refused."""
    whole = bytes.fromhex(data)
    for end in range(len(whole)):
        with pytest.raises(MalformedMessage):
            decode_commit_value(whole[:end])
    with pytest.raises(MalformedMessage, match="extra bytes at the end"):
        decode_commit_value(whole + b"\0")


def test_tagged_fields_of_the_future_are_passed_over() -> None:
    """Tagged fields that are not known, before and after the topic id, change nothing."""
    known = commit_value(4, CommitValue(1, 2, "", AT_MS))[:-1]
    tags = b"\3\0\x10" + bytes(range(16)) + b"\5\2ab" + b"\7\0"

    assert decode_commit_value(known + tags).topic_id == "AAECAwQFBgcICQoLDA0ODw"
    assert values_in_bulk([known + tags])[0][0].topic_id == "AAECAwQFBgcICQoLDA0ODw"
    with pytest.raises(MalformedMessage, match="tagged field with a wrong size"):
        decode_commit_value(known + b"\1\0\x0f" + bytes(15))
