"""What is found out about a run that was cut off."""

from __future__ import annotations

from dataclasses import replace

import pytest
from applications import Applications
from facts import NOON
from guardrail_cases import ORDERS, plan, step
from operators import Operator

from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter
from toolkit.kafka_io.writes.transactional_commit import OffsetsTransaction
from toolkit.model import Problem, TopicPartition, Unread
from toolkit.operate import reconcile_runs
from toolkit.plan import Action, Change, Position
from toolkit.storage import audit


@pytest.mark.parametrize("action", [Action.HOLD, Action.RELEASE, Action.DELETE_GROUP])
def test_a_group_that_was_not_listed_tells_nothing(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    """Where a broker lists no groups, it is not known what is held, and what was deleted."""
    cluster_id = operator.look("none").cluster_id
    changes = [] if action is Action.DELETE_GROUP else [Change(ORDERS, None, None)]
    made = replace(plan(step(*changes, action=action)), cluster_id=cluster_id)
    run = audit.RunInfo("a-run", "ana", "here", "a test")
    audit.append(operator.state, audit.intent_entry(made, run, NOON))
    silent = Problem(Unread.GROUPS, "broker 2 did not answer")
    monkeypatch.setattr(reconcile_runs, "list_groups", lambda _: ([], [silent]))

    found = reconcile_runs.reconcile_under_lock(operator.cluster, cluster_id, operator.state)

    assert [f"{silent.what}: {silent.why}"] == [why for _, why in found.unseen]
    assert [] == found.known


@pytest.mark.parametrize("before", [Position(1), None])
def test_what_a_transaction_is_about_to_commit_is_not_unchanged(
    operator: Operator, apps: Applications, before: Position | None
) -> None:
    """A run that was cut off when its commit had not reached the group yet has moved offsets."""
    place = TopicPartition(apps.create_topic(apps.name("orders"), records=5), 0)
    group, after = apps.name("payments"), Position(3)
    if before:
        apps.commit(group, {place: before.offset})
    cluster_id = operator.look("none").cluster_id
    action = Action.MOVE if before else Action.FIRST_COMMIT
    made = plan(replace(step(Change(place, before, after), action=action), group_id=group))
    run = audit.RunInfo("a-run", "ana", "here", "a test")
    entry = audit.intent_entry(replace(made, cluster_id=cluster_id), run, NOON)
    audit.append(operator.state, entry)

    def look() -> reconcile_runs.ReconciledRuns:
        return reconcile_runs.reconcile_under_lock(operator.cluster, cluster_id, operator.state)

    with connected(operator.cluster) as connection:
        with OffsetsTransaction(connection, group) as transaction:
            transaction.add({place: after})
            assert [reconcile_runs.IN_TRANSACTION] == [why for _, why in look().unseen]
            transaction.commit()
        GroupWriter(connection).wait_for_the_end_of(group, {place: after}, committed=True)

    (found,) = look().known
    assert "1 done" == found.outcome.summary
