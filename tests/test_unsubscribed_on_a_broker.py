"""What is called deletable is what the broker lets be deleted, for every type of group."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from threading import Event
from typing import NamedTuple

import pytest
from applications import Applications
from raw_classic import commit

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter
from toolkit.model import Cluster, GroupState, TopicPartition
from toolkit.planning.unsubscribed.unsubscribed_offsets import find_unsubscribed
from toolkit.sandbox.raw_members import RawConnection, StreamsInstance
from toolkit.sandbox.seed import SeededGroup


class Topics(NamedTuple):
    """The partition that a group reads, and one of which it has only a commit."""

    subscribed: TopicPartition
    left: TopicPartition


@contextmanager
def real_member(apps: Applications, group: str, topics: Topics, protocol: str) -> Iterator[None]:
    """Keep a real consumer in a group that committed a topic which it does not read."""
    apps.commit(group, {topics.left: 1})
    member = apps.join(group, [topics.subscribed.topic], protocol=protocol)
    member.commit(offsets=[apps.position(topics.subscribed, 1)], asynchronous=False)
    yield


@contextmanager
def streams_member(apps: Applications, group: str, topics: Topics) -> Iterator[None]:
    """Keep an instance of a streams application in a group with such a commit."""
    instance = StreamsInstance(SeededGroup(group, "", "", reads=(topics.subscribed.topic,)))
    stopped = Event()
    with RawConnection(apps.address, client_id=group) as broker:
        instance.join(broker)
        member = (instance.member_id, instance.epoch)
        commit(apps.address, group, {topics.left: 1, topics.subscribed: 1}, member=member)

        def stay() -> None:
            while not stopped.wait(1):
                instance.heartbeat(broker)

        with ThreadPoolExecutor() as pool:
            staying = pool.submit(stay)
            try:
                yield
            finally:
                stopped.set()
        staying.result()
        instance.leave(broker)


@pytest.mark.parametrize(
    "joined",
    [
        partial(real_member, protocol="classic"),
        partial(real_member, protocol="consumer"),
        streams_member,
    ],
    ids=["classic", "consumer", "streams"],
)
def test_the_broker_deletes_unsubscribed_offsets(
    apps: Applications, joined: Callable[..., AbstractContextManager[None]]
) -> None:
    """It deletes the offset of the unsubscribed topic and refuses the subscribed one."""
    topics = Topics(
        *(TopicPartition(apps.create_topic(apps.name(n), records=1), 0) for n in Topics._fields)
    )
    group = apps.name("deletable")
    with joined(apps, group, topics):
        apps.eventually(lambda: state(apps.cluster, group) is GroupState.STABLE)
        found = find_unsubscribed(read_snapshot(apps.cluster, groups=[group]))

        assert [(topics.left.topic, True)] == list(
            found.rows[["topic", "deletable_now"]].itertuples(index=False, name=None)
        )
        with Connection(apps.cluster) as connection:
            answer = GroupWriter(connection).delete_offsets(group, topics)
        assert ("", [topics.subscribed]) == (answer.error, [*answer.partitions])
        assert "GROUP_SUBSCRIBED_TO_TOPIC, code 86" in answer.partitions[topics.subscribed]
        (commit,) = read_snapshot(apps.cluster, groups=[group]).commits
        assert topics.subscribed.topic == commit.topic


def state(cluster: Cluster, group: str) -> GroupState:
    (found,) = read_snapshot(cluster, groups=[group]).groups
    return found.state
