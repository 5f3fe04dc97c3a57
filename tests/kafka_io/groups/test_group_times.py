from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from applications import eventually
from fleet_tasks import blocks_of, tasks_of
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition as Place
from raw_classic import commit

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.commits import FIRST_COMMIT, read_commits
from toolkit.kafka_io.groups.group_times import GroupTimes, read_group_times, with_commit_times
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, Commit, Group, GroupState, TopicPartition
from toolkit.sandbox.raw_members import RawConnection, StreamsInstance
from toolkit.sandbox.seed import SeededGroup
from toolkit.spark.catch_up import read_newest


def commit_two(apps: Any) -> tuple[str, str]:
    """Return a new topic, and a group that committed two of its partitions."""
    topic = apps.create_topic(apps.name("clock"), partitions=3, records=9)
    group = apps.name("clock-group")
    apps.commit(group, {TopicPartition(topic, n): 4 + n for n in range(2)})
    return topic, group


def timed(cluster: Cluster, commits: list[Commit]) -> list[Commit]:
    """Return the commits with their times, all of which can be read."""
    with Connection(cluster) as connection:
        times, problems = read_group_times(connection, {c.group_id for c in commits})
    assert problems == []
    return with_commit_times(commits, times)


def commits_of(cluster: Cluster, group: str) -> list[Commit]:
    with Connection(cluster) as connection:
        return read_commits(connection, [group])[0]


def test_commit_times(apps: Any) -> None:
    """Every commit has the time at which it was made, just now; none has the time of another."""
    commits = commits_of(apps.cluster, commit_two(apps)[1])
    now, found = datetime.now(UTC), timed(apps.cluster, commits)
    older = [Commit(c.group_id, c.topic, c.partition, c.offset - 1) for c in commits]

    assert len(found) == 2
    assert all(now - timedelta(minutes=5) < commit.committed_at <= now for commit in found)
    assert [commit.committed_at for commit in timed(apps.cluster, older)] == [None, None]


def test_commit_times_behind_an_open_transaction(exclusive_apps: Any) -> None:
    """Commits outside it have their time, and groups the time they became Empty."""
    apps = exclusive_apps
    topic, group = commit_two(apps)
    partition = TopicPartition(topic, 0)
    producer = apps.pending(group, 8, partition)
    try:
        apps.commit(group, {partition: 2})
        apps.join(group, [topic]).close()
        with Connection(apps.cluster) as connection:
            times, problems = read_group_times(connection, [group])
        commits = with_commit_times(commits_of(apps.cluster, group), times)
    finally:
        producer.abort_transaction()

    (pending,) = (commit for commit in commits if commit.partition == 0)
    now = datetime.now(UTC)
    assert (2, True) == (pending.offset, pending.pending)
    assert now - timedelta(minutes=5) < pending.committed_at <= times.empty_since[group] <= now
    assert [] == problems


def first_commits(cluster: Cluster, *groups: str) -> list[Any]:
    """Return of which group and partition it is told that a transaction is about to commit it."""
    problems = read_snapshot(cluster, groups=groups, commit_times=True).problems
    return [(p.group_id, p.topic, p.partition) for p in problems if p.why == FIRST_COMMIT]


def test_first_commit_of_an_open_transaction(exclusive_apps: Any) -> None:
    """It is reported, though no list of committed offsets has it, until the transaction ends."""
    apps = exclusive_apps
    topic, group = commit_two(apps)
    other = apps.name("clock-group")
    places = [TopicPartition(topic, number) for number in (0, 2)]
    producers = [apps.pending(name, 8, *places) for name in (group, other)]
    try:
        # What counts already is not told, though the transaction hides it from most readers.
        apps.commit(group, {TopicPartition(topic, 1): 9})
        found = first_commits(apps.cluster, group, other)
    finally:
        for producer in producers:
            producer.abort_transaction()

    assert sorted(found) == sorted([(group, topic, 2), (other, topic, 0), (other, topic, 2)])
    assert apps.eventually(lambda: first_commits(apps.cluster, group, other) == [])


def empty(cluster: Cluster, group: str) -> Any:
    """Return a group once its coordinator calls it Empty."""

    def found() -> Group | None:
        (read,) = read_snapshot(cluster, groups=[group], commit_times=True).groups
        return read if read.state is GroupState.EMPTY else None

    return eventually(found)


def was_emptied_between_commits(cluster: Cluster, group: Group) -> None:
    """Assert that a group is Empty since a time between its two commits, by the broker's clock."""
    before, after = timed(cluster, commits_of(cluster, group.group_id))
    assert before.committed_at <= group.empty_since <= after.committed_at


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_is_empty_since_its_last_member_left(apps: Any, protocol: str) -> None:
    """The clock starts when the last member leaves; commits and the first to leave do not count."""
    topic, _ = commit_two(apps)
    group = apps.name(protocol)
    first = apps.join(group, [topic], protocol=protocol)
    first.commit(offsets=[apps.position(TopicPartition(topic, 0), 1)], asynchronous=False)
    live = read_snapshot(apps.cluster, groups=[group], commit_times=True).groups[0]
    first.close()
    found = empty(apps.cluster, group)
    apps.commit(group, {TopicPartition(topic, 1): 2})

    assert live.empty_since is None
    was_emptied_between_commits(apps.cluster, found)
    assert empty(apps.cluster, group).empty_since == found.empty_since


@pytest.mark.since("4.2")
def test_streams_group_is_empty_since_its_last_instance_left(apps: Any) -> None:
    """A streams group has the same clock as other groups of the newer protocols."""
    topic, _ = commit_two(apps)
    group = apps.name("streams")
    instance = StreamsInstance(SeededGroup(group, "", "", reads=(topic,)))
    with RawConnection(apps.address, client_id=group) as broker:
        instance.join(broker)
        member = (instance.member_id, instance.epoch)
        commit(apps.address, group, {TopicPartition(topic, 0): 1}, member=member)
        instance.leave(broker)
    apps.commit(group, {TopicPartition(topic, 1): 2})

    was_emptied_between_commits(apps.cluster, empty(apps.cluster, group))


def test_groups_without_a_clock(apps: Any) -> None:
    """What only an admin client commits to never became Empty; what is not there has no commits."""
    names = [commit_two(apps)[1]]
    (group,) = read_snapshot(apps.cluster, groups=names, commit_times=True).groups
    with Connection(apps.cluster) as connection:
        # Of so many, some are in a partition of the offsets topic that has no record.
        nobody = read_group_times(connection, [f"nobody-{number}" for number in range(200)])

    assert (group.state, group.empty_since) == (GroupState.EMPTY, None)
    none = {f"nobody-{number}": dict[bytes, bytes]() for number in range(200)}
    assert nobody == (GroupTimes(commits=none), [])


def test_both_readers_agree(apps: Any) -> None:
    """On unused groups the reading of the topic agrees with that of the fleet job."""
    topic, by_admin = commit_two(apps)
    apps.commit(by_admin, {TopicPartition(topic, 2): 1}, "a note")
    left = {protocol: apps.name(protocol) for protocol in ("classic", "consumer")}
    for protocol, group in left.items():
        member = apps.join(group, [topic], protocol=protocol)
        member.commit(offsets=[apps.position(TopicPartition(topic, 0), 1)], asynchronous=False)
        member.close()
        empty(apps.cluster, group)
    ours = {by_admin, *left.values()}
    with Connection(apps.cluster) as connection:
        times, problems = read_group_times(connection, ours)
    read = read_newest(apps.cluster, blocks_of(tasks_of(apps.cluster)))

    assert [] == problems
    rows = [row for row in read.commits.to_pylist() if row["group"] in ours]
    keys = [(row["group"], row["topic"], row["partition"]) for row in rows]
    assert {(g, *place) for g in ours for place in times.partitions(g)} == {*keys}
    commits = [Commit(*key, row["committed"]) for key, row in zip(keys, rows, strict=True)]
    assert [(row["committed_at"], row["topic_id"] or "") for row in rows] == [
        (commit.committed_at, commit.topic_id) for commit in with_commit_times(commits, times)
    ]
    emptied = {
        row["group"]: row["empty_since"]
        for row in read.groups.to_pylist()
        if row["group"] in ours and row["empty_since"]
    }
    assert emptied == times.empty_since
    assert emptied.keys() == set(left.values())


def test_second_read_goes_on(apps: Any) -> None:
    """Over one connection, a read tells what was committed and deleted since the one before."""
    topic, group = commit_two(apps)
    others = [commit_two(apps)[1] for _ in range(2)]
    with Connection(apps.cluster) as connection:
        first, _ = read_group_times(connection, [group, others[0]])
        before = dict(first.commits[group])
        apps.commit(group, {TopicPartition(topic, 0): 6})
        admin = KafkaAdminClient(bootstrap_servers=apps.cluster.bootstrap_servers)
        with closing(admin):
            admin.delete_group_offsets(group, [Place(topic, 1)])
        second, _ = read_group_times(connection, [group])
        more, _ = read_group_times(connection, [group, *others])
    with Connection(apps.cluster) as connection:
        anew, _ = read_group_times(connection, [group, *others])

    assert {TopicPartition(topic, 0)} == second.partitions(group)
    assert before != second.commits[group] == more.commits[group] == anew.commits[group]
    assert anew.commits == more.commits
