"""A rescue restarts expiry clocks, by the log of a real broker; and skips that are said."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from applications import Applications
from operators import Operator

from toolkit.errors import Blocked
from toolkit.model import GroupState, Policy, TopicPartition
from toolkit.operate.rescue import left_out
from toolkit.plan import Action, ChangeStatus, Finding, Position, Severity
from toolkit.planning.changes.rescue import plan_rescue
from toolkit.planning.changes.targets import ToLatest
from toolkit.planning.guardrails.check_context import CheckContext
from toolkit.session import Session

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
    """Offsets are committed again exactly as they are, and their times move on: nothing to undo."""
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
    undo = operator.undo(plan)
    assert ((), ["nothing-to-undo"]) == (undo.steps, [finding.rule for finding in undo.findings])


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


@pytest.mark.parametrize("committed", [1, 2], ids=["one of its offsets", "all its offsets"])
def test_a_group_that_a_client_commits_for_is_left_out(
    operator: Operator, apps: Applications, orders: Orders, committed: int
) -> None:
    """The others are rescued; what the client has committed since is kept by that."""
    idle, busy = apps.name("idle"), apps.name("busy")
    for group in (idle, busy):
        operator.commit(group, dict.fromkeys(orders, 7))
    plan = plan_rescue(operator.facts(idle, busy), groups=[idle, busy])
    operator.commit(busy, dict.fromkeys(orders[:committed], 9))
    before = clocks(operator, idle)

    outcome = operator.apply(plan)

    assert plan.group_ids == tuple(step.group_id for step in outcome.steps)
    steps = {step.group_id: step for step in outcome.steps}
    second = steps[busy]
    assert steps[idle].status is ChangeStatus.DONE
    assert all(
        old and new and old < new
        for old, new in zip(before[1:], clocks(operator, idle)[1:], strict=True)
    )
    assert [ChangeStatus.DONE] * committed + [ChangeStatus.REFUSED] * (2 - committed) == [
        result.status for result in second.results
    ]
    assert "committed by a client at" in second.results[0].why
    assert (committed == 2) is outcome.is_done
    assert ("left out: " in second.why) is (committed == 1)
    held = operator.held(busy)[busy]
    assert [9] * committed + [7] * (2 - committed) == [held[place].offset for place in orders]


def test_commits_of_a_cut_off_run_are_no_clients(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """A group that is left out when a rescue is finished has commits of the run before."""
    group = apps.name("busy")
    operator.commit(group, dict.fromkeys(orders, 7))
    plan = plan_rescue(operator.facts(group), groups=[group])
    operator.commit(group, {orders[0]: 7})
    operator.commit(group, {orders[1]: 9})
    case = CheckContext(
        plan, operator.facts(group), Policy(), datetime.now(UTC), applying=True, finishing=True
    )

    found = left_out(case, [Finding("facts-moved", Severity.BLOCK, "offset 9", group)])[group]

    assert [(ChangeStatus.DONE, False), (ChangeStatus.DONE, True)] == [
        (result.status, result.why.startswith("committed by a client at "))
        for result in found.results
    ]
    assert found.results[0].why.startswith("committed at ")


@pytest.mark.parametrize(
    ("after", "unread"),
    [
        pytest.param([], 0, id="the marker of the last transaction"),
        pytest.param([(5, False)], 0, id="an aborted transaction"),
        pytest.param([(5, False), (1, True)], 2, id="a record after an aborted transaction"),
    ],
)
def test_what_is_left_of_a_log(
    operator: Operator, apps: Applications, after: list[tuple[int, bool]], unread: int
) -> None:
    """A reset to the end is blocked by records alone; behind the first, all offsets may be some."""
    place = TopicPartition(apps.create_topic(apps.name("orders")), 0)
    apps.write_transactions(place, (3, True), *after)
    group = apps.name("payments")
    operator.commit(group, {place: 3})

    change = Session(operator.cluster, operator.state).reset([group], to=ToLatest())

    blocking = [(f.rule, f.why) for f in change.findings if f.blocks]
    if unread:
        why = f"at most {unread} unread records would be skipped"
        assert [("skips-unread-records", why)] == blocking
        with pytest.raises(Blocked, match=why):
            operator.apply(change.plan)
        return
    assert [] == blocking
    assert operator.apply(change.plan).is_done
    end = 4 + sum(records + 1 for records, _ in after)
    assert end == operator.held(group)[group][place].offset
