"""A plan that is applied once: by the parameters, or by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from applications import Applications
from desks import Desk

from toolkit.errors import UsageError
from toolkit.journeys.change.apply_once import Applying
from toolkit.journeys.change.decision import Consent
from toolkit.model import TopicPartition
from toolkit.plan import Plan, Status


@pytest.fixture
def plan(desk: Desk, apps: Applications) -> Plan:
    """Return a plan to move an idle group back to 0."""
    topic, group = apps.create_topic(apps.name("orders"), records=9), apps.name("payments")
    desk.commit(group, {TopicPartition(topic, 0): 7})
    return desk.reset(group)


def applying(plan: Plan, desk: Desk, **consent: Any) -> Applying:
    """Return the plan as decided by these parameters."""
    # A group that committed a moment ago is else looked at for some seconds.
    overrides = ("keeps-committing",)
    decision = Consent(**{"dry_run": True, **consent}, overrides=overrides).decide(plan, ())
    return Applying(decision, desk.cluster, desk.state, overrides)


def offsets(desk: Desk, plan: Plan) -> set[int]:
    """Return the offsets that the groups of a plan hold."""
    held = desk.held(*plan.group_ids)
    return {position.offset for positions in held.values() for position in positions.values()}


def never() -> str:
    """Nobody asked to stop."""
    return ""


def test_a_dry_run_leaves_all_as_it_is(desk: Desk, plan: Plan) -> None:
    """Nothing was approved by anybody, so nothing became of it."""
    assert applying(plan, desk).finish() is None
    assert ({7}, []) == (offsets(desk, plan), desk.log)


def test_by_hand_it_is_applied_once_and_finished_with(desk: Desk, plan: Plan) -> None:
    """The record is as always, the cells below get the outcome, and a second hand is refused."""
    under_way, steps = applying(plan, desk), list[Any]()
    by_hand = under_way.by_hand
    assert by_hand is not None

    outcome = by_hand("a replay", on_step=steps.append, stopped=never)

    assert outcome is not None
    assert outcome.is_done
    assert (plan.group_ids, {0}) == ((steps[0].group_id,), offsets(desk, plan))
    assert ["a replay", "a replay"] == [entry.run.reason for entry in desk.log]
    assert outcome is under_way.finish()
    with pytest.raises(UsageError, match="applied already"):
        by_hand("again", on_step=steps.append, stopped=never)
    assert 2 == len(desk.log)


def test_what_the_parameters_approve_is_not_for_a_hand(desk: Desk, plan: Plan) -> None:
    """With the fingerprint among the parameters the cells apply it, once."""
    under_way = applying(plan, desk, dry_run=False, approve=plan.fingerprint, reason="why")
    assert under_way.by_hand is None

    outcome = under_way.finish()

    assert outcome is not None
    assert outcome is under_way.finish()
    assert 2 == len(desk.log)


def test_it_is_stopped_between_two_steps(
    desk: Desk, plan: Plan, in_a_thread: Callable[[Callable[[], Any]], Any]
) -> None:
    """Told to stop, the worker thread begins no further step, and the record says why."""
    by_hand = applying(plan, desk).by_hand
    assert by_hand is not None

    outcome = in_a_thread(
        lambda: by_hand("why", on_step=lambda _: None, stopped=lambda: "stopped by a button")
    )

    assert "stopped by a button" == outcome.interrupted
    assert {Status.NOT_TRIED} == {step.status for step in outcome.steps}
    assert {7} == offsets(desk, plan)
    assert "stopped by a button" == desk.log[-1].interrupted
