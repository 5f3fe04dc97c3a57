"""Coordinators that move, or are lost, while their groups are changed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from applications import Applications, eventually
from brokers import kill, restart
from coordinators import coordinate_by, offsets_partitions
from main_program import call_main
from operators import Operator

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.coordinators import find_coordinators
from toolkit.kafka_io.client.leaders import ask_leaders, find_leaders
from toolkit.kafka_io.groups.earlier_topics import WHY as EARLIER
from toolkit.kafka_io.logs.log_offsets import list_offsets_request
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, Commit, Problem, TopicPartition
from toolkit.plan import ChangeStatus, Plan, Position, StepOutcome
from toolkit.planning.changes.delete_groups import plan_delete_groups
from toolkit.sandbox.broker import Broker
from toolkit.spark.arrow import as_frame
from toolkit.spark.ask import ask_logs
from toolkit.spark.schemas import POSITIONS

# Of sockets that could not connect: see `_left_over`.
pytestmark = [
    pytest.mark.faults("coordinators move, and a broker is lost"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

THERE, BACK = Position(7), Position(0, 0)


class Place:
    """Twelve groups on a cluster of two brokers, of which the second may be lost."""

    def __init__(self, operator: Operator, apps: Applications, second: Broker) -> None:
        """Make the groups."""
        self.operator, self.apps, self.second = operator, apps, second
        self.orders = TopicPartition(apps.create_topic(apps.name("orders"), records=10), 0)
        self.groups = sorted(apps.name("payments") for _ in range(12))
        for group in self.groups:
            operator.commit(group, {self.orders: 7})

    def coordinated_by(self, *choices: Sequence[int]) -> None:
        """Move the groups to some brokers; of several choices each gets its share."""
        coordinate_by(self.operator.cluster, *choices)

    def lose_second(self) -> None:
        """End the second broker as a power cut would."""
        kill(self.second)

    def shut_second_down(self) -> None:
        """Shut the second broker down, and wait until it has moved its leaders and ended."""
        pid = self.second.pid
        assert pid
        os.kill(pid, signal.SIGTERM)
        eventually(lambda: self.second.pid is None)

    def wait(self) -> None:
        """Wait until every group is listed by the broker that coordinates it now."""
        eventually(lambda: not self.operator.facts(*self.groups).problems)

    def after_first(self, plan: Plan, act: Callable[[], object]) -> Callable[[StepOutcome], None]:
        """Return what acts once the first step of a plan is done."""

        def on_step(outcome: StepOutcome) -> None:
            if outcome.group_id == plan.steps[0].group_id:
                act()

        return on_step


@pytest.fixture
def place(
    restarted_pair: tuple[Cluster, Broker],
    applications: Callable[[Cluster], Applications],
    tmp_path: Path,
) -> Place:
    """Return groups on two brokers."""
    cluster, second = restarted_pair
    return Place(Operator(cluster, tmp_path / "state"), applications(cluster), second)


def reset(place: Place) -> Plan:
    """Plan a reset of all groups."""
    place.wait()
    return place.operator.reset(*place.groups)


def delete(place: Place) -> Plan:
    """Plan the deletion of all groups."""
    place.wait()
    return plan_delete_groups(place.operator.facts(*place.groups), groups=place.groups)


@pytest.mark.parametrize("make", [reset, delete])
def test_coordinators_that_move(place: Place, make: Callable[[Place], Plan]) -> None:
    """While every group moves to another broker, each is found where it is, and all are done."""
    place.coordinated_by((1,))
    plan = make(place)
    act = place.after_first(plan, lambda: place.coordinated_by((2,)))

    outcome = place.operator.apply(plan, on_step=act)

    assert "12 done" == outcome.summary
    after = {group: {place.orders: BACK} for group in place.groups} if make is reset else {}
    assert eventually(lambda: after == place.operator.held(*place.groups))
    assert {2} == {partition.leader for partition in offsets_partitions(place.apps.admin)}


def test_leaders_that_moved(place: Place) -> None:
    """Who is asked although another broker leads the partition by then: that one is asked."""
    of_second = place.apps.create_topic(place.apps.name("quotes"), records=3, broker=2)
    partitions = [place.orders, TopicPartition(of_second, 0)]
    with Connection(place.operator.cluster) as connection:
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


def first_and_last(partitions: Sequence[TopicPartition]) -> Iterable[tuple[str, Any]]:
    """Make requests for where logs begin and end."""
    for about, at in (("first", -2), ("last", -1)):
        yield about, list_offsets_request(dict.fromkeys(partitions, at))


def test_a_broker_that_is_shut_down(place: Place) -> None:
    """Groups whose coordinator leaves in good order are done at the one that takes over."""
    place.coordinated_by((2,))
    place.coordinated_by((2, 1))
    plan = reset(place)

    outcome = place.operator.apply(plan, on_step=place.after_first(plan, place.shut_second_down))

    assert "12 done" == outcome.summary
    after = {group: {place.orders: BACK} for group in place.groups}
    assert eventually(lambda: after == place.operator.held(*place.groups))


def test_a_broker_that_is_lost_with_its_groups(place: Place) -> None:
    """Groups that nobody coordinates any more are told with the reason; nothing is left open."""
    place.coordinated_by((1,), (2,))
    plan = reset(place)

    outcome = place.operator.apply(plan, on_step=place.after_first(plan, place.lose_second))

    assert ChangeStatus.DONE == outcome.steps[0].status
    done = [step.group_id for step in outcome.steps if step.status is ChangeStatus.DONE]
    rest = [step for step in outcome.steps if step.group_id not in done]
    assert {ChangeStatus.NOT_TRIED} == {step.status for step in rest}, outcome
    assert all(result.why for step in rest for result in step.results)
    assert ["intent", "outcome"] == [str(entry.event) for entry in place.operator.log]
    for group, held in place.operator.held(*place.groups).items():
        assert held in ({}, {place.orders: BACK if group in done else THERE})


def test_a_topic_that_is_recreated_while_the_coordinator_is_down(
    place: Place, tmp_path: Path
) -> None:
    """The committed offset of the earlier topic is still there, and its lag is called unknown."""
    place.coordinated_by((2,))
    place.wait()
    topic, (group, *_) = place.orders.topic, place.groups
    assert () == read_snapshot(place.operator.cluster, groups=[group], commit_times=True).problems

    place.shut_second_down()
    eventually(lambda: len(place.apps.admin.list_topics(timeout=5).brokers) == 1)
    place.apps.delete_topic(topic)
    place.apps.create_topic(topic, records=10)
    restart(place.second)
    place.wait()

    found = read_snapshot(place.operator.cluster, groups=[group], commit_times=True)
    assert [7] == [commit.offset for commit in found.commits]
    assert (Problem("lag", EARLIER, group, *place.orders),) == found.problems
    assert not [finding for finding in place.operator.reset(group).findings if finding.blocks]
    asked = ["lag", "--cluster", place.apps.address, "--group", group, "--commit-times"]
    done = call_main(asked, folder=tmp_path)
    assert 4 == done.returncode
    assert EARLIER in done.stderr
    told = log_facts_of(place.operator.cluster, found.commits)
    assert [(EARLIER, True, True)] == [
        (row["log_problem"], pd.isna(row["log_start"]), pd.isna(row["log_end"])) for row in told
    ]


def log_facts_of(cluster: Cluster, commits: Iterable[Commit]) -> list[dict[str, Any]]:
    """Return what the task of the fleet job finds out about the logs of commits."""
    columns = {name: [getattr(one, name) for one in commits] for name in POSITIONS.names[:2]}
    columns |= {"committed": [one.offset for one in commits]}
    columns |= {"topic_id": [one.topic_id for one in commits]}
    positions = as_frame(pa.table(columns, schema=POSITIONS))
    return ask_logs(cluster, positions, [60]).astype(object).to_dict("records")


def test_what_any_broker_may_answer(restarted_pair: tuple[Cluster, Broker]) -> None:
    """It is answered while one is lost, also when the client has not noticed that yet."""
    cluster, second = restarted_pair
    with Connection(cluster) as connection:
        for _ in range(10):
            find_coordinators(connection, ["orders"])
        kill(second)
        found = [len(find_coordinators(connection, ["orders"])) for _ in range(300)]

    assert {1} == {*found}
