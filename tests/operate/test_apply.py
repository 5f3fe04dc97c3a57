"""What applying a plan does to a real cluster, says of it, and leaves behind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from applications import Applications
from operators import Operator
from plans_of_groups import Orders, rename, with_long_metadata

from toolkit.kafka_io.client.connection import Connection
from toolkit.model import Cluster, GroupState, Problem, TopicPartition, Unread
from toolkit.model.commit_columns import CommitColumns
from toolkit.operate import apply_steps
from toolkit.plan import Action, ChangeStatus, Position, Result, StepOutcome
from toolkit.planning.changes.delete_groups import plan_delete_groups
from toolkit.planning.changes.delete_offsets import plan_delete_offsets
from toolkit.storage import audit
from toolkit.storage.undo_records import read_undo_record


@pytest.mark.starts("a broker")
@pytest.mark.parametrize("version", ["bare_cluster", "kafka_39"])
def test_a_reset_commits_offset_and_epoch(
    version: str,
    request: pytest.FixtureRequest,
    applications: Callable[[Cluster], Applications],
    tmp_path: Path,
) -> None:
    """Both are on the cluster as planned, and read back; the metadata is cleared."""
    operator = Operator(request.getfixturevalue(version), tmp_path)
    apps = applications(operator.cluster)
    group = apps.name("payments")
    topic = apps.create_topic(apps.name("orders"), partitions=2, records=9)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    operator.commit(group, {first: Position(7, 0, "a note"), second: Position(5)})

    outcome = operator.apply(operator.reset(group, to=3))

    expected = {first: Position(3, 0), second: Position(3, 0)}
    assert {group: expected} == operator.held(group)
    results = tuple(Result(p, ChangeStatus.DONE, "", position) for p, position in expected.items())
    assert (StepOutcome(group, Action.COMMIT, ChangeStatus.DONE, "", results),) == outcome.steps


def test_the_records_of_a_run(operator: Operator, apps: Applications, orders: Orders) -> None:
    """The undo record is the plan; the audit log has who, why, before, after and the result."""
    group = apps.name("payments")
    operator.commit(group, {orders[0]: 7})
    plan = operator.reset(group)

    outcome = operator.apply(plan, reason="a poison record")

    assert plan == read_undo_record(operator.state, outcome.run_id)
    intent, ended = operator.log
    assert [audit.Event.INTENT, audit.Event.OUTCOME] == [intent.event, ended.event]
    assert (outcome.run_id, "a poison record") == (intent.run.run_id, intent.run.reason)
    assert (intent.run, plan.fingerprint) == (ended.run, intent.fingerprint)
    change = audit.AuditChange(
        orders[0], Position(7), Position(0, 0), "", ChangeStatus.DONE, Position(0, 0)
    )
    assert (change,) == ended.steps[0].changes


def test_one_refused_partition_does_not_hide_the_others(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """A partition that a broker refuses is reported alone; the others are done."""
    group = apps.name("payments")
    operator.commit(group, dict.fromkeys(orders, 7))

    outcome = operator.apply(with_long_metadata(operator.reset(group), orders[1]))

    (told,) = outcome.steps
    assert (ChangeStatus.FAILED, "1 done, 1 refused") == (told.status, outcome.summary)
    assert [ChangeStatus.DONE, ChangeStatus.REFUSED] == [result.status for result in told.results]
    assert "code 12" in told.results[1].why
    assert {group: {orders[0]: Position(0, 0), orders[1]: Position(7)}} == operator.held(group)
    assert {ChangeStatus.DONE, ChangeStatus.REFUSED} == {
        c.status for c in operator.log[-1].steps[0].changes
    }


def test_a_group_that_cannot_be_read_is_left_out_alone(
    operator: Operator, apps: Applications, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried first and alone; the groups after it are changed."""
    first, *others = sorted(apps.name("payments") for _ in range(3))
    for group in (first, *others):
        operator.commit(group, {orders[0]: 7})
    plan = operator.reset(first, *others)
    read = apply_steps.read_commits

    def fail_for_first(connection: Connection, group_ids: list[str]) -> Any:
        if group_ids == [first]:
            return CommitColumns(), [Problem(Unread.COMMITS, "coordinator is moving", first)]
        return read(connection, group_ids)

    monkeypatch.setattr(apply_steps, "read_commits", fail_for_first)
    outcome = operator.apply(plan)

    statuses = {step.group_id: step.status for step in outcome.steps}
    done = dict.fromkeys(others, ChangeStatus.DONE)
    assert {first: ChangeStatus.NOT_TRIED, **done} == statuses
    assert "" == outcome.interrupted


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_unsubscribed_offsets_of_a_live_group_are_deleted(
    operator: Operator, apps: Applications, orders: Orders, protocol: str
) -> None:
    """The group stays live meanwhile."""
    read = apps.create_topic(apps.name("read"))
    group = apps.name("payments")
    operator.commit(group, {TopicPartition(read, 0): 0, orders[0]: 7, orders[1]: 7})
    apps.join(group, [read], protocol=protocol)
    plan = plan_delete_offsets(operator.facts(group), groups=[group], topics=[orders[0].topic])

    outcome = operator.apply(plan)

    assert (True, "2 done") == (outcome.is_done, outcome.summary)
    assert {group: {TopicPartition(read, 0): Position(0)}} == operator.held(group)
    assert [GroupState.STABLE] == [found.state for found in operator.facts(group).groups]


def test_groups_are_deleted_one_by_one(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """Each group has its own result, also one that never committed; no group is left."""
    full, bare = apps.name("full"), apps.name("bare")
    operator.commit(full, {orders[0]: 7})
    apps.join(bare, [orders[0].topic]).close()
    apps.eventually(lambda: operator.facts(bare).groups[0].state is GroupState.EMPTY)
    plan = plan_delete_groups(operator.facts(full, bare), groups=[full, bare])

    outcome = operator.apply(plan)

    told = {step.group_id: (step.action, step.status) for step in outcome.steps}
    assert dict.fromkeys([full, bare], (Action.DELETE_GROUP, ChangeStatus.DONE)) == told
    assert {} == operator.held(full, bare)


def test_a_failed_copy_keeps_the_original(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """If one offset could not be copied, the step that deletes the group is not tried."""
    source = apps.name("old")
    operator.commit(source, dict.fromkeys(orders, 7))

    outcome = operator.apply(with_long_metadata(rename(operator, source), orders[1]))

    assert [ChangeStatus.FAILED, ChangeStatus.NOT_TRIED] == [step.status for step in outcome.steps]
    assert (
        f"skipped, because the step for group {source}-new was not done"
        == outcome.steps[1].results[0].why
    )
    assert dict.fromkeys(orders, Position(7)) == operator.held(source)[source]
