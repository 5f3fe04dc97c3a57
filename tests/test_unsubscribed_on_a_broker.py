"""What is called deletable is what the broker lets be deleted, for every type of group."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.protocol.consumer import OffsetCommitRequest, OffsetDeleteRequest

from toolkit.kafka_io.connect import Connection
from toolkit.kafka_io.snapshot import read_snapshot
from toolkit.model import Cluster, GroupState
from toolkit.planning.unsubscribed import find_unsubscribed

SUBSCRIBED, LEFT = "orders.created", "audit.events"
NONE, GROUP_SUBSCRIBED_TO_TOPIC = 0, 86
PATIENCE_S = 30


def delete(cluster: Cluster, group: str, topic: str) -> int:
    """Ask the broker to delete the offset of partition 0 and return the error code it gives."""
    wanted = OffsetDeleteRequest.OffsetDeleteRequestTopic(
        name=topic,
        partitions=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic.OffsetDeleteRequestPartition(
                partition_index=0
            )
        ],
    )
    with Connection(cluster) as connection:
        # One broker: it is every group's coordinator.
        answer = connection.send(OffsetDeleteRequest(group_id=group, topics=[wanted]))
    assert NONE == answer.error_code
    (found,) = answer.topics
    return int(found.partitions[0].error_code)


def commit_as_member(cluster: Cluster, group: str, topic: str) -> None:
    """Commit offset 1 of partition 0 in the name of a live member of a KIP-848 or streams group."""
    (described,) = read_snapshot(cluster, groups=[group]).groups
    (member, *_) = described.members
    request_topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = request_topic.OffsetCommitRequestPartition(
        partition_index=0,
        committed_offset=1,
        committed_leader_epoch=-1,
        committed_metadata="",
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member.epoch,
        member_id=member.member_id,
        topics=[request_topic(name=topic, partitions=[partition])],
        min_version=9,
        max_version=9,
    )
    with Connection(cluster) as connection:
        (answered,) = connection.send(request).topics
    assert NONE == answered.partitions[0].error_code


@contextmanager
def classic_member(cluster: Cluster, group: str) -> Iterator[None]:
    """Keep a classic consumer in a group whose earlier member read another topic."""
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": group}
    with closing(Consumer({**settings, "enable.auto.commit": False})) as before:
        before.commit(offsets=[TopicPartition(LEFT, 0, 1)], asynchronous=False)
    with closing(Consumer({**settings, "enable.auto.commit": False})) as consumer:
        consumer.subscribe([SUBSCRIBED])
        give_up = time.monotonic() + PATIENCE_S
        while not consumer.assignment():
            assert time.monotonic() < give_up, "the consumer got no partition"
            consumer.poll(0.1)
        consumer.commit(offsets=[TopicPartition(SUBSCRIBED, 0, 1)], asynchronous=False)
        yield
    # Others who are handed this cluster find the groups that were seeded, and no more.
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)) as admin:
        assert {group: "OK"} == admin.delete_groups([group])


@contextmanager
def seeded_member(cluster: Cluster, group: str) -> Iterator[None]:
    """Give a live group of the sandbox a commit on a topic that it does not read."""
    commit_as_member(cluster, group, LEFT)
    yield


@pytest.mark.parametrize(
    ("group", "joined"),
    [
        ("deletable-classic", classic_member),
        ("search-indexer", seeded_member),
        ("order-totals", seeded_member),
    ],
    ids=["classic", "consumer", "streams"],
)
def test_the_broker_deletes_what_is_called_deletable(
    cluster: Cluster, group: str, joined: Callable[[Cluster, str], AbstractContextManager[None]]
) -> None:
    """The broker deletes the offset of the topic that was left and refuses the subscribed one."""
    with joined(cluster, group):
        snapshot = read_snapshot(cluster, groups=[group])
        found = find_unsubscribed(snapshot)

        assert {GroupState.STABLE} == {g.state for g in snapshot.groups}
        assert [(LEFT, True)] == list(
            found.rows[["topic", "deletable_now"]].itertuples(index=False, name=None)
        )
        assert GROUP_SUBSCRIBED_TO_TOPIC == delete(cluster, group, SUBSCRIBED)
        assert NONE == delete(cluster, group, LEFT)
        assert find_unsubscribed(read_snapshot(cluster, groups=[group])).rows.empty
