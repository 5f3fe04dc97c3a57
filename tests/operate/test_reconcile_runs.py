"""What is found out about a run that was cut off."""

from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from applications import Applications
from facts import NOON, live, member
from guardrail_cases import ORDERS, plan, step
from held import holder
from operators import Operator

from toolkit.errors import Blocked
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter
from toolkit.kafka_io.writes.transactional_commit import OffsetsTransaction
from toolkit.model import HoldNote, Problem, TopicPartition, Unread
from toolkit.operate import reconcile_runs
from toolkit.plan import (
    Action,
    Change,
    ChangeStatus,
    Intent,
    Outcome,
    Plan,
    Position,
    Result,
    StepOutcome,
)
from toolkit.plan.approvals import Approval
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

    assert [f"{silent.what}: {silent.why}"] == [one.why for one in found.unseen]
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
    made = replace(made, cluster_id=cluster_id)
    audit.append(operator.state, audit.intent_entry(made, run, datetime.now(UTC)))

    def look() -> reconcile_runs.ReconciledRuns:
        return reconcile_runs.reconcile_under_lock(operator.cluster, cluster_id, operator.state)

    with connected(operator.cluster) as connection:
        with OffsetsTransaction(connection, group) as transaction:
            transaction.add({place: after})
            unseen = look().unseen
            assert [reconcile_runs.IN_TRANSACTION] == [one.why for one in unseen]
            for intent in (Intent.PAUSE, Intent.RESUME, Intent.UNDO):
                reconcile_runs.refuse_over_unseen_runs(replace(made, intent=intent), unseen)
            with pytest.raises(Blocked, match="cannot be determined now"):
                reconcile_runs.refuse_over_unseen_runs(made, unseen)
            transaction.commit()
        GroupWriter(connection).wait_for_the_end_of(group, {place: after}, committed=True)

    (found,) = look().known
    assert "1 done" == found.outcome.summary


def test_a_transaction_that_is_no_runs_is_not_waited_for(
    operator: Operator, apps: Applications
) -> None:
    """An application may leave one open for as long as it likes."""
    place = TopicPartition(apps.create_topic(apps.name("orders"), records=5), 0)
    group = apps.name("payments")
    apps.commit(group, {place: 1})
    cluster_id = operator.look("none").cluster_id
    before = operator.held(group)[group][place]
    changes = step(Change(place, before, Position(3)), action=Action.MOVE)
    made = replace(plan(replace(changes, group_id=group)), cluster_id=cluster_id)
    run = audit.RunInfo("a-run", "ana", "here", "a test")
    earlier = datetime.now(UTC) - timedelta(minutes=6)
    audit.append(operator.state, audit.intent_entry(made, run, earlier))

    producer = apps.pending(group, 2, place)
    found = reconcile_runs.reconcile_under_lock(operator.cluster, cluster_id, operator.state)
    producer.abort_transaction()

    assert ([], ["1 not tried"]) == (found.unseen, [one.outcome.summary for one in found.known])


def test_a_pause_by_somebody_else_is_not_what_a_run_has_done(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was killed before it held anything is not said to hold what another pauses."""
    cluster_id = operator.look("none").cluster_id
    made = replace(
        plan(step(Change(ORDERS, None, None), action=Action.HOLD)), cluster_id=cluster_id
    )
    shown = live("g", member("orders"), holder(ORDERS.partition, note=HoldNote("bob", "there")))
    for name, answer in (("list_groups", ([shown], [])), ("read_commits", ([], []))):
        monkeypatch.setattr(reconcile_runs, name, lambda *_, answer=answer: answer)
    described = [replace(shown, described=True)]
    monkeypatch.setattr(reconcile_runs, "describe_groups", lambda *_: described)

    for who, summary in (("ana", "1 not tried"), ("bob", "1 done")):
        run = audit.RunInfo(f"run-{who}", who, "there", "a test")
        audit.append(operator.state, audit.intent_entry(made, run, NOON))
        found = reconcile_runs.reconcile_under_lock(operator.cluster, cluster_id, operator.state)
        assert [summary] == [one.outcome.summary for one in found.known]


@pytest.mark.parametrize("later", [Intent.RESCUE, Intent.RESET])
@pytest.mark.parametrize(("earlier", "refused"), [(Intent.RESCUE, False), (Intent.RESET, True)])
def test_an_interrupted_rescue_has_changed_no_offset(
    tmp_path: Path, *, earlier: Intent, refused: bool, later: Intent
) -> None:
    """It can be repeated, and nothing else starts from what it changed."""
    first = plan(step(Change(ORDERS, Position(1), Position(1))), intent=earlier)
    _interrupted(first, tmp_path)
    made = replace(first, intent=later, request="another")
    runs = reconcile_runs.last_runs(made, tmp_path)

    assert [True] == [run.ended_early for run in runs]
    with pytest.raises(Blocked) if refused else nullcontext():
        reconcile_runs.refuse_after_a_cut_off_run(made, runs, Approval("", "a reason"))


def _interrupted(made: Plan, state: Path) -> None:
    """Record a run that was interrupted after its first change."""
    intent = audit.intent_entry(made, audit.RunInfo("a-run", "ana", "here", "a test"), NOON)
    done = (Result(ORDERS, ChangeStatus.DONE),)
    outcome = Outcome(
        run_id="a-run",
        fingerprint=made.fingerprint,
        started_at=NOON,
        finished_at=NOON,
        steps=(StepOutcome("g", Action.COMMIT, ChangeStatus.DONE, "", done),),
        interrupted="the time for the run is over",
    )
    audit.append(state, intent)
    audit.append(state, audit.outcome_entry(intent, outcome))
