from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest

from toolkit.errors import Blocked, BrokerRefused
from toolkit.kafka_io.commits import read_commits
from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.group_clocks import read_group_clocks
from toolkit.kafka_io.rejoin import rejoin
from toolkit.kafka_io.snapshot import read_snapshot
from toolkit.model import Cluster, Group, GroupState, GroupType, TopicPartition
from toolkit.sandbox.broker import start_broker
from toolkit.sandbox.raw_connection import Connection as RawConnection
from toolkit.sandbox.raw_members import ConnectWorker
from toolkit.sandbox.seed import SeededGroup


def read(cluster: Cluster, group: str) -> Group:
    """Return a group as it is now, with its clock."""
    (found,) = read_snapshot(cluster, groups=[group], commit_times=True).groups
    return found


def emptied_again(cluster: Cluster, group: str, eventually: Any) -> Any:
    """Rejoin an Empty group, and return since when it was and is Empty, once that has moved."""
    before = read(cluster, group)
    with Connection(cluster) as connection:
        rejoin(connection, before)

    def moved() -> datetime | None:
        after = read(cluster, group)
        return after.empty_since if after.empty_since != before.empty_since else None

    return before.empty_since, eventually(moved)


@pytest.fixture
def left(apps: Any) -> Any:
    """Return a topic, and a classic group that committed it and has no members any more."""
    topic = apps.create_topic(apps.name("left"), records=9)
    group = apps.name("left-group")
    member = apps.join(group, [topic])
    position = apps.position(TopicPartition(topic, 0), 4)
    member.commit(offsets=[position], asynchronous=False)
    member.close()
    return topic, group


def test_clock_of_a_consumer_group_restarts(apps: Any, left: Any, eventually: Any) -> None:
    """The group is Empty since now instead of since its member left, and has what it committed."""
    _, group = left
    before, after = emptied_again(apps.cluster, group, eventually)
    with Connection(apps.cluster) as connection:
        ((commit,), problems) = read_commits(connection, [group])

    assert before < after
    assert (commit.offset, problems) == (4, [])
    assert read(apps.cluster, group).state is GroupState.EMPTY


def test_clock_of_a_connect_group_restarts(apps: Any, eventually: Any) -> None:
    """A group of Connect workers is rejoined by their protocol."""
    topic, group = apps.create_topic(apps.name("sink")), apps.name("connect")
    worker = ConnectWorker(SeededGroup(group, "", "", reads=(topic,)))
    with RawConnection(apps.address, client_id=group) as broker:
        worker.join(broker)
        worker.leave(broker)
    apps.commit(group, {TopicPartition(topic, 0): 0})
    before, after = emptied_again(apps.cluster, group, eventually)

    assert before < after
    assert read(apps.cluster, group).protocol_type == "connect"


def test_only_the_group_meant_is_touched(apps: Any, left: Any, eventually: Any) -> None:
    """A rejoin leaves no other group behind, and no commit changes."""
    topic, group = left

    def state() -> Any:
        with Connection(apps.cluster) as connection:
            clocks, _ = read_group_clocks(connection, [group])
        snapshot = read_snapshot(apps.cluster)
        return {g.group_id for g in snapshot.groups}, clocks[group].commits

    before = state()
    emptied_again(apps.cluster, group, eventually)

    assert before == state()
    assert list(before[1]) == [TopicPartition(topic, 0)]


def test_group_with_a_member_is_left_alone(apps: Any, left: Any) -> None:
    """A group that has a member again is not joined: nobody in it has to rebalance."""
    topic, group = left
    before = read(apps.cluster, group)
    member = apps.join(group, [topic])
    with Connection(apps.cluster) as connection, pytest.raises(Blocked, match="1 members"):
        rejoin(connection, before)

    assert member.assignment()
    assert member.poll(0) is None
    assert [m.client_id for m in read(apps.cluster, group).members] == [f"{group}-client"]


@pytest.fixture(scope="module")
def patient_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster that waits for more members before a group's first rebalance."""
    broker = start_broker(
        tmp_path_factory.mktemp("patient"), properties={"group.initial.rebalance.delay.ms": "2000"}
    )
    try:
        yield Cluster("patient", broker.address)
    finally:
        broker.stop()


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "cooperative-sticky"])
def test_client_that_starts_meanwhile(
    applications: Any, patient_cluster: Cluster, eventually: Any, assignor: str
) -> None:
    """A client that joins while we are in the group is not refused, and gets its partitions."""
    apps = applications(patient_cluster)
    topic, group = apps.create_topic(apps.name("meanwhile"), records=1), apps.name("joined")
    apps.join(group, [topic]).close()
    before = read(patient_cluster, group)
    with ThreadPoolExecutor() as pool, Connection(patient_cluster) as connection:
        rejoined = pool.submit(rejoin, connection, before)
        eventually(lambda: read(patient_cluster, group).members)
        member = apps.consumer(group, **{"partition.assignment.strategy": assignor})
        member.subscribe([topic])
        eventually(lambda: member.poll(0.1) is None and member.assignment())

        with pytest.raises(Blocked, match="somebody else joined"):
            rejoined.result()

    assert [m.client_id for m in read(patient_cluster, group).members] == [f"{group}-client"]


@pytest.mark.parametrize(
    ("group", "why"),
    [
        (Group("g", GroupType.CONSUMER, GroupState.EMPTY, "consumer"), "not a classic group"),
        (Group("g", GroupType.SIMPLE, GroupState.EMPTY), "not a classic group"),
        (Group("g", GroupType.CLASSIC, GroupState.EMPTY, "sr"), "'sr'"),
    ],
)
def test_other_kinds_of_group(bare_cluster: Cluster, group: Group, why: str) -> None:
    """Groups with another clock, or of members that we do not know, are refused."""
    with Connection(bare_cluster) as connection, pytest.raises(Blocked, match=why):
        rejoin(connection, group)


def test_group_that_is_gone_is_not_made(bare_cluster: Cluster) -> None:
    """A group that was deleted since it was read does not come back."""
    group = Group("gone", GroupType.CLASSIC, GroupState.EMPTY, "consumer")
    with Connection(bare_cluster) as connection, pytest.raises((Blocked, BrokerRefused)):
        rejoin(connection, group)

    assert "gone" not in {g.group_id for g in read_snapshot(bare_cluster).groups}
