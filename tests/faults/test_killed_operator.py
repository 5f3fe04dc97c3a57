"""What is left when the process that applies a plan is killed, and how the next one goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from applications import Applications, eventually
from desks import Desk

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
Operators = Callable[..., Any]


def events(desk: Desk) -> list[str]:
    """Return what the audit log tells of, in its order."""
    return [str(entry.event) for entry in desk.log]


def killed_after_intent(desk: Desk, breakable: Any, operators: Operators, plan: Any) -> None:
    """Kill an operator who has recorded what is about to be done, and has done nothing."""
    desk.state.mkdir()
    with exclusively(desk.state / "audit.lock"):
        operator = operators(desk, plan)
        eventually(lambda: list_runs(desk.state))  # written after all checks
        frozen = breakable.frozen()
        frozen.__enter__()
    try:
        eventually(lambda: audit.unfinished(desk.state))
        operator.kill()
    finally:
        frozen.__exit__(None, None, None)


def test_before_its_intent(
    desk: Desk, operators: Operators, groups: list[str], orders: TopicPartition
) -> None:
    """A run that never announced itself changed nothing and is in nobody's way."""
    plan = desk.reset(*groups)
    desk.state.mkdir()
    with exclusively(desk.state / "audit.lock"):
        operator = operators(desk, plan)
        eventually(lambda: list_runs(desk.state))
        operator.kill()

    assert {group: {orders: THERE} for group in groups} == desk.held(*groups)
    assert [] == events(desk)
    assert [] == reconcile_runs(desk.cluster, desk.state).known
    assert desk.apply(plan).is_done


def test_after_its_intent(
    desk: Desk, breakable: Any, operators: Operators, groups: list[str]
) -> None:
    """A run that was cut off before it did anything is found to be that, and may be made again."""
    plan = desk.reset(*groups)
    killed_after_intent(desk, breakable, operators, plan)

    assert desk.apply(plan).is_done
    _, found, *_ = desk.log
    assert {ChangeStatus.NOT_TRIED} == {
        change.status for step in found.steps for change in step.changes
    }
    assert ["intent", "found", "intent", "outcome"] == events(desk)


def test_in_the_middle_and_finished(
    desk: Desk, operators: Operators, groups: list[str], orders: TopicPartition
) -> None:
    """The same plan finds what was done, does the rest, and writes nothing twice."""
    plan = desk.reset(*groups)
    operator = operators(desk, plan)
    operator.after_step(3)
    operator.kill()
    before = desk.facts(*groups[:3]).commits

    outcome = desk.apply(plan)

    assert (True, "4 done") == (outcome.is_done, outcome.summary)
    assert {group: {orders: BACK} for group in groups} == desk.held(*groups)
    assert before == desk.facts(*groups[:3]).commits
    assert all(commit.committed_at for commit in before)
    assert ["intent", "found", "intent", "outcome"] == events(desk)
    told = [str(step.status) for step in desk.log[1].steps]
    assert ["done"] * 3 + ["not tried"] == told


def test_while_many_groups_are_written(
    desk: Desk, operators: Operators, apps: Applications, orders: TopicPartition
) -> None:
    """Wherever commits that are sent together are cut off, the report is what is committed."""
    name = apps.name("payments")
    groups = [f"{name}-{number:04}" for number in range(2_000)]
    desk.commit_together(groups, {orders: 7})
    operator = operators(desk, desk.reset(*groups))
    operator.after_step(63)
    operator.go_on(len(groups))
    eventually(lambda: desk.held(groups[300])[groups[300]] != {orders: THERE})
    operator.kill()

    (cut_off,) = reconcile_runs(desk.cluster, desk.state).known
    held = desk.held(*groups)

    made = {True: ChangeStatus.DONE, False: ChangeStatus.NOT_TRIED}
    expected = {group: made[held[group] == {orders: BACK}] for group in groups}
    assert expected == {step.group_id: step.status for step in cut_off.outcome.steps}


def test_in_the_middle_and_undone(
    desk: Desk, operators: Operators, groups: list[str], orders: TopicPartition
) -> None:
    """What was done is told once, whatever the cluster is called now; undo takes that back."""
    operator = operators(desk, desk.reset(*groups))
    operator.after_step(1)
    operator.kill()

    renamed = replace(desk.cluster, name=desk.cluster.bootstrap_servers)
    (cut_off,) = reconcile_runs(renamed, desk.state).known
    undo = desk.undo(read_undo_record(desk.state, cut_off.outcome.run_id))

    assert "3 not tried, 1 done" == cut_off.outcome.summary
    assert [] == reconcile_runs(desk.cluster, desk.state).known
    assert (groups[0],) == undo.group_ids
    assert desk.apply(undo).is_done
    assert {group: {orders: THERE} for group in groups} == desk.held(*groups)


def test_another_plan_for_what_it_changed(
    desk: Desk, operators: Operators, groups: list[str], orders: TopicPartition
) -> None:
    """Whoever has another plan for a group that was changed has to say that this is meant."""
    operator = operators(desk, desk.reset(*groups))
    operator.after_step(1)
    operator.kill()
    (run_id,) = list_runs(desk.state)
    other = desk.reset(*groups[:2], to=5)
    reconcile_runs(desk.cluster, desk.state)

    refusal = desk.refusal(other, "skips-unread-records")

    assert f"run {run_id} " in refusal.problem
    assert f"'offsetbook undo {run_id}'" in refusal.hint
    assert desk.apply(other, "skips-unread-records", "cut-off-run").is_done
    assert {name: {orders: Position(5, 0)} for name in groups[:2]} == desk.held(*groups[:2])


def test_a_plan_for_other_groups(desk: Desk, operators: Operators, groups: list[str]) -> None:
    """Whoever comes with a plan for other groups is not held up, and the run is settled."""
    operator = operators(desk, desk.reset(*groups[:2]))
    operator.after_step(1)
    operator.kill()

    assert desk.apply(desk.reset(groups[3])).is_done
    assert ["intent", "found", "intent", "outcome"] == events(desk)


def test_after_all_was_done(
    desk: Desk, operators: Operators, groups: list[str], orders: TopicPartition
) -> None:
    """A run that only lacks its outcome is found to have done everything; that is not repeated."""
    plan = desk.reset(*groups)
    operator = operators(desk, plan)
    operator.after_step(4)
    operator.kill()

    with pytest.raises(Blocked, match="facts-moved"):
        desk.apply(plan)

    assert {group: {orders: BACK} for group in groups} == desk.held(*groups)
    assert ["intent", "found"] == events(desk)
    assert {ChangeStatus.DONE} == {step.status for step in desk.log[-1].steps}


def test_with_its_broker(
    desk: Desk, breakable: Any, operators: Operators, groups: list[str], orders: TopicPartition
) -> None:
    """Where the broker went down too, it is asked only once it knows its groups again."""
    operator = operators(desk, desk.reset(*groups))
    operator.after_step(1)
    breakable.kill()
    operator.kill()
    breakable.start()

    (cut_off,) = reconcile_runs(desk.cluster, desk.state).known

    assert "3 not tried, 1 done" == cut_off.outcome.summary
    assert THERE == desk.held(groups[3])[groups[3]][orders]
