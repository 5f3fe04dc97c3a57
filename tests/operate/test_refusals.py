"""What is refused before anything is changed or recorded, on a real cluster."""

from dataclasses import replace
from datetime import timedelta

import pytest
from applications import Applications
from operators import Operator
from plans_of_groups import Orders

from toolkit.errors import Blocked
from toolkit.plan import Position
from toolkit.plan.approvals import WATCH, Approval
from toolkit.planning.changes.delete_offsets import plan_delete_offsets
from toolkit.planning.changes.targets import ToLatest


@pytest.fixture
def payments(operator: Operator, apps: Applications, orders: Orders) -> str:
    """Return an idle group that has read 7 of 10 records of the first partition."""
    group = apps.name("payments")
    operator.commit(group, {orders[0]: 7})
    return group


def test_an_approval_is_for_one_plan(operator: Operator, payments: str) -> None:
    """The fingerprint of another plan, or none, approves nothing."""
    plan, other = operator.reset(payments), operator.reset(payments, to=1)

    for fingerprint in (other.fingerprint, "", plan.fingerprint[:8]):
        refusal = operator.refusal(plan, fingerprint=fingerprint)
        assert isinstance(refusal, Blocked)
        assert plan.fingerprint in refusal.problem


def test_a_reason_is_required(operator: Operator, payments: str) -> None:
    """Without a reason nothing is changed."""
    assert "no reason given" in operator.refusal(operator.reset(payments), reason="...").problem


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_live_group(
    operator: Operator, apps: Applications, payments: str, orders: Orders, protocol: str
) -> None:
    """A group with members is blocked, naming them, also if they joined after the plan."""
    other = apps.name("other")
    operator.commit(other, {orders[0]: 7})
    planned_idle = operator.reset(payments, other)
    apps.join(payments, [orders[0].topic], protocol=protocol)

    for plan in (planned_idle, operator.reset(payments)):
        refusal = operator.refusal(plan)
        assert isinstance(refusal, Blocked)
        assert (
            f"group-live ({payments}): group is Stable; members: {payments}-client"
        ) in refusal.problem


def test_moved_facts(operator: Operator, payments: str, orders: Orders) -> None:
    """An offset that differs from the plan's, or has other metadata, is blocked."""
    plan = operator.reset(payments)

    operator.commit(payments, {orders[0]: Position(7, None, "mine")})
    assert "facts-moved" in operator.refusal(plan, "keeps-committing").problem

    operator.commit(payments, {orders[0]: 8})
    refusal = operator.refusal(plan, "keeps-committing")
    assert "committed offset is 8, but the plan expects 7" in refusal.problem
    assert "make a new plan from the current state" == refusal.hint


def test_a_change_of_another_operator_is_named(operator: Operator, payments: str) -> None:
    """The operator does not have to look for a client that does not exist."""
    plans = [operator.reset(payments), operator.reset(payments, to=3)]
    first = operator.apply(plans[0], "keeps-committing")
    assert first.is_done

    for plan in plans:
        why = operator.refusal(plan, "keeps-committing").problem
        assert f"; changed since the plan was made by run {first.run_id} by " in why


def test_a_consumer_without_membership_that_stands_still(
    operator: Operator, apps: Applications, payments: str, orders: Orders
) -> None:
    """An assign() consumer that commits the same offset again is noticed by the commit time."""
    plan = operator.reset(payments)
    consumer = apps.consumer(payments)
    place = apps.position(orders[0], 7)
    consumer.assign([place])
    consumer.commit(offsets=[place], asynchronous=False)

    refusal = operator.refusal(plan)

    assert "keeps-committing" in refusal.problem
    assert "running assign() consumer" in refusal.problem


@pytest.mark.live("a consumer runs")
def test_a_consumer_without_membership_at_work(
    operator: Operator, apps: Applications, payments: str, orders: Orders
) -> None:
    """An assign() consumer that commits every 5 s is noticed within the default watch."""
    consumer = apps.consumer(payments, **{"enable.auto.commit": True})
    consumer.assign([apps.position(orders[0], 7)])
    apps.eventually(lambda: consumer.poll(0.1))
    # The next commit is due 5 s after this one, so within the watch that begins with the plan.
    apps.eventually(lambda: operator.held(payments)[payments][orders[0]] != Position(7))
    plan = operator.reset(payments)
    apps.eventually(lambda: consumer.poll(0.1))

    with pytest.raises(Blocked, match="keeps-committing"):
        operator.apply(plan, watch=WATCH)

    assert 9 == operator.held(payments)[payments][orders[0]].offset
    assert [] == operator.log


def test_two_samples_are_apart(operator: Operator, payments: str) -> None:
    """A group with recent commits is sampled again after the whole watch."""
    plan, watch = operator.reset(payments), timedelta(seconds=1)

    outcome = operator.apply(plan, watch=watch)

    assert outcome.is_done
    assert plan.made_at + watch <= outcome.started_at
    assert timedelta(seconds=6) == WATCH == Approval(plan.fingerprint, "a test").watch


def test_a_subscribed_topic(
    operator: Operator, apps: Applications, payments: str, orders: Orders
) -> None:
    """Offsets of a topic that was subscribed to after the plan are not deleted."""
    topic = orders[0].topic
    plan = plan_delete_offsets(operator.facts(payments), groups=[payments], topics=[topic])
    apps.join(payments, [topic])

    refusal = operator.refusal(plan, "last-offsets")

    assert f"subscribed ({payments}): subscribed by {payments}-client" in refusal.problem


def test_an_override(operator: Operator, payments: str, orders: Orders) -> None:
    """It overrides the named rule, lifts no limit, and is in the audit log."""
    limited = operator.with_policy(max_records_skipped=2)
    plan = operator.reset(payments, to=ToLatest())

    assert "skips-unread-records" in operator.refusal(plan).problem
    refusal = limited.refusal(plan, "skips-unread-records")
    assert "3 records skipped; max_records_skipped is 2" in refusal.problem

    outcome = operator.apply(plan, "skips-unread-records")

    assert "1 done" == outcome.summary
    assert {payments: {orders[0]: Position(10, 0)}} == operator.held(payments)
    assert [("skips-unread-records",)] * 2 == [entry.run.overrides for entry in operator.log]


def test_the_policy_of_the_fleet_file(operator: Operator, payments: str) -> None:
    """It holds when a plan is applied."""
    limited = operator.with_policy(read_only=True)
    assert "read-only" in limited.refusal(operator.reset(payments)).problem


def test_another_cluster(operator: Operator, payments: str) -> None:
    """A plan for another cluster is blocked, even if both have the group."""
    plan = replace(operator.reset(payments), cluster_id="another")

    assert "wrong-cluster" in operator.refusal(plan).problem
