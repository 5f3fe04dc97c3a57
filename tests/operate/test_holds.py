"""What is known of a group before a hold is planned, and what is said of its partitions."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from guardrail_cases import ORDERS, case, plan, step
from held import holder
from live_groups import LiveGroup

from toolkit.errors import BrokerRefused, HoldLost
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.group_settings import OF_A_BROKER, OF_A_GROUP, read_group_settings
from toolkit.kafka_io.read_plan_facts import read_plan_facts
from toolkit.model import (
    CaptureMode,
    Cluster,
    Group,
    GroupState,
    GroupType,
    HoldNote,
    TopicPartition,
)
from toolkit.operate import hold_steps
from toolkit.operate.hold_facts import sample_hold_facts, settings_of
from toolkit.operate.hold_steps import HoldExecutor, _partition_result
from toolkit.operate.orphaned_holds import OrphanedHold
from toolkit.plan import Action, Change, ChangeStatus
from toolkit.planning.holds.hold_context import HoldContext, HoldSettings, HoldTerms
from toolkit.planning.holds.hold_costs import costs
from toolkit.planning.selection.snapshot_index import SnapshotIndex
from toolkit.storage.audit import RunInfo
from toolkit.storage.hold_files import HoldRecord
from toolkit.storage.state_folder import Operator

READ = {
    "group.consumer.heartbeat.interval.ms": "5000",
    "consumer.heartbeat.interval.ms": "8000",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.max.size": "500",
    "group.max.size": "200",
    "offsets.retention.minutes": "1440",
}
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("kind", "read", "expected"),
    [
        (GroupType.CONSUMER, READ, HoldSettings(8.0, survives_s=45.0, max_size=500, retention=DAY)),
        (GroupType.CLASSIC, READ, HoldSettings(max_size=200, retention=DAY)),
        (GroupType.CONSUMER, {}, HoldSettings()),
    ],
)
def test_settings_of_a_group(kind: GroupType, read: dict[str, str], expected: HoldSettings) -> None:
    """A group's own setting precedes that of its brokers; an unknown setting stays unknown."""
    assert expected == settings_of(Group("g", kind, GroupState.STABLE), read)


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"is_set": True, "setting": "60000"}, "set it back to 60000"),
        ({"is_set": True, "setting": None}, "delete it"),
        ({"is_set": False, "setting": None}, ""),
    ],
)
def test_a_setting_left_by_a_dead_keeper_is_reported(members: dict[str, Any], says: str) -> None:
    """A Streams group starts late until its delay is restored."""
    ends = {"wanted": (), "prefer": CaptureMode.LOSSLESS, "note": HoldNote(), "members": members}
    record = HoldRecord("r", Cluster("c", "x"), "id", "g", GroupType.STREAMS, "", **ends)
    told = OrphanedHold(record, frozenset()).in_words

    assert told.endswith(f"is left, {says}, with kafka-configs.sh" if says else "the partitions")
    other = OrphanedHold(record, frozenset(), has_another=True).in_words
    assert other.endswith("The group has another hold now")


def test_the_settings_that_a_broker_shows(bare_cluster: Cluster, kafka_39: Cluster) -> None:
    """A broker without group settings is no error."""
    with Connection(bare_cluster) as connection:
        assert {*OF_A_BROKER, *OF_A_GROUP} == read_group_settings(connection, "g").keys()
    with Connection(kafka_39) as connection:
        assert "offsets.retention.minutes" in read_group_settings(connection, "g")


@pytest.mark.live("consumers run")
def test_redeliveries_are_estimated_from_two_samples(
    bare_cluster: Cluster, live_group: Any
) -> None:
    """If an owner would be evicted, the rate is measured; a lossless capture needs none."""
    live: LiveGroup = live_group(bare_cluster, "librdkafka-consumer", per_second=20)
    assert sample_hold_facts(bare_cluster, live.group).earlier is None

    beside = sample_hold_facts(bare_cluster, live.group, prefer=CaptureMode.QUIET)
    facts = read_plan_facts(bare_cluster, groups=[live.group])
    (group,) = facts.groups
    place = TopicPartition(live.topics[0], 1)
    case = HoldContext(SnapshotIndex(facts), group, (place,), HoldTerms(CaptureMode.QUIET), beside)

    assert Operator.here() == beside.by
    assert case.recipe
    announced = costs(case, case.recipe).repeats
    (owner,) = case.evicted
    # At least what is written between two commits, and not more than a minute's.
    assert announced
    assert len(owner.assignment) * 20 < announced < len(owner.assignment) * 20 * 60


def test_a_keeper_that_hangs_is_reported_with_its_other_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may wait for a busy member, and resume the one partition when that has joined."""

    def be_late(*_: object) -> None:
        raise HoldLost("the keeper does not respond: timed out")

    monkeypatch.setattr(hold_steps, "release_by_keeper", be_late)
    made = plan(step(Change(ORDERS, None, None), action=Action.RELEASE))
    run = RunInfo("a-run", "ana", "here", "a test")
    releasing = HoldExecutor(case(made), Cluster("eu", "x:1"), run, state=tmp_path, stopped=str)

    with pytest.raises(BrokerRefused, match=r"^the keeper .* timed out; its holder .* orders:1,"):
        releasing.release(made.steps[0], {ORDERS: holder(0, 1)})


@pytest.mark.parametrize(
    ("was", "is_", "meant", "why", "status"),
    [
        (False, True, True, "", ChangeStatus.DONE),
        (True, False, False, "", ChangeStatus.DONE),
        (True, False, False, "the keeper did not answer", ChangeStatus.DONE),
        (False, False, True, "not captured", ChangeStatus.REFUSED),
        (True, True, False, "no right", ChangeStatus.REFUSED),
        (False, True, True, "its process ended", ChangeStatus.FAILED),
        (False, False, True, "", ChangeStatus.FAILED),
        (True, True, False, "", ChangeStatus.FAILED),
        (True, False, True, "its process ended", ChangeStatus.FAILED),
    ],
)
def test_the_result_of_a_partition(
    *, was: bool, is_: bool, meant: bool, why: str, status: ChangeStatus
) -> None:
    """Done is only what is as planned, and for a hold only if nothing failed."""
    assert status is _partition_result(was=was, is_=is_, meant=meant, why=why)[0]
