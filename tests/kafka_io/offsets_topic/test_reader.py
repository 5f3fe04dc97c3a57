from contextlib import closing
from typing import Any

import pytest
from fleet_tasks import rows_of, tasks_of
from idle_groups import idle_group
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition as Place
from repeating import repeating

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.offsets_topic.latest_records import merge_latest
from toolkit.kafka_io.offsets_topic.latest_tables import decode_commits
from toolkit.kafka_io.offsets_topic.partitions import offsets_partitions, partition_of
from toolkit.kafka_io.offsets_topic.reader import read_offsets_log
from toolkit.kafka_io.offsets_topic.unstable_tail import read_unstable_tail
from toolkit.model import Cluster, TopicPartition
from toolkit.spark.catch_up import FROM_LOG, PAST_STABLE


@pytest.fixture
def apps(exclusive_apps: Any) -> Any:
    """Return the applications on a cluster whose whole offsets topic is read, by nobody else."""
    return exclusive_apps


def from_admin(connection: Any) -> Any:
    groups, _ = list_groups(connection)
    commits, problems = read_commits(connection, [group.group_id for group in groups])
    assert problems == []
    return {(c.group_id, c.topic, c.partition): c for c in commits}


def from_topic(cluster: Cluster) -> Any:
    """Return what the fleet job reads, by group, topic and partition."""
    found = rows_of(tasks_of(cluster))
    return {(row["group"], row["topic"], row["partition"]): row for row in found}


def delete_offset(apps: Any, group: str, place: TopicPartition) -> None:
    with closing(KafkaAdminClient(bootstrap_servers=apps.cluster.bootstrap_servers)) as admin:
        admin.delete_group_offsets(group, [Place(*place)])


def test_topic_and_coordinator_agree(apps: Any) -> None:
    """The offsets topic says what the coordinators say of every group; what was deleted is gone."""
    group, places = idle_group(apps, 0, 1, 2, metadata="a note")
    for offset in range(1, 5):
        apps.commit(group, {at: offset + n for n, at in enumerate(places)}, "a note")
    delete_offset(apps, group, places[2])
    topic = places[0].topic
    modern = apps.name("modern-group")
    member = apps.join(modern, [topic], protocol="consumer")
    member.commit(offsets=[apps.position(TopicPartition(topic, 1), 4)], asynchronous=False)
    with Connection(apps.cluster) as connection:
        told = from_admin(connection)
    read = from_topic(apps.cluster)

    assert {key: (c.offset, c.leader_epoch, c.metadata) for key, c in told.items()} == {
        key: (row["committed"], row["leader_epoch"], row["metadata"]) for key, row in read.items()
    }
    assert {FROM_LOG} == {row["source"] for row in read.values()}
    assert {0, 1} == {key[2] for key in read if key[:2] == (group, topic)}
    assert read[group, topic, 0]["committed"] == 4
    # The client that committed ends metadata with a NUL, which is then part of it.
    assert read[group, topic, 1]["metadata"] == "a note\0"
    assert read[modern, topic, 1]["committed"] == 4


def test_open_transaction_hides_only_its_own(apps: Any) -> None:
    """During a transaction, commits outside it are read, and its pending ones are reported."""
    group, places = idle_group(apps, 1, 1, 1)
    producer = apps.pending(group, 8, *places[:2])
    try:
        # The newest commit counts, though the transaction began before it.
        apps.commit(group, {places[0]: 2, places[2]: 3})
        read = from_topic(apps.cluster)
    finally:
        producer.abort_transaction()

    assert [(2, True, PAST_STABLE), (1, True, FROM_LOG), (3, False, PAST_STABLE)] == [
        (row["committed"], row["pending"], row["source"])
        for row in (read[group, *place] for place in places)
    ]


def test_commits_written_during_the_reading_are_not_pending(apps: Any) -> None:
    """Only a transaction holds back the last stable offset."""
    group, (partition,) = idle_group(apps, 1)
    with (
        Connection(apps.cluster) as connection,
        repeating(lambda: apps.commit(group, {partition: 1})),
    ):
        seen = [offsets_partitions(connection).logs for _ in range(200)]

    unstable = {n for logs in seen for n, log in logs.items() if log.last_stable != log.log_end}
    assert len({str(logs) for logs in seen}) > 1
    assert unstable == set()


def in_order(table: Any) -> Any:
    """Return the rows of a table of the newest records, by key."""
    return sorted(table.to_pylist(), key=lambda row: row["key"])


def test_reading_on_gives_the_same_as_reading_all(apps: Any) -> None:
    """What was read before, merged with what came since, is what a whole read finds."""
    group, places = idle_group(apps, 7, 7, 7)
    with Connection(apps.cluster) as connection:
        topic_before = offsets_partitions(connection)
        number = partition_of(group, topic_before.partitions)
        first = read_offsets_log(apps.cluster, number, topic_before.logs[number])
        delete_offset(apps, group, places[2])
        apps.commit(group, {places[0]: 5, places[2]: 1})
        log = offsets_partitions(connection).logs[number]
    since = read_offsets_log(apps.cluster, number, log, start=first.next_offset)
    whole = read_offsets_log(apps.cluster, number, log)

    merged = merge_latest(first.latest, since.latest)
    assert in_order(merged) == in_order(whole.latest)
    assert (since.records, whole.records) == (3, first.records + 3)
    assert since.next_offset == whole.next_offset == log.log_end
    commits, _ = decode_commits(merged)
    mine = {row["partition"]: row for row in commits.to_pylist() if row["group"] == group}
    recent = {number: row["recent_offset"] for number, row in mine.items()}
    assert recent == {0: [7, 5], 1: [7], 2: [1]}
    assert (mine[0]["committed"], mine[0]["max_committed"]) == (5, 7)
    # What was removed is known only to who has read it; the group never had a record of its own.
    assert [row["committed"] for row in whole.removals.to_pylist() if row["group"] == group] == [7]
    assert [row["committed"] for row in since.removals.to_pylist()] == [None]


def test_transactions_that_ended_behind_an_open_one(apps: Any) -> None:
    """Their markers show which commits count, before read_committed readers see them."""
    topic = apps.create_topic(apps.name("behind"), partitions=3, records=27)
    group = apps.name("behind-group")
    places = [TopicPartition(topic, number) for number in range(3)]

    def counting() -> Any:
        with Connection(apps.cluster) as connection:
            topic = offsets_partitions(connection)
        number = partition_of(group, topic.partitions)
        tail = read_unstable_tail(apps.cluster, number, topic.logs[number])
        return tuple(
            {key.partition for key in keys if key.group_id == group}
            for keys in (tail.commits, tail.pending)
        )

    still_open, committed, aborted = (apps.pending(group, 8, place) for place in places)
    try:
        assert (set(), {0, 1, 2}) == counting()
        committed.commit_transaction()
        aborted.abort_transaction()
        assert apps.eventually(lambda: ({1}, {0}) == counting())
        ours = [row for key, row in from_topic(apps.cluster).items() if key[0] == group]
        assert [(1, 8)] == [(row["partition"], row["committed"]) for row in ours]
    finally:
        still_open.abort_transaction()


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
