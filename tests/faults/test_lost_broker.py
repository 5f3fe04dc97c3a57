"""A broker that dies between two groups of an apply loses nothing that was done or saved."""

from typing import Any

import pytest
from applications import eventually
from brokers import UNCLOSED_SOCKETS
from payment_groups import AT_0, AT_7, PaymentGroups

from toolkit.model import GroupState
from toolkit.plan import Action, ChangeStatus, Outcome, Plan
from toolkit.planning.changes.delete_groups import plan_delete_groups
from toolkit.storage.undo_records import read_undo_record

pytestmark = [pytest.mark.faults("a broker is killed during a change"), UNCLOSED_SOCKETS]


def cut(payments: PaymentGroups, breakable: Any, plan: Plan) -> Outcome:
    """Apply a plan while its broker is killed after the first step, and start it again."""
    try:
        return payments.apply(plan, after_first=breakable.kill)
    finally:
        breakable.start()
        # A broker lists no group before it has read what they committed.
        deleted = 1 if plan.steps[0].action is Action.DELETE_GROUP else 0
        eventually(lambda: not payments.operator.facts(*plan.group_ids[deleted:]).problems)


def test_the_outcome_is_recorded(payments: PaymentGroups, breakable: Any) -> None:
    """
    Each change is done, or not tried with the reason; it is in the log, and undo is saved.

    Applied again, the plan does what was not done and does not write the rest again; where an
    offset of the part that is left has moved since, it is refused whole.
    """
    operator, (first, *_, last), plan = payments.operator, payments.names, payments.reset()

    outcome = cut(payments, breakable, plan)

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
    assert payments.at(AT_0, AT_7, AT_7, AT_7) == payments.held

    operator.commit(last, {payments.orders: 8})
    refusal = operator.refusal(plan)
    assert f"facts-moved ({last}): committed offset is 8" in refusal.problem
    assert first not in refusal.problem

    operator.commit(last, {payments.orders: 7})
    (before,) = operator.facts(first).commits

    outcome = operator.apply(plan, "keeps-committing")  # which is what was just done here

    assert (True, "4 done") == (outcome.is_done, outcome.summary)
    assert payments.at(AT_0) == payments.held
    assert (before,) == operator.facts(first).commits
    assert before.committed_at
    assert ["intent", "outcome"] * 2 == payments.events


def test_the_part_that_was_done_is_undone(payments: PaymentGroups, breakable: Any) -> None:
    """Undo reverts the changed group and leaves the others alone."""
    operator, run = payments.operator, cut(payments, breakable, payments.reset())

    undo = operator.undo(read_undo_record(operator.state, run.run_id))

    assert (payments.names[0],) == undo.group_ids
    assert operator.apply(undo).is_done
    assert payments.at(AT_7) == payments.held


def test_a_deleted_group_without_offsets(payments: PaymentGroups, breakable: Any) -> None:
    """A group of which only the name is known does not count as refused when it is gone."""
    operator, apps = payments.operator, payments.apps
    groups = [apps.name("a-bare-group"), *payments.names]
    apps.join(groups[0], [payments.orders.topic]).close()
    eventually(lambda: operator.facts(groups[0]).groups[0].state is GroupState.EMPTY)
    plan = plan_delete_groups(operator.facts(*groups), groups=groups)
    assert (groups[0], ()) == (plan.steps[0].group_id, plan.steps[0].changes)
    cut(payments, breakable, plan)

    outcome = operator.apply(plan)

    assert (True, {}) == (outcome.is_done, operator.held(*groups))
