import random
import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position
from hypothesis import given
from hypothesis import strategies as st

from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.offsets_reader import offsets_partitions
from toolkit.kafka_io.offsets_topic import (
    OFFSETS_TOPIC,
    CommitKey,
    CommitValue,
    UnknownRecord,
    decode_commit_key,
    decode_commit_value,
    decode_empty_since,
    decode_group_key,
    partition_of,
    record_type,
)
from toolkit.model import Cluster, TopicPartition

AT_MS = 1_700_000_000_000
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
    "010010000102030405060708090a0b0c0d0e0f": CommitValue(42, 5, "m", AT_MS),
}
MUTATIONS = 25_000

TEXT = st.text(st.characters(codec="utf-8"), max_size=300)
INT64 = st.integers(0, 2**63 - 1)


def plain(text: str) -> Any:
    """Encode a string as non-flexible messages do."""
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def compact(text: str) -> Any:
    """Encode a string as flexible messages do: its length and one, in groups of seven bits."""
    data = text.encode()
    length, prefix = len(data) + 1, bytearray()
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*prefix, length]) + data


def encode_value(version: int, value: Any, topic_id: Any = None) -> Any:
    """Encode a committed offset in one of the five versions of its schema."""
    parts = [struct.pack(">hq", version, value.offset)]
    if version >= 3:
        parts.append(struct.pack(">i", -1 if value.leader_epoch is None else value.leader_epoch))
    parts.append((compact if version == 4 else plain)(value.metadata))
    parts.append(struct.pack(">q", value.commit_time_ms))
    if version == 1:
        parts.append(struct.pack(">q", value.expire_time_ms))
    if version == 4:
        parts.append(b"\x01\x00\x10" + topic_id if topic_id else b"\x00")
    return b"".join(parts)


def test_golden_key() -> None:
    """The key of group g1, topic t1, partition 7 is decoded."""
    assert decode_commit_key(KEY) == CommitKey("g1", "t1", 7)


@pytest.mark.parametrize("data", VALUES)
def test_golden_values(data: str) -> None:
    """Values that Kafka's own classes wrote are decoded, with and without optional parts."""
    assert decode_commit_value(bytes.fromhex(data)) == VALUES[data]


@given(st.sampled_from([0, 1]), TEXT, TEXT, st.integers(0, 2**31 - 1))
def test_key_round_trip(kind: int, group: str, topic: str, partition: int) -> None:
    """Any key that can be written is read back, in its older and its newer type."""
    data = struct.pack(">h", kind) + plain(group) + plain(topic) + struct.pack(">i", partition)

    assert decode_commit_key(data) == CommitKey(group, topic, partition)


@given(
    version=st.integers(0, 4),
    written=st.builds(
        CommitValue, INT64, st.none() | st.integers(0, 2**31 - 1), TEXT, INT64, INT64
    ),
    topic_id=st.none() | st.binary(min_size=16, max_size=16),
)
def test_value_round_trip(version: int, written: CommitValue, topic_id: bytes | None) -> None:
    """Any value that can be written is read back in every version, with the fields it has there."""
    value = written._replace(
        leader_epoch=written.leader_epoch if version >= 3 else None,
        expire_time_ms=written.expire_time_ms if version == 1 else None,
    )

    assert decode_commit_value(encode_value(version, written, topic_id)) == value


def test_commit_time_is_exact() -> None:
    """The time of a commit is taken to the millisecond, in UTC."""
    value = CommitValue(1, None, "", AT_MS + 123)

    assert value.committed_at == datetime(2023, 11, 14, 22, 13, 20, 123_000, tzinfo=UTC)


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_commit_time(commit_time_ms: int) -> None:
    """A time that no calendar has, which old clients could choose, is none and not an error."""
    found = CommitValue(1, None, "", commit_time_ms).committed_at

    assert found is None or found.tzinfo is UTC


@pytest.mark.parametrize("length", [0, 126, 127, 128, 4096, 16383, 16384])
def test_length_of_metadata_takes_several_bytes(length: int) -> None:
    """Metadata of version 4 is read at every size of its length field."""
    value = CommitValue(1, 2, "m" * length, AT_MS)

    assert decode_commit_value(encode_value(4, value)) == value


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\0",
        b"\0\1",
        KEY[:-1],
        KEY + b"\0",
        KEY[:-4] + b"\xff\xff\xff\xff",  # partition -1
        b"\0\1\xff\xff" + KEY[4:],  # a null group
        b"\0\2" + KEY[2:],
        b"\0\1\0\1\xff\0\1t\0\0\0\0",  # not UTF-8
    ],
    ids=repr,
)
def test_other_keys_are_unknown(key: bytes) -> None:
    """A key that is cut, too long, of another type or not text is refused, never guessed at."""
    with pytest.raises(UnknownRecord):
        decode_commit_key(key)


@pytest.mark.parametrize("version", [-1, 5, 32767])
def test_other_versions_are_unknown(version: int) -> None:
    """A version that is newer than this code is refused by its number."""
    value = struct.pack(">h", version) + bytes(40)

    with pytest.raises(UnknownRecord, match=f"version {version}"):
        decode_commit_value(value)


@pytest.mark.parametrize("data", VALUES)
def test_cut_values_are_unknown(data: str) -> None:
    """A value that ends before its commit time is refused wherever it was cut."""
    whole = bytes.fromhex(data)
    trailing = {1: 0, 3: 0, 4: 1 if len(whole) < 30 else 19}[whole[1]]
    for end in range(len(whole) - trailing):
        with pytest.raises(UnknownRecord):
            decode_commit_value(whole[:end])


def encode_group(version: int, protocol_type: str, since_ms: int, members: int) -> Any:
    """Encode a classic group's value, down to the number of its members."""
    text = compact if version == 4 else plain
    null = b"\0" if version == 4 else b"\xff\xff"
    parts = [struct.pack(">h", version), text(protocol_type), struct.pack(">i", 7)]
    parts += [text("range"), text("member-1")] if members else [null, null]
    parts.append(struct.pack(">q", since_ms) if version >= 2 else b"")
    parts.append(bytes([members + 1]) if version == 4 else struct.pack(">i", members))
    return b"".join(parts)


@given(version=st.integers(2, 4), protocol_type=TEXT.filter(bool))
def test_empty_classic_group(version: int, protocol_type: str) -> None:
    """A group's value without members tells since when it is Empty, in every layout."""
    value = encode_group(version, protocol_type, AT_MS, members=0)

    assert decode_empty_since(value) == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("version", "protocol_type", "since_ms", "members"),
    [
        (3, "consumer", AT_MS, 1),
        (4, "consumer", AT_MS, 2),
        (3, "", AT_MS, 0),  # written at the first join, before there is a protocol
        (1, "consumer", AT_MS, 0),
        (3, "consumer", -1, 0),
    ],
)
def test_classic_group_of_which_it_is_not_known_since_when_it_is_empty(
    version: int, protocol_type: str, since_ms: int, members: int
) -> None:
    """A group with members, without a protocol, or of an old broker has no such time."""
    assert decode_empty_since(encode_group(version, protocol_type, since_ms, members)) is None


def test_damaged_group_records_are_unknown() -> None:
    """A group's key or value that is cut anywhere, or of a newer version, is refused."""
    for version in range(5):
        whole = encode_group(version, "consumer", AT_MS, members=0)
        for end in range(len(whole)):
            with pytest.raises(UnknownRecord):
                decode_empty_since(whole[:end])
    with pytest.raises(UnknownRecord, match="version 5"):
        decode_empty_since(b"\0\5" + whole[2:])
    key = b"\0\2" + plain("café")
    assert decode_group_key(key) == "café"
    for damaged in (key[:-1], key + b"\0", key[:2]):
        with pytest.raises(UnknownRecord):
            decode_group_key(damaged)


@pytest.fixture(scope="module")
def records(bare_cluster: Cluster) -> Any:
    """Return every record of a real offsets topic, and the golden ones."""
    consumer = Consumer(
        {
            "bootstrap.servers": bare_cluster.bootstrap_servers,
            "group.id": "raw-reader",
            "enable.auto.commit": False,
        }
    )
    found = [(KEY, bytes.fromhex(value)) for value in VALUES]
    with Connection(bare_cluster) as connection:
        logs = offsets_partitions(connection).logs
    try:
        for number, log in logs.items():
            consumer.assign([Position(OFFSETS_TOPIC, number, log.log_start)])
            # The last record of a log may be one that clients are not shown.
            while message := consumer.poll(1):
                assert not message.error()
                found.append((message.key(), message.value() or b""))
    finally:
        consumer.close()
    return found


def mutated(data: str, chance: Any) -> Any:
    """Return the bytes with some flipped, cut, repeated or put in."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(4):
            case 0:
                changed[at : at + 1] = chance.randbytes(1)
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = chance.choice([b"\xff", b"\0", b"\x80" * 12, b"\x7f\xff"])
            case _:
                changed[at:at] = changed[chance.randrange(len(changed) + 1) :]
    return bytes(changed)


def test_mutated_records_never_raise_anything_else(records: Any) -> None:
    """Thousands of damaged records are each refused as unknown, or read as something valid."""
    chance = random.Random(20_251_121)  # noqa: S311 - repeatable, not secret
    outcomes = {"read": 0, "refused": 0}
    for _ in range(MUTATIONS):
        key, value = (mutated(part, chance) for part in chance.choice(records))
        for decode, data in (
            (decode_commit_key, key),
            (decode_commit_value, value),
            (decode_group_key, key),
            (decode_empty_since, value),
        ):
            try:
                found = decode(data)
            except UnknownRecord:
                outcomes["refused"] += 1
                continue
            outcomes["read"] += 1
            assert isinstance(found, CommitKey | CommitValue | str | datetime | None)

    assert sum(outcomes.values()) == 4 * MUTATIONS
    assert min(outcomes.values()) > 1000


@given(st.binary(max_size=80))
def test_arbitrary_bytes(data: str) -> None:
    """Any bytes at all are refused as unknown, or read."""
    for decode in (
        record_type,
        decode_commit_key,
        decode_commit_value,
        decode_group_key,
        decode_empty_since,
    ):
        try:
            decode(data)
        except UnknownRecord:
            continue


@pytest.mark.parametrize(
    ("group", "java_hash"),
    [
        ("", 0),
        ("a", 97),
        ("polygenelubricants", -(2**31)),  # the one value of which Java's abs is negative
        ("test-group", 627_841_412),
        ("café reports 東京", 1_838_554_811),
        ("💾", 1_772_577),  # two UTF-16 units, as Java counts
    ],
)
def test_partition_of_follows_javas_hash(group: str, java_hash: Any) -> None:
    """The partition is Java's hash (as a JVM printed it), made positive as Kafka does it."""
    expected = 0 if java_hash == -(2**31) else abs(java_hash) % 50

    assert partition_of(group, 50) == expected


def test_partition_of_agrees_with_the_broker(apps: Any) -> None:
    """A group's records lie in the partition of the offsets topic that was worked out for it."""
    topic = apps.create_topic(apps.name("where"))
    with Connection(apps.cluster) as connection:
        for stem in ("polygenelubricants", "💾", "café reports 東京", "x" * 200, "a b"):
            # The first name is special as it is; a number after it would be another hash.
            group = stem if stem == "polygenelubricants" else apps.name(stem)
            before = offsets_partitions(connection).logs
            apps.commit(group, {TopicPartition(topic, 0): 0})
            after = offsets_partitions(connection)

            grown = {number for number, log in after.logs.items() if log != before.get(number)}
            assert grown == {partition_of(group, after.partitions)}
