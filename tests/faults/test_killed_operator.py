"""What is left when the process that applies a plan is killed, and how the next one goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from applications import Applications, eventually
from operators import Operator

from toolkit.errors import Blocked
from toolkit.model import TopicPartition
from toolkit.operate.reconcile_runs import reconcile_runs
from toolkit.plan import ChangeStatus, Position
from toolkit.storage import audit
from toolkit.storage.formats.file_lock import exclusively
from toolkit.storage.undo_records import list_runs, read_undo_record

# Of sockets that could not connect: see `_left_over`.
pytestmark = [
    pytest.mark.faults("operators and a broker are killed"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

THERE, BACK = Position(7), Position(0, 0)
StartOperator = Callable[..., Any]


def events(operator: Operator) -> list[str]:
    """Return what the audit log tells of, in its order."""
    return [str(entry.event) for entry in operator.log]


def killed_after_intent(
    operator: Operator, breakable: Any, start_operator: StartOperator, plan: Any
) -> None:
    """Kill an operator who has recorded what is about to be done, and has done nothing."""
    operator.state.mkdir()
    with exclusively(operator.state / "audit.lock"):
        running = start_operator(operator, plan)
        eventually(lambda: list_runs(operator.state))  # written after all checks
        frozen = breakable.frozen()
        frozen.__enter__()
    try:
        eventually(lambda: audit.unfinished(operator.state))
        running.kill()
    finally:
        frozen.__exit__(None, None, None)


def test_before_its_intent(
    operator: Operator, start_operator: StartOperator, groups: list[str], orders: TopicPartition
) -> None:
    """A run that never announced itself changed nothing and is in nobody's way."""
    plan = operator.reset(*groups)
    operator.state.mkdir()
    with exclusively(operator.state / "audit.lock"):
        running = start_operator(operator, plan)
        eventually(lambda: list_runs(operator.state))
        running.kill()

    assert {group: {orders: THERE} for group in groups} == operator.held(*groups)
    assert [] == events(operator)
    assert [] == reconcile_runs(operator.cluster, operator.state).known
    assert operator.apply(plan).is_done


def test_after_its_intent(
    operator: Operator, breakable: Any, start_operator: StartOperator, groups: list[str]
) -> None:
    """A run that was cut off before it did anything is found to be that, and may be made again."""
    plan = operator.reset(*groups)
    killed_after_intent(operator, breakable, start_operator, plan)

    assert operator.apply(plan).is_done
    _, found, *_ = operator.log
    assert {ChangeStatus.NOT_TRIED} == {
        change.status for step in found.steps for change in step.changes
    }
    assert ["intent", "found", "intent", "outcome"] == events(operator)


def test_in_the_middle_and_finished(
    operator: Operator, start_operator: StartOperator, groups: list[str], orders: TopicPartition
) -> None:
    """The same plan finds what was done, does the rest, and writes nothing twice."""
    plan = operator.reset(*groups)
    running = start_operator(operator, plan)
    running.after_step(3)
    running.kill()
    before = operator.facts(*groups[:3]).commits

    outcome = operator.apply(plan)

    assert (True, "4 done") == (outcome.is_done, outcome.summary)
    assert {group: {orders: BACK} for group in groups} == operator.held(*groups)
    assert before == operator.facts(*groups[:3]).commits
    assert all(commit.committed_at for commit in before)
    assert ["intent", "found", "intent", "outcome"] == events(operator)
    told = [str(step.status) for step in operator.log[1].steps]
    assert ["done"] * 3 + ["not tried"] == told


def test_while_many_groups_are_written(
    operator: Operator, start_operator: StartOperator, apps: Applications, orders: TopicPartition
) -> None:
    """Wherever commits that are sent together are cut off, the report is what is committed."""
    name = apps.name("payments")
    groups = [f"{name}-{number:04}" for number in range(2_000)]
    operator.commit_together(groups, {orders: 7})
    running = start_operator(operator, operator.reset(*groups))
    running.after_step(63)
    running.go_on(len(groups))
    eventually(lambda: operator.held(groups[300])[groups[300]] != {orders: THERE})
    running.kill()

    (cut_off,) = reconcile_runs(operator.cluster, operator.state).known
    held = operator.held(*groups)

    made = {True: ChangeStatus.DONE, False: ChangeStatus.NOT_TRIED}
    expected = {group: made[held[group] == {orders: BACK}] for group in groups}
    assert expected == {step.group_id: step.status for step in cut_off.outcome.steps}


def test_in_the_middle_and_undone(
    operator: Operator, start_operator: StartOperator, groups: list[str], orders: TopicPartition
) -> None:
    """What was done is told once, whatever the cluster is called now; undo takes that back."""
    running = start_operator(operator, operator.reset(*groups))
    running.after_step(1)
    running.kill()

    renamed = replace(operator.cluster, name=operator.cluster.bootstrap_servers)
    (cut_off,) = reconcile_runs(renamed, operator.state).known
    undo = operator.undo(read_undo_record(operator.state, cut_off.outcome.run_id))

    assert "3 not tried, 1 done" == cut_off.outcome.summary
    assert [] == reconcile_runs(operator.cluster, operator.state).known
    assert (groups[0],) == undo.group_ids
    assert operator.apply(undo).is_done
    assert {group: {orders: THERE} for group in groups} == operator.held(*groups)


def test_another_plan_for_what_it_changed(
    operator: Operator, start_operator: StartOperator, groups: list[str], orders: TopicPartition
) -> None:
    """Whoever has another plan for a group that was changed has to say that this is meant."""
    running = start_operator(operator, operator.reset(*groups))
    running.after_step(1)
    running.kill()
    (run_id,) = list_runs(operator.state)
    other = operator.reset(*groups[:2], to=5)
    reconcile_runs(operator.cluster, operator.state)

    refusal = operator.refusal(other, "skips-unread-records")

    assert f"run {run_id} " in refusal.problem
    assert f"'offsetbook undo {run_id}'" in refusal.hint
    assert operator.apply(other, "skips-unread-records", "cut-off-run").is_done
    assert {name: {orders: Position(5, 0)} for name in groups[:2]} == operator.held(*groups[:2])


def test_a_plan_for_other_groups(
    operator: Operator, start_operator: StartOperator, groups: list[str]
) -> None:
    """Whoever comes with a plan for other groups is not held up, and the run is settled."""
    running = start_operator(operator, operator.reset(*groups[:2]))
    running.after_step(1)
    running.kill()

    assert operator.apply(operator.reset(groups[3])).is_done
    assert ["intent", "found", "intent", "outcome"] == events(operator)


def test_after_all_was_done(
    operator: Operator, start_operator: StartOperator, groups: list[str], orders: TopicPartition
) -> None:
    """A run that only lacks its outcome is found to have done everything; that is not repeated."""
    plan = operator.reset(*groups)
    running = start_operator(operator, plan)
    running.after_step(4)
    running.kill()

    with pytest.raises(Blocked, match="facts-moved"):
        operator.apply(plan)

    assert {group: {orders: BACK} for group in groups} == operator.held(*groups)
    assert ["intent", "found"] == events(operator)
    assert {ChangeStatus.DONE} == {step.status for step in operator.log[-1].steps}


def test_with_its_broker(
    operator: Operator,
    breakable: Any,
    start_operator: StartOperator,
    groups: list[str],
    orders: TopicPartition,
) -> None:
    """Where the broker went down too, it is asked only once it knows its groups again."""
    running = start_operator(operator, operator.reset(*groups))
    running.after_step(1)
    breakable.kill()
    running.kill()
    breakable.start()

    (cut_off,) = reconcile_runs(operator.cluster, operator.state).known

    assert "3 not tried, 1 done" == cut_off.outcome.summary
    assert THERE == operator.held(groups[3])[groups[3]][orders]
