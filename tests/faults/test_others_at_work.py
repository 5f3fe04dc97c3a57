"""Members that join and operators that act while a plan is applied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from applications import Applications, eventually
from operators import Operator

from toolkit.model import TopicPartition
from toolkit.plan import ChangeStatus, Plan, Position, StepOutcome
from toolkit.planning.changes.delete_groups import plan_delete_groups
from toolkit.storage.formats.file_lock import exclusively
from toolkit.storage.undo_records import list_runs

pytestmark = pytest.mark.faults("others change a group during a change")

THERE, BACK = Position(7), Position(0, 0)
StartOperator = Callable[..., Any]


def after_first(plan: Plan, act: Callable[[], object]) -> Callable[[StepOutcome], None]:
    """Return what acts once the first step of a plan is done."""

    def on_step(outcome: StepOutcome) -> None:
        if outcome.group_id == plan.steps[0].group_id:
            act()

    return on_step


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_joins_between_check_and_write(
    operator: Operator, apps: Applications, groups: list[str], orders: TopicPartition, protocol: str
) -> None:
    """The group that has become live is refused; the others are done, and the run is partly."""
    plan = operator.reset(*groups)
    join = after_first(plan, lambda: apps.join(groups[2], [orders.topic], protocol=protocol))

    outcome = operator.apply(plan, on_step=join)

    assert [ChangeStatus.DONE, ChangeStatus.DONE, ChangeStatus.REFUSED, ChangeStatus.DONE] == [
        step.status for step in outcome.steps
    ]
    assert "the group has members" in outcome.steps[2].results[0].why
    assert (False, True, "") == (outcome.is_done, outcome.changed_anything, outcome.interrupted)
    held = operator.held(*groups)
    assert [BACK, BACK, THERE, BACK] == [held[group][orders] for group in groups]


def test_a_commit_between_check_and_write(
    operator: Operator, groups: list[str], orders: TopicPartition
) -> None:
    """An offset that moves after the check is not written over."""
    plan = operator.reset(*groups)
    commit = after_first(plan, lambda: operator.commit(groups[2], {orders: 8}))

    outcome = operator.apply(plan, on_step=commit)

    assert "3 done, 1 refused" == outcome.summary
    assert "changed since the check" in outcome.steps[2].results[0].why
    assert {orders: Position(8)} == operator.held(groups[2])[groups[2]]


def test_a_new_commit_before_a_deletion(
    operator: Operator, apps: Applications, groups: list[str], orders: TopicPartition
) -> None:
    """A group is not deleted with an offset that undo would not know."""
    other = TopicPartition(apps.create_topic(apps.name("other")), 0)
    plan = plan_delete_groups(operator.facts(*groups), groups=groups)
    commit = after_first(plan, lambda: operator.commit(groups[2], {other: 0}))

    outcome = operator.apply(plan, on_step=commit)

    assert "3 done, 1 refused" == outcome.summary
    assert {groups[2]: {orders: THERE, other: Position(0)}} == operator.held(*groups)


def test_a_transaction_between_check_and_write(
    operator: Operator, apps: Applications, groups: list[str], orders: TopicPartition
) -> None:
    """What a transaction that was opened after the check is about to commit is not written over."""
    plan = operator.reset(*groups)
    producer = apps.transaction(apps.name("transaction"))
    place = [apps.position(orders, 9)], apps.consumer(groups[2]).consumer_group_metadata()
    begin = after_first(plan, lambda: producer.send_offsets_to_transaction(*place))

    outcome = operator.apply(plan, on_step=begin)
    producer.abort_transaction()

    assert "3 done, 1 refused" == outcome.summary
    assert "an open transaction" in outcome.steps[2].results[0].why
    assert {orders: THERE} == operator.held(groups[2])[groups[2]]


def test_two_operators_one_after_the_other(
    operator: Operator, start_operator: StartOperator, groups: list[str], orders: TopicPartition
) -> None:
    """While one is at work the other is refused whole, and told who it is."""
    plan = operator.reset(*groups)
    first = start_operator(operator, plan)
    first.after_step(1)

    refusal = operator.refusal(plan)
    code, said = start_operator(operator, plan).end()

    assert f"(process {first.process.pid} on " in refusal.problem
    assert 3 == code
    assert said.startswith("Blocked: ")
    assert (0, "4 done; ") == first.end()
    assert {group: {orders: BACK} for group in groups} == operator.held(*groups)
    assert 2 == len(operator.log)


def test_two_operators_at_once(
    operator: Operator, start_operator: StartOperator, groups: list[str], orders: TopicPartition
) -> None:
    """Whoever comes first does everything, the other nothing."""
    plan = operator.reset(*groups)

    both = [start_operator(operator, plan), start_operator(operator, plan)]
    ended = sorted(running.end() for running in both)

    assert (0, "4 done; ") == ended[0]
    assert 3 == ended[1][0]
    assert {group: {orders: BACK} for group in groups} == operator.held(*groups)
    assert 2 == len(operator.log)
    assert 1 == len(list_runs(operator.state))


@pytest.mark.parametrize("offset", [0, 5])
def test_two_operators_with_records_of_their_own(
    operator: Operator, start_operator: StartOperator, groups: list[str], offset: int
) -> None:
    """
    Operators who do not share a state folder do not see each other, but never undo one another.

    Here one has passed every check when the other applies the same plan, or another one: the look
    at each group right before it is written shows that it has moved.
    """
    plan, other = (
        operator.reset(*groups),
        replace(operator, state=operator.state.with_name("other")),
    )
    operator.state.mkdir()
    with exclusively(operator.state / "audit.lock"):
        first = start_operator(operator, plan)
        eventually(lambda: list_runs(operator.state))  # written after all checks
        assert other.apply(other.reset(*groups, to=offset)).is_done
    before = operator.facts(*groups).commits

    code, said = first.end()

    assert (4, "4 refused; ") == (code, said)
    assert before == operator.facts(*groups).commits
    assert all(commit.committed_at and commit.offset == offset for commit in before)
    assert {ChangeStatus.REFUSED} == {step.status for step in operator.log[-1].steps}
    assert [2, 2] == [len(operator.log), len(other.log)]
