"""What is left when the process that applies a plan is killed, and how the next one goes on."""

from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest
from applications import eventually
from brokers import UNCLOSED_SOCKETS
from payment_groups import AT_0, AT_7, PaymentGroups
from processes import suspended

from toolkit.errors import Blocked
from toolkit.operate.reconcile_runs import reconcile_runs
from toolkit.plan import ChangeStatus, Position
from toolkit.storage import audit
from toolkit.storage.undo_records import list_runs, read_undo_record

pytestmark = [pytest.mark.faults("operators and a broker are killed"), UNCLOSED_SOCKETS]


def test_before_its_intent(payments: PaymentGroups) -> None:
    """A run killed before its intent changed nothing and blocks no later one."""
    operator, plan = payments.operator, payments.reset()
    with payments.before_intent(plan) as running:
        running.kill()

    assert payments.at(AT_7) == payments.held
    assert [] == payments.events
    assert [] == reconcile_runs(operator.cluster, operator.state).known
    assert operator.apply(plan).is_done


def test_after_its_intent(payments: PaymentGroups, breakable: Any) -> None:
    """A run killed before its first request is reported as such, and may be made again."""
    operator, plan = payments.operator, payments.reset()
    with ExitStack() as frozen:
        with payments.before_intent(plan) as running:
            frozen.enter_context(suspended(breakable.broker.pid))
        eventually(lambda: audit.unfinished(operator.state))
        running.kill()

    assert operator.apply(plan).is_done
    _, found, *_ = operator.log
    assert {ChangeStatus.NOT_TRIED} == {
        change.status for step in found.steps for change in step.changes
    }
    assert ["intent", "found", "intent", "outcome"] == payments.events


def test_in_the_middle_and_finished(payments: PaymentGroups) -> None:
    """The same plan skips what was done, does the rest, and writes nothing twice."""
    operator, plan = payments.operator, payments.reset()
    payments.begin(plan, steps=3).kill()
    before = operator.facts(*payments.names[:3]).commits

    outcome = operator.apply(plan)

    assert (True, "4 done") == (outcome.is_done, outcome.summary)
    assert payments.at(AT_0) == payments.held
    assert before == operator.facts(*payments.names[:3]).commits
    assert all(commit.committed_at for commit in before)
    assert ["intent", "found", "intent", "outcome"] == payments.events
    assert ["done"] * 3 + ["not tried"] == [str(step.status) for step in operator.log[1].steps]


def test_while_many_groups_are_written(payments: PaymentGroups) -> None:
    """Wherever commits that are sent together are cut off, the report is what is committed."""
    operator, name = payments.operator, payments.apps.name("payments")
    many = replace(payments, names=[f"{name}-{number:04}" for number in range(2_000)])
    operator.commit_together(many.names, {payments.orders: 7})
    running = many.begin(steps=63)
    running.go_on(len(many.names))
    at_300, later = many.names[300], {payments.orders: AT_7}
    eventually(lambda: operator.held(at_300)[at_300] != later)
    running.kill()

    (cut_off,) = reconcile_runs(operator.cluster, operator.state).known
    held = many.held

    made = {True: ChangeStatus.DONE, False: ChangeStatus.NOT_TRIED}
    expected = {group: made[held[group] == {payments.orders: AT_0}] for group in many.names}
    assert expected == {step.group_id: step.status for step in cut_off.outcome.steps}


def test_in_the_middle_and_undone(payments: PaymentGroups) -> None:
    """What was done is reported once, whatever the cluster is called now; undo reverts it."""
    operator = payments.operator
    payments.begin(steps=1).kill()

    renamed = replace(operator.cluster, name=operator.cluster.bootstrap_servers)
    (cut_off,) = reconcile_runs(renamed, operator.state).known
    undo = operator.undo(read_undo_record(operator.state, cut_off.outcome.run_id))

    assert "3 not tried, 1 done" == cut_off.outcome.summary
    assert [] == reconcile_runs(operator.cluster, operator.state).known
    assert (payments.names[0],) == undo.group_ids
    assert operator.apply(undo).is_done
    assert payments.at(AT_7) == payments.held


def test_another_plan_for_what_it_changed(payments: PaymentGroups) -> None:
    """Another plan for a changed group needs an override."""
    operator, both = payments.operator, payments.names[:2]
    payments.begin(steps=1).kill()
    (run_id,) = list_runs(operator.state)
    other = operator.reset(*both, to=5)
    reconcile_runs(operator.cluster, operator.state)

    refusal = operator.refusal(other, "skips-unread-records")

    assert f"run {run_id} " in refusal.problem
    assert f"'offsetbook undo {run_id}'" in refusal.hint
    assert operator.apply(other, "skips-unread-records", "cut-off-run").is_done
    assert {name: {payments.orders: Position(5, 0)} for name in both} == operator.held(*both)


def test_a_plan_for_other_groups(payments: PaymentGroups) -> None:
    """A plan for other groups is not blocked, and the run is reconciled."""
    operator, (*both, _, other) = payments.operator, payments.names
    payments.begin(operator.reset(*both), steps=1).kill()

    assert operator.apply(operator.reset(other)).is_done
    assert ["intent", "found", "intent", "outcome"] == payments.events


def test_after_all_was_done(payments: PaymentGroups) -> None:
    """A run that only lacks its outcome is found to be complete, and is not repeated."""
    operator, plan = payments.operator, payments.reset()
    payments.begin(plan, steps=4).kill()

    with pytest.raises(Blocked, match="facts-moved"):
        operator.apply(plan)

    assert payments.at(AT_0) == payments.held
    assert ["intent", "found"] == payments.events
    assert {ChangeStatus.DONE} == {step.status for step in operator.log[-1].steps}


def test_with_its_broker(payments: PaymentGroups, breakable: Any) -> None:
    """If the broker went down as well, it is asked only once it has loaded its groups."""
    operator, running = payments.operator, payments.begin(steps=1)
    breakable.kill()
    running.kill()
    breakable.start()

    (cut_off,) = reconcile_runs(operator.cluster, operator.state).known

    assert "3 not tried, 1 done" == cut_off.outcome.summary
    assert payments.at(AT_0, AT_7, AT_7, AT_7) == payments.held
