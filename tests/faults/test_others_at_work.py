"""Members that join and operators that act while a plan is applied."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest
from payment_groups import AT_0, AT_7, PaymentGroups

from toolkit.model import TopicPartition
from toolkit.plan import ChangeStatus, Position
from toolkit.planning.changes.delete_groups import plan_delete_groups
from toolkit.storage.undo_records import list_runs

pytestmark = pytest.mark.faults("others change a group during a change")

Act = Callable[[PaymentGroups, ExitStack], None]


def join(protocol: str) -> Act:
    def act(payments: PaymentGroups, _: ExitStack) -> None:
        payments.apps.join(payments.names[2], [payments.orders.topic], protocol=protocol)

    return act


def commit(payments: PaymentGroups, _: ExitStack) -> None:
    payments.operator.commit(payments.names[2], {payments.orders: 8})


def begin_transaction(payments: PaymentGroups, ending: ExitStack) -> None:
    """Have a transaction commit for the third group, and abort it in the end."""
    ending.callback(payments.apps.pending(payments.names[2], 9, payments.orders).abort_transaction)


@pytest.mark.parametrize(
    ("act", "why", "third"),
    [
        pytest.param(join("classic"), "the group has members", AT_7, id="classic member"),
        pytest.param(join("consumer"), "the group has members", AT_7, id="consumer member"),
        pytest.param(commit, "changed since the check", Position(8), id="commit"),
        pytest.param(begin_transaction, "an open transaction", AT_7, id="transaction"),
    ],
)
def test_others_act_between_check_and_write(
    payments: PaymentGroups, act: Act, why: str, third: Position
) -> None:
    """Nothing is overwritten in the group that others change; the other groups are done."""
    with ExitStack() as ending:
        outcome = payments.apply(payments.reset(), after_first=lambda: act(payments, ending))

    done, refused = ChangeStatus.DONE, ChangeStatus.REFUSED
    assert [done, done, refused, done] == [step.status for step in outcome.steps]
    assert why in outcome.steps[2].results[0].why
    assert (False, True, "") == (outcome.is_done, outcome.changed_anything, outcome.interrupted)
    assert payments.at(AT_0, AT_0, third, AT_0) == payments.held


def test_a_new_commit_before_a_deletion(payments: PaymentGroups) -> None:
    """A group is not deleted with an offset that undo does not know."""
    operator, apps, groups = payments.operator, payments.apps, payments.names
    other = TopicPartition(apps.create_topic(apps.name("other")), 0)
    plan = plan_delete_groups(operator.facts(*groups), groups=groups)

    outcome = payments.apply(plan, after_first=lambda: operator.commit(groups[2], {other: 0}))

    assert "3 done, 1 refused" == outcome.summary
    assert {groups[2]: {payments.orders: AT_7, other: Position(0)}} == payments.held


def test_two_operators_one_after_the_other(payments: PaymentGroups) -> None:
    """While one is at work the other is blocked, and learns who it is."""
    plan = payments.reset()
    first = payments.begin(plan, steps=1)

    refusal = payments.operator.refusal(plan)
    code, last_line = payments.begin(plan).end()

    assert f"(process {first.process.pid} on " in refusal.problem
    assert 3 == code
    assert last_line.startswith("Blocked: ")
    assert (0, "4 done; ") == first.end()
    assert payments.at(AT_0) == payments.held
    assert ["intent", "outcome"] == payments.events


def test_two_operators_at_once(payments: PaymentGroups) -> None:
    """The first does everything, the second nothing."""
    plan = payments.reset()

    both = [payments.begin(plan), payments.begin(plan)]
    first, second = sorted(running.end() for running in both)

    assert ((0, "4 done; "), 3) == (first, second[0])
    assert payments.at(AT_0) == payments.held
    assert ["intent", "outcome"] == payments.events
    assert 1 == len(list_runs(payments.operator.state))


@pytest.mark.parametrize("offset", [0, 5])
def test_two_operators_with_records_of_their_own(payments: PaymentGroups, offset: int) -> None:
    """
    Operators without a common state folder do not see each other, but never undo each other.

    Here one has passed every check when the other applies the same plan, or another one: the look
    at each group right before it is written shows that it has moved.
    """
    operator, groups = payments.operator, payments.names
    other = replace(operator, state=operator.state.with_name("other"))
    with payments.before_intent(payments.reset()) as first:
        assert other.apply(other.reset(*groups, to=offset)).is_done
    before = operator.facts(*groups).commits

    assert (4, "4 refused; ") == first.end()
    assert before == operator.facts(*groups).commits
    assert all(commit.committed_at and commit.offset == offset for commit in before)
    assert {ChangeStatus.REFUSED} == {step.status for step in operator.log[-1].steps}
    assert [2, 2] == [len(operator.log), len(other.log)]
