"""A broker that dies between two groups of an apply loses nothing that was done or saved."""

from __future__ import annotations

from typing import Any

import pytest
from applications import Applications, eventually
from operators import Operator

from toolkit.model import GroupState, TopicPartition
from toolkit.plan import Action, ChangeStatus, Outcome, Plan, Position
from toolkit.planning.changes.delete_groups import plan_delete_groups
from toolkit.storage import audit
from toolkit.storage.undo_records import read_undo_record

# Of sockets that could not connect: see `_left_over`.
pytestmark = [
    pytest.mark.faults("a broker is killed during a change"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

THERE, BACK = Position(7), Position(0, 0)


def cut(operator: Operator, breakable: Any, plan: Plan) -> Outcome:
    """Apply a plan while its broker is killed after the first step, and start it again."""
    first = plan.steps[0].group_id

    def on_step(outcome: Any) -> None:
        if outcome.group_id == first:
            breakable.kill()

    try:
        return operator.apply(plan, on_step=on_step)
    finally:
        breakable.start()
        # A broker lists no group before it has read what they committed.
        deleted = 1 if plan.steps[0].action is Action.DELETE_GROUP else 0
        eventually(lambda: not operator.facts(*plan.group_ids[deleted:]).problems)


def test_what_is_said_and_recorded_and_finished(
    operator: Operator, breakable: Any, groups: list[str], orders: TopicPartition
) -> None:
    """
    Each change is done, or not tried with the reason; it is in the log, and undo is saved.

    Applied again, the plan does what was not done and does not write the rest again; where an
    offset of the part that is left has moved since, it is refused whole.
    """
    plan = operator.reset(*groups)

    outcome = cut(operator, breakable, plan)

    done, *rest = outcome.steps
    assert (ChangeStatus.DONE, "") == (done.status, done.why)
    assert [ChangeStatus.NOT_TRIED] * 3 == [step.status for step in rest]
    assert {outcome.interrupted} == {result.why for step in rest for result in step.results}
    assert "no answer" in outcome.interrupted
    assert (False, True) == (outcome.is_done, outcome.changed_anything)
    intent, ended = operator.log
    assert [step.status for step in outcome.steps] == [step.status for step in ended.steps]
    assert outcome.interrupted == ended.interrupted
    assert plan == read_undo_record(operator.state, intent.run.run_id)
    held = operator.held(*groups)
    assert [BACK, THERE, THERE, THERE] == [held[group][orders] for group in groups]

    operator.commit(groups[3], {orders: 8})
    refusal = operator.refusal(plan)
    assert f"facts-moved ({groups[3]}): committed offset is 8" in refusal.problem
    assert groups[0] not in refusal.problem

    operator.commit(groups[3], {orders: 7})
    (before,) = operator.facts(groups[0]).commits

    outcome = operator.apply(plan, "keeps-committing")  # which is what was just done here

    assert (True, "4 done") == (outcome.is_done, outcome.summary)
    assert {group: {orders: BACK} for group in groups} == operator.held(*groups)
    assert (before,) == operator.facts(groups[0]).commits
    assert before.committed_at
    assert [audit.Event.INTENT, audit.Event.OUTCOME] * 2 == [entry.event for entry in operator.log]


def test_the_part_that_was_done_is_undone(
    operator: Operator, breakable: Any, groups: list[str], orders: TopicPartition
) -> None:
    """Undo takes back the group that was changed and leaves the others alone."""
    run = cut(operator, breakable, operator.reset(*groups))

    undo = operator.undo(read_undo_record(operator.state, run.run_id))

    assert (groups[0],) == undo.group_ids
    assert operator.apply(undo).is_done
    assert {group: {orders: THERE} for group in groups} == operator.held(*groups)


def test_a_deleted_group_without_offsets(
    operator: Operator,
    breakable: Any,
    apps: Applications,
    groups: list[str],
    orders: TopicPartition,
) -> None:
    """A group of which nothing could tell but its name is not taken for refused when it is gone."""
    bare = apps.name("a-bare-group")
    apps.join(bare, [orders.topic]).close()
    apps.eventually(lambda: operator.facts(bare).groups[0].state is GroupState.EMPTY)
    plan = plan_delete_groups(operator.facts(bare, *groups), groups=[bare, *groups])
    assert (bare, ()) == (plan.steps[0].group_id, plan.steps[0].changes)
    cut(operator, breakable, plan)

    outcome = operator.apply(plan)

    assert (True, {}) == (outcome.is_done, operator.held(bare, *groups))
