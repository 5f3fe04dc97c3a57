"""A rescue restarts expiry clocks, by the log of a real broker."""

from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest
from applications import Applications
from guardrail_cases import case, change, plan, step
from operators import Operator
from plans_of_groups import Orders
from raw_classic import commit

from toolkit.errors import ClusterUnreachable
from toolkit.model import Commit, Group, GroupState, GroupType, Policy, Snapshot, TopicPartition
from toolkit.model.commit_columns import with_own_expiry
from toolkit.operate import apply
from toolkit.operate.rescue import left_out, verify_retention_reset
from toolkit.plan import (
    Action,
    ChangeStatus,
    Finding,
    Intent,
    Position,
    Result,
    Severity,
    StepOutcome,
)
from toolkit.planning.changes.rescue import plan_rescue
from toolkit.planning.expiry.expiry_forecast import last_expiry
from toolkit.planning.guardrails.check_context import CheckContext

DAY_MS = 24 * 3600 * 1000


def clocks(operator: Operator, group: str) -> tuple[Any, ...]:
    """Return since when a group is Empty, and when each of its offsets was committed."""
    facts = operator.facts(group)
    return (facts.groups[0].empty_since, *(commit.committed_at for commit in facts.commits))


def moved_on(before: tuple[Any, ...], after: tuple[Any, ...]) -> bool:
    """Whether all offsets were committed later than before."""
    return all(old < new for old, new in zip(before[1:], after[1:], strict=True))


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
    """Offsets are committed again unchanged, with new commit times: nothing to undo."""
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
    assert (before[0], True) == (after[0], moved_on(before, after))
    undo = operator.undo(plan)
    assert ((), ["nothing-to-undo"]) == (undo.steps, [finding.rule for finding in undo.findings])


def test_a_classic_group_is_joined_and_left(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """A classic group becomes Empty again; its committed offsets stay."""
    group = apps.name("payments")
    leave(operator, apps, group, orders, "classic")
    before, held = clocks(operator, group), operator.held(group)
    plan = plan_rescue(operator.facts(group), groups=[group])

    outcome = operator.apply(plan)

    assert [(Action.REJOIN, ChangeStatus.DONE)] == [(s.action, s.status) for s in outcome.steps]
    after = clocks(operator, group)
    assert (held, before[1:]) == (operator.held(group), after[1:])
    assert before[0] < after[0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_with_their_own_retention_are_committed_again(
    operator: Operator, apps: Applications, orders: Orders, protocol: str
) -> None:
    """Otherwise they expire, whenever the group has become Empty (OffsetCommit 2 to 4)."""
    group = apps.name("payments")
    leave(operator, apps, group, orders, protocol)
    commit(apps.address, group, {orders[0]: 7}, keep_ms=DAY_MS)
    before = operator.facts(group)
    (chosen,) = with_own_expiry(before.commits)
    settings = {"retention_s": 7 * DAY_MS // 1000, "check_interval_s": 600}
    plan = plan_rescue(before, groups=[group], retention_s=settings["retention_s"])

    assert operator.apply(plan).is_done

    after = operator.facts(group)
    assert (orders[0].topic, None) == (chosen.topic, next(with_own_expiry(after.commits), None))
    assert chosen.expires_at == chosen.committed_at + timedelta(milliseconds=DAY_MS)
    assert {"re-committed"} == {change.why.split(" ")[0] for _, change in plan.changes}
    assert chosen.expires_at < last_expiry(after, **settings)[group]
    assert chosen.expires_at.date() == last_expiry(before, **settings)[group].date()


@pytest.mark.parametrize("committed", [1, 2], ids=["one of its offsets", "all its offsets"])
def test_a_group_to_which_a_client_commits_is_left_out(
    operator: Operator, apps: Applications, orders: Orders, committed: int
) -> None:
    """The others are rescued; the commits of the client reset its retention."""
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
    assert moved_on(before, clocks(operator, idle))
    assert [ChangeStatus.DONE] * committed + [ChangeStatus.REFUSED] * (2 - committed) == [
        result.status for result in second.results
    ]
    assert "committed by a client at" in second.results[0].why
    assert (committed == 2) is outcome.is_done
    assert ("left out: " in second.why) is (committed == 1)
    held = operator.held(busy)[busy]
    assert [9] * committed + [7] * (2 - committed) == [held[place].offset for place in orders]


def test_a_group_that_cannot_be_read_any_more_is_left_out() -> None:
    """Its coordinator may be down for a moment; the others need not wait."""
    same = change(10, 10)
    both = plan(step(same), step(same, group_id="h"), intent=Intent.RESCUE)
    found = left_out(case(both), [Finding("unreadable", Severity.BLOCK, "members: timed out", "h")])

    assert {"h": "left out: members: timed out"} == {name: one.why for name, one in found.items()}


def test_commits_of_a_cut_off_run_are_not_those_of_a_client(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """A group that is left out when a rescue is finished has commits of the earlier run."""
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


LATER = "2026-03-01T12:00:01+00:00"
NOON = "2026-03-01T12:00:00+00:00"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (NOON, LATER, ""),
        (NOON, NOON, "its retention timestamp did not change: 2026-03-01 12:00:00 UTC"),
        (LATER, NOON, "its retention timestamp did not change: 2026-03-01 12:00:01 UTC"),
        (None, LATER, "not verifiable: its retention timestamp was unknown before"),
        (NOON, None, "its retention timestamp could not be read from __consumer_offsets"),
    ],
    ids=["moved on", "stood still", "went back", "unknown before", "unread"],
)
@pytest.mark.parametrize("action", [Action.COMMIT, Action.REJOIN])
def test_a_timer_that_was_not_reset_is_a_failure(
    action: Action, before: str | None, after: str | None, why: str
) -> None:
    """Of each commit, or of the group that became Empty; the reason is in every result."""
    place = TopicPartition("orders", 0)

    def facts(at: str | None) -> Snapshot:
        time = datetime.fromisoformat(at) if at else None
        is_commit = action is Action.COMMIT
        commit = Commit("g", *place, 7, committed_at=time if is_commit else None)
        group = Group(
            "g", GroupType.CLASSIC, GroupState.EMPTY, empty_since=None if is_commit else time
        )
        return Snapshot("eu", "id", datetime.now(UTC), (group,), (commit,), {})

    done = Result(place, ChangeStatus.DONE)
    step = StepOutcome("g", action, ChangeStatus.DONE, "", (done,))
    (found,) = verify_retention_reset([step], before=facts(before), after=facts(after))

    status = ChangeStatus.FAILED if why else ChangeStatus.DONE
    assert (status, [(status, why)]) == (
        found.status,
        [(result.status, result.why) for result in found.results],
    )


def test_timers_that_cannot_be_read_are_not_reported_as_reset(
    operator: Operator, apps: Applications, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response to a commit does not say that a timer was reset."""
    group = apps.name("payments")
    operator.commit(group, dict.fromkeys(orders, 7))
    plan = plan_rescue(operator.facts(group), groups=[group])
    read = apply.read_plan_facts

    def lost_after_the_check(*given: Any, **about: Any) -> Snapshot:
        lost = Mock(side_effect=ClusterUnreachable("no broker answers"))
        monkeypatch.setattr(apply, "read_plan_facts", lost)
        return read(*given, **about)

    monkeypatch.setattr(apply, "read_plan_facts", lost_after_the_check)
    outcome = operator.apply(plan)

    assert not outcome.is_done
    assert [ChangeStatus.FAILED] * 2 == [r.status for r in outcome.steps[0].results]
    assert all("could not be read" in result.why for result in outcome.steps[0].results)


def test_no_timer_is_read_if_all_groups_are_left_out(
    operator: Operator, apps: Applications, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without names every group of the cluster would be read."""
    group = apps.name("busy")
    operator.commit(group, dict.fromkeys(orders, 7))
    plan = plan_rescue(operator.facts(group), groups=[group])
    operator.commit(group, {orders[0]: 9})
    reads = Mock(side_effect=apply.read_plan_facts)
    monkeypatch.setattr(apply, "read_plan_facts", reads)

    assert [ChangeStatus.REFUSED] == [step.status for step in operator.apply(plan).steps]
    reads.assert_called_once()  # for the check
