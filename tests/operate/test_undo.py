"""Applying a plan and then its undo restores exactly what was there."""

from collections.abc import Callable
from typing import Any

import pytest
from applications import Applications, eventually
from operators import Operator
from plans_of_groups import Orders, copy, delete_group, delete_offsets, rename, with_long_metadata

from toolkit.model import GroupState
from toolkit.operate import apply
from toolkit.plan import Action, ChangeStatus, Intent, Plan, Position
from toolkit.planning.changes.delete_offsets import plan_delete_unsubscribed
from toolkit.planning.changes.reset import plan_reset
from toolkit.planning.changes.targets import ToOffset
from toolkit.storage.undo_records import read_undo_record


@pytest.mark.parametrize(
    ("make", "having_all"),
    [
        (Operator.reset, []),
        (delete_offsets, []),
        (delete_group, []),
        (copy, ["", "-copy"]),
        (rename, ["-new"]),
    ],
)
def test_undo_and_its_undo(
    operator: Operator,
    apps: Applications,
    orders: Orders,
    make: Callable[[Operator, str], Plan],
    having_all: list[str],
) -> None:
    """Undo restores offset, epoch and metadata from the record; its undo applies them again."""
    group = apps.name("payments")
    positions = {orders[0]: Position(7, 0, "a note"), orders[1]: Position(10)}
    operator.commit(group, positions)
    plan = make(operator, group)
    names = (group, f"{group}-copy", f"{group}-new")
    overrides = ("last-offsets",) if make is delete_offsets else ()

    outcome = operator.apply(plan, *overrides)
    after = operator.held(*names)
    undo = operator.undo(read_undo_record(operator.state, outcome.run_id))
    undone = operator.apply(undo)
    restored = operator.held(*names)
    again = operator.undo(read_undo_record(operator.state, undone.run_id))
    redone = operator.apply(again, *overrides)

    assert [group + suffix for suffix in having_all] == [
        name for name, held in after.items() if held == positions
    ]
    assert ({group: positions}, after) == (restored, operator.held(*names))
    assert [True] * 3 == [one.is_done for one in (outcome, undone, redone)]
    assert 6 == len(operator.log)


def test_a_deleted_classic_group_comes_back(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """A group that had members is restored as Empty with its commits, and can be joined."""
    group = apps.name("payments")
    apps.join(group, [orders[0].topic]).close()
    apps.eventually(lambda: operator.facts(group).groups[0].state is GroupState.EMPTY)
    operator.commit(group, {orders[0]: Position(7, 0, "a note")})
    plan = delete_group(operator, group)
    change = operator.session.undo(operator.apply(plan).run_id)
    undo = change.plan

    assert () == change.facts.problems  # that it does not exist is what is undone
    assert [Action.COMMIT] == [step.action for step in undo.steps]
    assert ["comes-back-simple", "no-commit"] == [finding.rule for finding in undo.findings]
    assert operator.apply(undo).is_done
    assert {group: {orders[0]: Position(7, 0, "a note")}} == operator.held(group)
    apps.join(group, [orders[0].topic])
    assert [GroupState.STABLE] == [found.state for found in operator.facts(group).groups]


def test_the_topic_was_recreated(operator: Operator, apps: Applications, orders: Orders) -> None:
    """Offsets of the earlier topic are restored only with an override."""
    group, topic = apps.name("payments"), orders[0].topic
    operator.commit(group, {orders[0]: 7, orders[1]: 9})
    done = operator.apply(delete_group(operator, group))
    apps.delete_topic(topic)
    apps.create_topic(topic, partitions=2, records=20)

    undo = operator.undo(read_undo_record(operator.state, done.run_id))

    assert {"topic-recreated": topic} == {f.rule: f.topic for f in undo.findings if f.topic}
    assert "override topic-recreated" in str(operator.refusal(undo).hint)
    assert operator.apply(undo, "topic-recreated").is_done
    back = {orders[0]: Position(7, 0), orders[1]: Position(9, 0)}  # the epoch of the new log
    assert {group: back} == operator.held(group)


def test_unchanged_partitions_are_not_undone(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """Partitions that a broker refused stay as they are, however far the group has read since."""
    group = apps.name("payments")
    operator.commit(group, dict.fromkeys(orders, 7))
    in_part = operator.apply(with_long_metadata(operator.reset(group), orders[1]))
    operator.commit(group, {orders[1]: 9})

    idle = operator.session.undo(in_part.run_id).plan
    apps.join(group, [orders[0].topic])
    live = operator.session.undo(in_part.run_id).plan

    assert "1 done, 1 refused" == in_part.summary
    assert [orders[0]] == [change.partition for _, change in idle.changes]
    assert () == idle.findings
    assert [orders[0]] == [change.partition for _, change in live.changes]


def test_a_group_that_has_read_on_is_left_out(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """It blocks the undo of the whole run; the others are undone without it, and it alone later."""
    groups = [apps.name("payments") for _ in range(3)]
    operator.commit_together(groups, {orders[0]: 7})
    run = operator.apply(operator.reset(*groups)).run_id
    apps.join(groups[0], [orders[0].topic])

    whole = operator.session.undo(run)
    others = operator.session.undo(run, groups=groups[1:])
    alone = operator.session.undo(run, groups=groups[:1])

    assert {"group-live", "moved-since"}.intersection(whole.decide().blocked_by)
    (way,) = (finding.why for finding in whole.findings if finding.rule == "undo-others")
    assert way.startswith(f"blocked for {groups[0]}. ")
    assert ((), {*groups[1:]}) == (others.findings, {*others.plan.group_ids})
    assert operator.apply(others.plan).is_done
    assert [{orders[0]: Position(7)}] * 2 == [operator.held(name)[name] for name in groups[1:]]
    assert (Intent.MOVE, True) == (alone.plan.intent, alone.live is not None)


def test_first_commits_of_a_live_group_stay(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """They cannot be deleted while the group is live, and that is reported."""
    group = apps.name("payments")
    operator.commit(group, {orders[0]: 7})
    facts = operator.facts(group, topics=(orders[0].topic,))
    both = plan_reset(facts, ToOffset(2), groups=[group], topics=[orders[0].topic], new_topics=True)
    run = operator.apply(both, "skips-unread-records").run_id
    apps.join(group, [orders[0].topic])

    undo = operator.session.undo(run).plan

    assert [orders[0]] == [change.partition for _, change in undo.changes]
    assert "stays-committed" in {finding.rule for finding in undo.findings}


def test_an_undo_that_a_live_group_does_not_need(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """It is back at its offsets, as after a replay; that is reported, and is no empty plan."""
    group = apps.name("payments")
    operator.commit(group, {orders[0]: 7})
    run = operator.apply(operator.reset(group)).run_id
    operator.commit(group, {orders[0]: 7})
    apps.join(group, [orders[0].topic])

    undo = operator.session.undo(run).plan

    told = [(finding.rule, finding.why) for finding in undo.findings]
    assert ([("nothing-to-undo", "everything is already as before the run")], ()) == (
        told,
        undo.steps,
    )


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_unsubscribed_offsets_of_a_live_group_are_restored(
    operator: Operator, apps: Applications, orders: Orders, protocol: str
) -> None:
    """Deleted offsets of topics without subscription are those of live groups; so is undo."""
    group = apps.name("payments")
    operator.commit(group, dict.fromkeys(orders, 7))
    before = operator.held(group)
    apps.join(group, [apps.create_topic(apps.name("read"))], protocol=protocol)
    plan = plan_delete_unsubscribed(operator.facts(group), groups=[group])
    run = operator.apply(plan, "last-offsets").run_id
    assert {group: {}} == operator.held(group)

    undo = operator.session.undo(run).plan

    assert {Action.MOVE} == {step.action for step in undo.steps}
    assert operator.apply(undo).is_done
    assert before == operator.held(group)


def test_offsets_of_a_newly_subscribed_topic_are_not_written(
    operator: Operator,
    apps: Applications,
    orders: Orders,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer that joins meanwhile has its position, and would overwrite them."""
    group = apps.name("payments")
    operator.commit(group, dict.fromkeys(orders, 7))
    consumer = apps.join(group, [apps.create_topic(apps.name("read"))])
    plan = operator.reset(group)
    check = apply.reread_facts

    def check_and_subscribe(*given: Any, **more: Any) -> Any:
        case = check(*given, **more)
        consumer.subscribe([orders[0].topic])
        eventually(lambda: consumer.poll(0.1) is None and orders[0].topic in topics_of(consumer))
        return case

    monkeypatch.setattr(apply, "reread_facts", check_and_subscribe)

    outcome = operator.apply(plan)

    assert {ChangeStatus.REFUSED} == {step.status for step in outcome.steps}
    assert {7} == {position.offset for position in operator.held(group)[group].values()}


def topics_of(consumer: Any) -> set[str]:
    return {place.topic for place in consumer.assignment()}


def test_a_refused_run_leaves_nothing_to_undo(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """Its undo record has a plan of which no change was made."""
    group = apps.name("payments")
    operator.commit(group, {orders[0]: 7})
    refused = operator.apply(with_long_metadata(operator.reset(group), orders[0]))
    apps.join(group, [orders[0].topic])

    undo = operator.session.undo(refused.run_id).plan

    assert "1 refused" == refused.summary
    assert ["nothing-to-undo: the run changed nothing"] == [
        f"{f.rule}: {f.why}" for f in undo.findings
    ]
    assert () == undo.steps
