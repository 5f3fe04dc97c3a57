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

TIME_IS_OVER = "the time for the run is over"


@pytest.mark.parametrize("action", [Action.HOLD, Action.RELEASE, Action.DELETE_GROUP])
def test_a_group_that_could_not_be_listed_is_unknown(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    """If a broker lists no groups, it is unknown what is held, and what was deleted."""
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
def test_a_pending_commit_is_not_unchanged(
    operator: Operator, apps: Applications, before: Position | None
) -> None:
    """A run that was cut off before its commit was visible has moved offsets."""
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


def test_a_transaction_of_an_application_is_not_waited_for(
    operator: Operator, apps: Applications
) -> None:
    """An application may leave one open for any time."""
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


def test_a_pause_of_another_operator_is_not_that_of_a_run(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that was killed before it held anything is not reported as holding."""
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


@pytest.mark.parametrize("since", [(), (Intent.PAUSE, Intent.RESUME, Intent.RESCUE)])
@pytest.mark.parametrize(
    ("earlier", "later", "refused"),
    [
        (Intent.RESET, Intent.RESET, True),
        (Intent.RESET, Intent.RESCUE, False),
        (Intent.RESCUE, Intent.RESET, False),
        (Intent.PAUSE, Intent.RESET, False),
        (Intent.UNDO, Intent.RESET, True),
    ],
)
def test_plans_that_start_from_offsets_are_blocked_after_an_interrupted_change(
    tmp_path: Path, *, earlier: Intent, since: tuple[Intent, ...], refused: bool, later: Intent
) -> None:
    """A later pause or rescue hides no such run: a shift would be applied twice."""
    first = plan(step(Change(ORDERS, Position(1), Position(1))), intent=earlier)
    for number, intent in enumerate((earlier, *since)):
        _run(replace(first, intent=intent), tmp_path, number, "" if number else TIME_IS_OVER)
    made = replace(first, intent=later, request="another")
    runs = reconcile_runs.last_runs(made, tmp_path)

    with pytest.raises(Blocked, match="run-0") if refused else nullcontext():
        reconcile_runs.refuse_after_a_cut_off_run(made, runs, Approval("", "a reason"))


@pytest.mark.parametrize("by_another_plan", [True, False])
def test_a_plan_is_finished_whatever_changed_some_of_its_groups_since(
    tmp_path: Path, *, by_another_plan: bool
) -> None:
    """Such as its own second run, if that was cut off as well."""
    change = step(Change(ORDERS, Position(9), Position(1)))
    made = plan(replace(change, group_id="a"), replace(change, group_id="b"))
    _run(made, tmp_path, 0, TIME_IS_OVER, done="a")
    since = replace(made, request="another", steps=made.steps[1:]) if by_another_plan else made
    _run(since, tmp_path, 1, "" if by_another_plan else TIME_IS_OVER, done="b")
    runs = reconcile_runs.last_runs(made, tmp_path)

    assert 2 == len(runs)
    assert reconcile_runs.is_finishing(made, runs)


@pytest.mark.parametrize("intent", [Intent.RESET, Intent.UNDO])
@pytest.mark.parametrize("undone_before", [True, False])
def test_an_undo_is_finished_and_an_older_one_does_not_block(
    tmp_path: Path, *, intent: Intent, undone_before: bool
) -> None:
    """Only changes undone since the plan was applied are not made again."""
    change = step(Change(ORDERS, Position(9), Position(1)))
    made = plan(*(replace(change, group_id=name) for name in ("a", "b")), intent=intent)
    if undone_before:
        _run(replace(made, intent=Intent.RESET, request="old"), tmp_path, 0, TIME_IS_OVER, done="b")
        _run(replace(made, intent=Intent.UNDO, request="old undo"), tmp_path, 1, "", done="b")
    _run(made, tmp_path, 2, TIME_IS_OVER, done="a")
    runs = reconcile_runs.last_runs(made, tmp_path)

    assert (2 if undone_before else 1) == len(runs)
    assert reconcile_runs.is_finishing(made, runs)
    another = replace(made, intent=Intent.RESET, request="another")
    with pytest.raises(Blocked, match="run-2") as caught:
        reconcile_runs.refuse_after_a_cut_off_run(another, runs, Approval("", "a reason"))
    assert "finish it" in caught.value.hint


def test_a_partly_undone_plan_is_not_finished(tmp_path: Path) -> None:
    """That would repeat changes that were undone on purpose."""
    change = step(Change(ORDERS, Position(9), Position(1)))
    made = plan(*(replace(change, group_id=name) for name in ("a", "b")))
    _run(made, tmp_path, 0, TIME_IS_OVER, done="b")
    _run(replace(made, intent=Intent.UNDO, steps=made.steps[:1]), tmp_path, 1, "", done="a")
    runs = reconcile_runs.last_runs(made, tmp_path)

    assert [Intent.RESET, Intent.UNDO] == [run.entry.intent for run in runs]
    assert not reconcile_runs.is_finishing(made, runs)
    another = replace(made, request="another")
    with pytest.raises(Blocked) as caught:
        reconcile_runs.refuse_after_a_cut_off_run(another, runs, Approval("", "a reason"))
    assert "finish it" not in caught.value.hint


def test_a_complete_run_is_not_finished_again(tmp_path: Path) -> None:
    """A run that was killed after its last change can only be undone."""
    first = plan(step(Change(ORDERS, Position(1), Position(2))))
    _run(first, tmp_path, 0, TIME_IS_OVER)
    made = plan(step(Change(ORDERS, Position(2), Position(3))))
    runs = reconcile_runs.last_runs(made, tmp_path)

    with pytest.raises(Blocked) as caught:
        reconcile_runs.refuse_after_a_cut_off_run(made, runs, Approval("", "a reason"))
    assert ("undo it" in caught.value.hint, "finish it" in caught.value.hint) == (True, False)


def _run(made: Plan, state: Path, number: int, interrupted: str, done: str = "g") -> None:
    """Record a run that changed one group."""
    run = audit.RunInfo(f"run-{number}", "ana", "here", "a test")
    intent = audit.intent_entry(made, run, NOON)
    statuses = [
        ChangeStatus.DONE if step.group_id == done else ChangeStatus.NOT_TRIED
        for step in made.steps
    ]
    outcome = Outcome(
        run_id=run.run_id,
        fingerprint=made.fingerprint,
        started_at=NOON,
        finished_at=NOON,
        steps=tuple(
            StepOutcome(step.group_id, step.action, status, "", (Result(ORDERS, status),))
            for step, status in zip(made.steps, statuses, strict=True)
        ),
        interrupted=interrupted,
    )
    audit.append(state, intent)
    audit.append(state, audit.outcome_entry(intent, outcome))
