from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from applications import PATIENCE_S, eventually
from kafka.protocol.consumer.group import LeaveGroupRequest

from toolkit.errors import Blocked, BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.group_times import read_group_times
from toolkit.kafka_io.membership import channel
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    DescribeClassic,
    Join,
    JoinResult,
    LeaveResult,
)
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.kafka_io.writes import retention_rejoin
from toolkit.kafka_io.writes.retention_rejoin import reset_classic_retention
from toolkit.model import Cluster, Group, GroupState, GroupType, TopicPartition
from toolkit.sandbox.broker import start_broker
from toolkit.sandbox.raw_members import ConnectWorker, RawConnection
from toolkit.sandbox.seed import SeededGroup


def read(cluster: Cluster, group: str) -> Group:
    """Return a group as it is now, with its clock."""
    (found,) = read_snapshot(cluster, groups=[group], commit_times=True).groups
    return found


def emptied_again(cluster: Cluster, group: str) -> Any:
    """Rejoin an Empty group, and return since when it was and is Empty, once that has moved."""
    before = read(cluster, group)
    reset_classic_retention(cluster, before)

    def moved() -> datetime | None:
        after = read(cluster, group)
        return after.empty_since if after.empty_since != before.empty_since else None

    return before.empty_since, eventually(moved)


def create_left(apps: Any) -> tuple[str, str]:
    """Return a topic, and a classic group that committed it and has no members any more."""
    topic = apps.create_topic(apps.name("left"), records=9)
    group = apps.name("left-group")
    member = apps.join(group, [topic])
    member.commit(offsets=[apps.position(TopicPartition(topic, 0), 4)], asynchronous=False)
    member.close()
    return topic, group


def test_clock_of_a_connect_group_restarts(apps: Any) -> None:
    """A group of Connect workers is rejoined by their protocol."""
    topic, group = apps.create_topic(apps.name("sink")), apps.name("connect")
    worker = ConnectWorker(SeededGroup(group, "", "", reads=(topic,)))
    with RawConnection(apps.address, client_id=group) as broker:
        worker.join(broker)
        worker.leave(broker)
    apps.commit(group, {TopicPartition(topic, 0): 0})
    before, after = emptied_again(apps.cluster, group)

    assert before < after
    assert read(apps.cluster, group).protocol_type == "connect"


@pytest.mark.starts("a broker")
def test_a_first_rebalance_may_be_delayed(applications: Any, tmp_path: Path) -> None:
    """Brokers may delay it for longer than the answer to another request is waited for."""
    broker = start_broker(tmp_path, properties={"group.initial.rebalance.delay.ms": "4000"})
    try:
        apps = applications(Cluster("slow", broker.address))
        before = read(apps.cluster, create_left(apps)[1])
        reset_classic_retention(replace(apps.cluster, timeout_s=2.0), before)

        assert eventually(lambda: read(apps.cluster, before.group_id) != before)
    finally:
        broker.stop()


def test_only_the_group_meant_is_touched(exclusive_apps: Any) -> None:
    """A rejoin leaves no other group behind, and no commit changes."""
    apps = exclusive_apps
    topic, group = create_left(apps)

    def state() -> Any:
        with Connection(apps.cluster) as connection:
            times, _ = read_group_times(connection, [group])
        snapshot = read_snapshot(apps.cluster)
        found = times.commits[group], times.partitions(group)
        return {g.group_id for g in snapshot.groups}, *found

    before = state()
    emptied_again(apps.cluster, group)

    assert before == state()
    assert before[2] == {TopicPartition(topic, 0)}


def test_group_with_a_member_is_left_alone(apps: Any) -> None:
    """A group that has a member again is not joined: no member has to rebalance."""
    topic, group = create_left(apps)
    before = read(apps.cluster, group)
    member = apps.join(group, [topic])
    with pytest.raises(Blocked, match="has 1 member"):
        reset_classic_retention(apps.cluster, before)

    message = member.poll(0)  # a record, where one has come already
    assert message is None or not message.error()
    assert member.assignment()
    after = read(apps.cluster, group)
    assert after.state is GroupState.STABLE
    assert [f"{group}-client"] == [each.client_id for each in after.members]


@contextmanager
def rejoining(
    cluster: Cluster, group: Group, is_held: Callable[[Any], bool]
) -> Iterator[tuple[Future[None], Event]]:
    """Rejoin a group up to the request that is held; return the rejoin, and what lets it go on."""
    reached, go_on = Event(), Event()

    class Held(Connection):
        """A connection that sends requests of one kind only when it is let go on."""

        def send_ahead(self, request: Any, **options: Any) -> Future[Any]:
            if is_held(request):
                reached.set()
                assert go_on.wait(PATIENCE_S)
            return super().send_ahead(request, **options)

    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor() as pool:
        patch.setattr(channel, "Connection", Held)
        for name, limit in (
            ("SESSION_TIMEOUT_MS", 1000 * PATIENCE_S),
            ("GIVE_UP_AFTER_S", PATIENCE_S),
        ):
            patch.setattr(retention_rejoin, name, limit)
        try:
            rejoined = pool.submit(reset_classic_retention, cluster, group)
            eventually(lambda: reached.is_set() or rejoined.done())
            assert reached.is_set(), rejoined.exception()

            yield rejoined, go_on
        finally:
            go_on.set()


def clients(cluster: Cluster, group: str) -> list[str]:
    return [member.client_id for member in read(cluster, group).members]


ASSIGNORS = ["range", "roundrobin", "cooperative-sticky"]


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_client_that_starts_meanwhile(apps: Any, assignor: str) -> None:
    """A client that joins while we are in the group is not refused, and gets its partitions."""
    topic, group = create_left(apps)
    before = read(apps.cluster, group)
    member = apps.consumer(group, **{"partition.assignment.strategy": assignor})
    held = rejoining(apps.cluster, before, lambda request: isinstance(request, LeaveGroupRequest))
    with held as (rejoined, go_on):
        member.subscribe([topic])
        # It waits for the rebalance to be over, which lasts until we leave.
        eventually(lambda: member.poll(0.1) is None and len(clients(apps.cluster, group)) == 2)
        go_on.set()
        eventually(lambda: member.poll(0.1) is None and member.assignment())
        rejoined.result()

    assert [f"{group}-client"] == clients(apps.cluster, group)


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_client_that_starts_before_we_join(apps: Any, assignor: str) -> None:
    """A client that joins just before we do gets its partitions, and we say that it is there."""
    topic, group = create_left(apps)
    before = read(apps.cluster, group)
    quick = {"partition.assignment.strategy": assignor, "heartbeat.interval.ms": 500}
    member = apps.consumer(group, **quick)
    # The second join is the one with a member id: by then the group was seen to be empty.
    held = rejoining(apps.cluster, before, lambda request: getattr(request, "member_id", ""))
    with held as (rejoined, go_on):
        member.subscribe([topic])
        here = [f"{group}-client"]
        eventually(lambda: member.poll(0.1) is None and here == clients(apps.cluster, group))
        go_on.set()
        eventually(lambda: member.poll(0.1) is None and rejoined.done())
        with pytest.raises(Blocked, match="another member joined"):
            rejoined.result()
    eventually(lambda: member.poll(0.1) is None and member.assignment())

    assert here == clients(apps.cluster, group)


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
    with pytest.raises(Blocked, match=why):
        reset_classic_retention(bare_cluster, group)


def test_group_that_is_gone_is_not_made(bare_cluster: Cluster) -> None:
    """A group that was deleted since it was read does not come back."""
    group = Group("gone", GroupType.CLASSIC, GroupState.EMPTY, "consumer")
    with pytest.raises((Blocked, BrokerRefused)):
        reset_classic_retention(bare_cluster, group)

    assert "gone" not in {g.group_id for g in read_snapshot(bare_cluster).groups}


def test_why_a_join_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The member leaves all the same, and what the coordinator says to that is not the reason."""
    asked: list[Any] = []

    def ask(_: channel.GroupChannel, request: Any) -> Any:
        asked.append(request)
        match request:
            case DescribeClassic():
                return ClassicFacts(0, state="Empty", protocol_type="consumer")
            case Join():
                return JoinResult(81 if request.member_id else 79, "an-id")
        return LeaveResult(0, {"an-id": 25})

    monkeypatch.setattr(channel.GroupChannel, "ask", ask)
    group = Group("full", GroupType.CLASSIC, GroupState.EMPTY, "consumer")
    with pytest.raises(BrokerRefused, match="code 81"):
        reset_classic_retention(Cluster("eu", "127.0.0.1:1"), group)

    assert ("an-id",) == asked[-1].member_ids
