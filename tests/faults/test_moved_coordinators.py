"""Coordinators that move, or are lost, while their groups are changed."""

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from applications import PATIENCE_S, Applications, eventually
from brokers import UNCLOSED_SOCKETS, TwoBrokers, kill, restart
from clients import AdminClient
from coordinators import coordinate_by, offsets_partitions, reassign
from main_program import call_main
from operators import Operator
from payment_groups import AT_0, AT_7, PaymentGroups, StartOperator

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.coordinators import find_coordinators
from toolkit.kafka_io.client.leaders import ask_leaders, described_once, find_leaders
from toolkit.kafka_io.groups.commits import read_commits
from toolkit.kafka_io.groups.earlier_topics import WHY as EARLIER
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.logs.log_offsets import list_offsets_request
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter, WriteResult
from toolkit.model import Cluster, Commit, Problem, TopicPartition, Unread
from toolkit.plan import ChangeStatus, Plan
from toolkit.planning.changes.delete_groups import plan_delete_groups
from toolkit.sandbox.broker import Broker
from toolkit.spark.arrow import as_frame
from toolkit.spark.ask import ask_logs
from toolkit.spark.schemas import POSITIONS

pytestmark = [pytest.mark.faults("coordinators move, and a broker is lost"), UNCLOSED_SOCKETS]


@pytest.fixture
def payments(
    restarted_pair: TwoBrokers,
    applications: Callable[[Cluster], Applications],
    start_operator: StartOperator,
    tmp_path: Path,
) -> PaymentGroups:
    """Return twelve groups on two brokers, of which the second may be lost."""
    operator = Operator(restarted_pair[0], tmp_path / "state")
    apps = applications(operator.cluster)
    return PaymentGroups.create(operator, apps, start_operator, count=12)


@pytest.fixture
def second(restarted_pair: TwoBrokers) -> Broker:
    return restarted_pair[1]


def coordinate(payments: PaymentGroups, *choices: Sequence[int]) -> None:
    """Move the groups to some brokers, and wait until each is listed by its coordinator."""
    coordinate_by(payments.operator.cluster, *choices)
    eventually(lambda: not payments.operator.facts(*payments.names).problems)


def shut_down(broker: Broker) -> None:
    """Shut a broker down, and wait until it has moved its leaders and ended."""
    assert broker.pid
    os.kill(broker.pid, signal.SIGTERM)
    eventually(lambda: broker.pid is None)


def delete(payments: PaymentGroups) -> Plan:
    return plan_delete_groups(payments.operator.facts(*payments.names), groups=payments.names)


@pytest.mark.parametrize("make", [PaymentGroups.reset, delete], ids=["reset", "delete"])
def test_coordinators_that_move(
    payments: PaymentGroups, make: Callable[[PaymentGroups], Plan]
) -> None:
    """While every group moves to another broker, each is found there, and all are done."""
    cluster = payments.operator.cluster
    coordinate(payments, (1,))

    outcome = payments.apply(make(payments), after_first=lambda: coordinate_by(cluster, (2,)))

    assert "12 done" == outcome.summary
    after = {} if make is delete else payments.at(AT_0)
    assert eventually(lambda: after == payments.held)
    assert {2} == {partition.leader for partition in offsets_partitions(payments.apps.admin)}


def test_leaders_that_moved(payments: PaymentGroups) -> None:
    """If another broker leads a partition by the time of the request, that one is asked."""
    apps = payments.apps
    of_second = apps.create_topic(apps.name("quotes"), records=3, broker=2)
    partitions = [payments.orders, TopicPartition(of_second, 0)]
    with Connection(payments.operator.cluster) as connection:
        leaders, _ = find_leaders(connection, partitions)
        moved = {
            one: leader._replace(node_id=3 - leader.node_id) for one, leader in leaders.items()
        }

        replies = list(ask_leaders(connection, moved, first_and_last))

    assert partitions == sorted(leaders)
    assert [("first", 0), ("last", 10), ("first", 0), ("last", 3)] == [
        (one.about, one.entry.offset)
        for one in sorted(replies, key=lambda one: (one.partition, one.about))
    ]


def test_a_leader_that_moves_while_facts_are_read(payments: PaymentGroups) -> None:
    """A cached topic description is dropped when a leader has moved."""
    apps, place = payments.apps, payments.orders
    with Connection(payments.operator.cluster) as connection, described_once():
        then, _ = find_leaders(connection, [place])
        reassign(payments.operator.cluster, place.topic, [[3 - then[place].node_id]])
        eventually(lambda: leader_of(apps.admin, place) == 3 - then[place].node_id)
        kept, _ = find_leaders(connection, [place])
        replies = list(ask_leaders(connection, kept, first_and_last))
        now, _ = find_leaders(connection, [place])

    assert (then, 3 - then[place].node_id) == (kept, now[place].node_id)
    assert [("first", 0), ("last", 10)] == [(one.about, one.entry.offset) for one in replies]


def leader_of(admin: AdminClient, place: TopicPartition) -> int:
    topic = admin.list_topics(place.topic, timeout=PATIENCE_S).topics[place.topic]
    return int(topic.partitions[place.partition].leader)


def first_and_last(partitions: Sequence[TopicPartition]) -> Iterable[tuple[str, Any]]:
    for about, at in (("first", -2), ("last", -1)):
        yield about, list_offsets_request(dict.fromkeys(partitions, at), timeout_s=15)


def test_a_broker_that_is_shut_down(payments: PaymentGroups, second: Broker) -> None:
    """Groups whose coordinator shuts down are changed at the one that takes over."""
    coordinate_by(payments.operator.cluster, (2,))
    coordinate(payments, (2, 1))

    outcome = payments.apply(payments.reset(), after_first=lambda: shut_down(second))

    assert "12 done" == outcome.summary
    assert eventually(lambda: payments.at(AT_0) == payments.held)


def test_a_broker_that_is_back_since_the_connection_was_opened(
    payments: PaymentGroups, second: Broker
) -> None:
    """Its groups are listed, read and changed, though the connection did not know it."""
    cluster, names = payments.operator.cluster, payments.names
    coordinate(payments, (2,))
    shut_down(second)
    eventually(lambda: len(payments.apps.admin.list_topics(timeout=5).brokers) == 1)
    with ExitStack() as opened:
        lists, reads, writes = (opened.enter_context(Connection(cluster)) for _ in range(3))
        restart(second)
        eventually(lambda: not payments.operator.facts(*names).problems)

        listed, problems = list_groups(lists)
        commits, unread = read_commits(reads, names)
        result = GroupWriter(writes).commit(names[0], {payments.orders: AT_0})

    assert ([], []) == (problems, unread)
    assert {*names} <= {group.group_id for group in listed}
    assert {*names} == {commit.group_id for commit in commits}
    assert WriteResult() == result


def test_a_broker_that_is_lost_with_its_groups(payments: PaymentGroups, second: Broker) -> None:
    """Groups without a coordinator are reported with the reason; nothing is left open."""
    coordinate(payments, (1,), (2,))

    outcome = payments.apply(payments.reset(), after_first=lambda: kill(second))

    assert ChangeStatus.DONE == outcome.steps[0].status
    done = [step.group_id for step in outcome.steps if step.status is ChangeStatus.DONE]
    rest = [step for step in outcome.steps if step.group_id not in done]
    assert {ChangeStatus.NOT_TRIED} == {step.status for step in rest}, outcome
    assert all(result.why for step in rest for result in step.results)
    assert ["intent", "outcome"] == payments.events
    for group, held in payments.held.items():
        assert held in ({}, {payments.orders: AT_0 if group in done else AT_7})


def test_a_topic_that_is_recreated_while_the_coordinator_is_down(
    payments: PaymentGroups, second: Broker, tmp_path: Path
) -> None:
    """The committed offset of the earlier topic is still there, and its lag is unknown."""
    coordinate(payments, (2,))
    topic, group, cluster = payments.orders.topic, payments.names[0], payments.operator.cluster
    assert () == read_snapshot(cluster, groups=[group], commit_times=True).problems

    shut_down(second)
    eventually(lambda: len(payments.apps.admin.list_topics(timeout=5).brokers) == 1)
    payments.apps.delete_topic(topic)
    payments.apps.create_topic(topic, records=10)
    restart(second)
    eventually(lambda: not payments.operator.facts(*payments.names).problems)

    found = read_snapshot(cluster, groups=[group], commit_times=True)
    assert [7] == [commit.offset for commit in found.commits]
    assert (Problem(Unread.LAG, EARLIER, group, *payments.orders),) == found.problems
    assert not [finding for finding in payments.operator.reset(group).findings if finding.blocks]
    asked = ["lag", "--cluster", payments.apps.address, "--group", group, "--commit-times"]
    done = call_main(asked, folder=tmp_path)
    assert 4 == done.returncode
    assert EARLIER in done.stderr
    rows = log_facts_of(cluster, found.commits)
    assert [(EARLIER, True, True)] == [
        (row["log_problem"], pd.isna(row["log_start"]), pd.isna(row["log_end"])) for row in rows
    ]


def log_facts_of(cluster: Cluster, commits: Iterable[Commit]) -> list[dict[str, Any]]:
    """Return what the task of the fleet job finds out about the logs of commits."""
    columns = {name: [getattr(one, name) for one in commits] for name in POSITIONS.names[:2]}
    columns |= {"committed": [one.offset for one in commits]}
    columns |= {"topic_id": [one.topic_id for one in commits]}
    positions = as_frame(pa.table(columns, schema=POSITIONS))
    return ask_logs(cluster, positions, [60]).astype(object).to_dict("records")


def test_requests_that_any_broker_may_answer(restarted_pair: TwoBrokers) -> None:
    """They succeed while one is lost, also before the client has noticed that."""
    cluster, second = restarted_pair
    with Connection(cluster) as connection:
        for _ in range(10):
            find_coordinators(connection, ["orders"])
        kill(second)
        found = [len(find_coordinators(connection, ["orders"])) for _ in range(300)]

    assert {1} == {*found}
