"""A rescue restarts expiry clocks, which is read back from the log of a real broker."""

from __future__ import annotations

from datetime import datetime

import pytest
from applications import Applications
from operators import Operator

from toolkit.model import GroupState, TopicPartition
from toolkit.plan import Action, ChangeStatus, Position
from toolkit.planning.changes.rescue import plan_rescue

Orders = tuple[TopicPartition, TopicPartition]


def clocks(operator: Operator, group: str) -> tuple[datetime | None, ...]:
    """Return since when a group is Empty, and when each of its offsets was committed."""
    facts = operator.facts(group)
    return (facts.groups[0].empty_since, *(commit.committed_at for commit in facts.commits))


def leave(
    operator: Operator, apps: Applications, group: str, orders: Orders, protocol: str
) -> None:
    """Have a member join, commit and leave a group, and wait until the group is Empty."""
    consumer = apps.join(group, [orders[0].topic], protocol=protocol)
    consumer.commit(offsets=[apps.position(orders[0], 7)], asynchronous=False)
    consumer.close()
    apps.eventually(lambda: operator.facts(group).groups[0].state is GroupState.EMPTY)


@pytest.mark.parametrize("kind", ["simple", "consumer"])
def test_commits_are_repeated(
    operator: Operator, apps: Applications, orders: Orders, kind: str
) -> None:
    """Offsets with a clock each are committed again exactly as they are; their times move on."""
    group = apps.name("payments")
    if kind == "consumer":
        leave(operator, apps, group, orders, kind)
    operator.commit(group, {orders[0]: Position(7, 0, "a note"), orders[1]: Position(3)})
    before, held = clocks(operator, group), operator.held(group)
    plan = plan_rescue(operator.facts(group), groups=[group])

    outcome = operator.apply(plan)

    assert [Action.COMMIT] == [step.action for step in plan.steps]
    assert outcome.is_done
    assert held == operator.held(group)
    after = clocks(operator, group)
    assert before[0] == after[0]
    assert all(old and new and old < new for old, new in zip(before[1:], after[1:], strict=True))


def test_a_classic_group_is_joined_and_left(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """A classic group becomes Empty anew; what it committed stays as it is."""
    group = apps.name("payments")
    leave(operator, apps, group, orders, "classic")
    before, held = clocks(operator, group), operator.held(group)
    plan = plan_rescue(operator.facts(group), groups=[group])

    outcome = operator.apply(plan)

    assert [(Action.REJOIN, ChangeStatus.DONE)] == [(s.action, s.status) for s in outcome.steps]
    assert held == operator.held(group)
    emptied, *committed = clocks(operator, group)
    assert before[1:] == tuple(committed)
    assert before[0]
    assert emptied
    assert before[0] < emptied


def test_a_rescue_has_nothing_to_undo(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """Nothing was changed, so nothing is put back."""
    group = apps.name("payments")
    operator.commit(group, {orders[0]: 7})
    plan = plan_rescue(operator.facts(group), groups=[group])
    operator.apply(plan)

    assert ((), ["nothing-to-undo"]) == (
        operator.undo(plan).steps,
        [finding.rule for finding in operator.undo(plan).findings],
    )
