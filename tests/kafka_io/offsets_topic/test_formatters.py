"""Our decoders beside Kafka's own: its console consumer prints the same records."""

import random
from base64 import b64decode
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from clients import Producer
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition as Place
from kafka_formatters import COMMITS, formatted, group_formatted
from offsets_records import damaged_commit

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.timestamps import from_ms
from toolkit.kafka_io.logs.bulk_records import read_records
from toolkit.kafka_io.offsets_topic.commit_records import decode_commit_key, decode_commit_value
from toolkit.kafka_io.offsets_topic.group_records import (
    ClassicGroup,
    ConsumerMemberRecord,
    CurrentAssignment,
    StreamsGroup,
    Topology,
    decode_group_key,
)
from toolkit.kafka_io.offsets_topic.latest_records import LATEST
from toolkit.kafka_io.offsets_topic.latest_tables import DECODERS, decode_commits
from toolkit.kafka_io.offsets_topic.partitions import (
    OFFSETS_TOPIC,
    offsets_partitions,
)
from toolkit.kafka_io.wire.fields import MalformedMessage
from toolkit.model import Cluster, TopicPartition

MUTATIONS = 100_000
NO_ID = "A" * 22
# What Kafka reads and we refuse: nobody could have meant it.
NAMED = {
    "a number out of range",  # which Java takes for another, or a negative one
    "a negative partition",
    "a string that is not UTF-8",
    "a tagged field with a wrong size",
    "extra bytes at the end",
}


def as_printed(row: Any) -> Any:
    """Return a printed record in the terms of our columns."""
    key, value = row["key"]["data"], row["value"]
    found = (key["group"], key["topic"], key["partition"])
    if value is None:
        return (*found, None)
    data = value["data"]
    epoch, topic_id = data.get("leaderEpoch", -1), data.get("topicId", NO_ID)
    return (
        *found,
        data["offset"],
        None if epoch == -1 else epoch,
        data["metadata"],
        data["commitTimestamp"],
        data.get("expireTimestamp", -1),
        None if topic_id == NO_ID else topic_id,
    )


def one_by_one(key: bytes, value: bytes | None) -> Any:
    """Return what our decoders for one record make of it, or why it is nothing."""
    try:
        found = decode_commit_key(key)
        if value is None:
            return (*found, None)
        if key[1] == 0 and value[:2] != b"\0\0":
            return "too new for its key"
        commit = decode_commit_value(value)
    except MalformedMessage as exc:
        return str(exc)
    expire_ms = -1 if commit.expire_time_ms is None else commit.expire_time_ms
    return (*found, *commit[:4], expire_ms, commit.topic_id)


def in_bulk(records: list[tuple[bytes, bytes | None]]) -> Any:
    """Return the same from the decoder for many, by the record's number; times are datetimes."""
    count = len(records)
    keys, values = zip(*records, strict=True)
    known = {
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "record_offset": pa.array(range(count), pa.int64()),
    }
    columns = [known.get(part.name, pa.nulls(count, part.type)) for part in LATEST]
    table, _ = decode_commits(pa.table(columns, schema=LATEST))
    fields = ("group", "topic", "partition", "committed", "leader_epoch", "metadata")
    names = (*fields, "committed_at", "expire_at", "topic_id")
    return {row["record_offset"]: tuple(row[name] for name in names) for row in table.to_pylist()}


def test_damaged_records_decode_as_in_kafka(apps: Any, tmp_path: Path) -> None:
    """
    Of 100,000 damaged records, those that decode have the values that Kafka decodes.

    What we refuse and Kafka decodes is refused for a reason that has a name.
    """
    chance = random.Random(20_251_121)  # noqa: S311 - repeatable, not secret
    records = [damaged_commit(chance) for _ in range(MUTATIONS)]
    topic = apps.create_topic(apps.name("damaged"))
    producer = Producer({"bootstrap.servers": apps.address, "linger.ms": 20})
    for number, (key, value) in enumerate(records):
        producer.produce(topic, value, key, 0)
        if number % 10_000 == 0:
            producer.flush()
    assert producer.flush() == 0
    told = formatted(
        apps.cluster, TopicPartition(topic, 0), COMMITS, log=tmp_path / "log", records=MUTATIONS
    )
    printed = iter(told.printed)
    bulk = in_bulk(records)
    outcomes: Counter[str] = Counter()
    for number, (key, value) in enumerate(records):
        ours = one_by_one(key, value)
        # Records of other types are passed over without a word.
        skipped = number in told.refused or key[:2] not in (b"\0\0", b"\0\1")
        theirs = None if skipped else as_printed(next(printed))
        if isinstance(ours, str):
            outcomes["both refuse" if theirs is None else ours.split(": ")[-1]] += 1
            assert theirs is None or ours.split(": ")[-1] in NAMED, (key, value, ours, theirs)
        else:
            outcomes["both decode"] += 1
            assert ours == theirs, (key, value)
        # Brokers answer with a negative offset as for a partition without a commit.
        decoded = not isinstance(ours, str) and value is not None and ours[3] >= 0
        assert bulk.get(number) == (with_times(ours) if decoded else None), (key, value)

    assert not list(printed)
    assert outcomes.keys() == NAMED | {"both decode", "both refuse"}
    assert min(outcomes["both decode"], outcomes["both refuse"]) > MUTATIONS / 10


def with_times(commit: Any) -> Any:
    """Return a decoded commit with its times as a calendar has them."""
    *fields, at_ms, expire_ms, topic_id = commit
    return (*fields, from_ms(at_ms), from_ms(expire_ms), topic_id)


@pytest.fixture
def lively(exclusive_apps: Any, streams_app: Callable[..., Any]) -> Cluster:
    """Return a cluster with groups of every kind, of which some lost members, offsets or all."""
    apps = exclusive_apps
    topic = apps.create_topic(apps.name("lively"), partitions=2, records=9)
    simple, gone = apps.name("simple"), apps.name("gone")
    for group in (simple, gone):
        apps.commit(group, {TopicPartition(topic, number): 3 for number in range(2)}, "a note")
    with closing(KafkaAdminClient(bootstrap_servers=apps.cluster.bootstrap_servers)) as admin:
        admin.delete_group_offsets(simple, [Place(topic, 1)])
        admin.delete_groups([gone])
    for protocol, topics in (("classic", [topic]), ("consumer", [f"^{topic}.*"])):
        for _ in range(2):
            member = apps.join(apps.name(f"{protocol}-group"), topics, protocol=protocol)
            member.commit(offsets=[apps.position(TopicPartition(topic, 0), 4)], asynchronous=False)
        member.close()
    for ending in ("commit", "abort"):
        producer = apps.pending(apps.name("transactional"), 8, TopicPartition(topic, 1))
        getattr(producer, f"{ending}_transaction")()
    streams_app(apps.cluster, "streams", instances=("a",))
    return apps.cluster


@pytest.mark.slow("every record, by Kafka's own tool")
@pytest.mark.since("4.2")
def test_real_records_decode_as_in_kafka(lively: Cluster, streams_jvm: Any, tmp_path: Path) -> None:
    """Every record of a real offsets topic is decoded to what Kafka's own classes print."""
    with Connection(lively) as connection:
        logs = offsets_partitions(connection).logs
    kinds: Counter[int] = Counter()
    for number, log in logs.items():
        records = read(lively, number, log.last_stable)
        place = TopicPartition(OFFSETS_TOPIC, number)
        log_file = tmp_path / str(number)
        told = formatted(lively, place, COMMITS, log=log_file, records=len(records))
        assert told.refused == {}
        commits = [one_by_one(key, value) for key, value in records if key[1] < 2]
        assert commits == [as_printed(row) for row in told.printed]
        for key, value in records:
            kinds[key[1]] += 1
            if key[1] >= 2:
                row = group_formatted(streams_jvm.jvm, key, value)
                assert group_record(key, value) == as_printed_group(row), row

    assert {1, 2, 3, 5, 6, 7, 8, 16, 17, 19, 20, 22, 23} <= kinds.keys()


def read(cluster: Cluster, number: int, end: int) -> list[tuple[bytes, bytes | None]]:
    parts = read_records(cluster, TopicPartition(OFFSETS_TOPIC, number), range(end))
    return [
        pair
        for part in parts
        for pair in zip(part.keys.to_pylist(), part.values.to_pylist(), strict=True)
    ]


def group_record(key: bytes, value: bytes | None) -> Any:
    """Return type, group, member and what is decoded of a group's own record."""
    kind = key[1]
    decode = DECODERS.get(kind, lambda _: None) if kind != 19 else lambda _: None
    return (kind, *decode_group_key(key), value and decode(value))


def as_printed_group(row: Any) -> Any:
    kind, key, value = row["key"]["type"], row["key"]["data"], row["value"]
    group = key.get("groupId", key.get("group"))
    member = key.get("memberId", key.get("regularExpression"))
    return (kind, group, member, value and PRINTED.get(kind, lambda _: None)(value["data"]))


PRINTED: dict[int, Callable[[Any], Any]] = {
    2: lambda data: ClassicGroup(
        data["protocolType"],
        data["generation"],
        data["currentStateTimestamp"],
        tuple(b64decode(one["subscription"]) for one in data["members"]),
    ),
    3: itemgetter("epoch"),
    5: lambda data: ConsumerMemberRecord(
        tuple(data["subscribedTopicNames"]), data["subscribedTopicRegex"]
    ),
    6: itemgetter("assignmentEpoch"),
    8: lambda data: CurrentAssignment(data["memberEpoch"], data["state"]),
    16: lambda data: tuple(data["topics"]),
    17: lambda data: StreamsGroup(data["epoch"], data.get("validatedTopologyEpoch", -1)),
    20: itemgetter("assignmentEpoch"),
    22: lambda data: CurrentAssignment(data["memberEpoch"], data["state"]),
    23: lambda data: Topology(
        data["epoch"],
        frozenset(
            name
            for part in data["subtopologies"]
            for name in (
                *part["sourceTopics"],
                *(topic["name"] for topic in part["repartitionSourceTopics"]),
            )
        ),
        tuple(name for part in data["subtopologies"] for name in part["sourceTopicRegex"]),
    ),
}
