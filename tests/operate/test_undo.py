"""Applying a plan and then its undo restores exactly what was there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from applications import Applications
from operators import Operator
from plans_of_groups import copy, delete_group, delete_offsets, rename

from toolkit.model import GroupState, TopicPartition
from toolkit.plan import Action, Plan, Position
from toolkit.planning.changes.restore import plan_restore
from toolkit.storage.offsets_files import read_offsets, saved_offsets, write_json
from toolkit.storage.undo_records import read_undo_record

Orders = tuple[TopicPartition, TopicPartition]


@pytest.mark.parametrize("make", [Operator.reset, delete_offsets, delete_group, copy, rename])
def test_undo_and_its_undo(
    operator: Operator, apps: Applications, orders: Orders, make: Callable[[Operator, str], Plan]
) -> None:
    """Undo brings back offset, epoch and metadata from the record; undone, it is as applied."""
    group = apps.name("payments")
    operator.commit(group, {orders[0]: Position(7, 0, "a note"), orders[1]: Position(10)})
    plan = make(operator, group)
    names = (group, f"{group}-copy", f"{group}-new")
    overrides = ("last-offsets",) if make is delete_offsets else ()
    before = operator.held(*names)

    outcome = operator.apply(plan, *overrides)
    after = operator.held(*names)
    undo = operator.undo(read_undo_record(operator.state, outcome.run_id))
    undone = operator.apply(undo)
    restored = operator.held(*names)
    again = operator.undo(read_undo_record(operator.state, undone.run_id))
    redone = operator.apply(again, *overrides)

    assert before != after
    assert before == restored
    assert after == operator.held(*names)
    assert outcome.is_done
    assert undone.is_done
    assert redone.is_done
    assert 6 == len(operator.log)


def test_undo_of_what_a_member_joined_since(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """A group that is live by then is not put back."""
    group = apps.name("payments")
    operator.commit(group, {orders[0]: 7})
    plan = operator.reset(group)
    operator.apply(plan)
    apps.join(group, [orders[0].topic])

    assert "group-live" in operator.refusal(operator.undo(plan)).problem


def test_a_deleted_classic_group_comes_back(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """A group that had members comes back Empty with its commits, and may be joined again."""
    group = apps.name("payments")
    apps.join(group, [orders[0].topic]).close()
    apps.eventually(lambda: operator.facts(group).groups[0].state is GroupState.EMPTY)
    operator.commit(group, {orders[0]: Position(7, 0, "a note")})
    plan = delete_group(operator, group)
    change = operator.session.undo(operator.apply(plan).run_id)
    undo = change.plan

    assert () == change.facts.problems  # that it does not exist is what is undone
    assert [Action.COMMIT] == [step.action for step in undo.steps]
    assert ["comes-back-simple"] == [finding.rule for finding in undo.findings]
    assert operator.apply(undo).is_done
    assert {group: {orders[0]: Position(7, 0, "a note")}} == operator.held(group)
    apps.join(group, [orders[0].topic])
    assert [GroupState.STABLE] == [found.state for found in operator.facts(group).groups]


@pytest.mark.parametrize("make", [delete_offsets, delete_group])
def test_the_topic_was_made_anew(
    operator: Operator, apps: Applications, orders: Orders, make: Callable[[Operator, str], Plan]
) -> None:
    """Offsets of the earlier topic come back only where somebody insists."""
    group, topic = apps.name("payments"), orders[0].topic
    operator.commit(group, {orders[0]: 7, orders[1]: 9})
    plan = make(operator, group)
    done = operator.apply(plan, *(("last-offsets",) if make is delete_offsets else ()))
    apps.delete_topic(topic)
    apps.create_topic(topic, partitions=2, records=20)

    undo = operator.undo(read_undo_record(operator.state, done.run_id))

    assert {"topic-recreated": topic} == {f.rule: f.topic for f in undo.findings if f.topic}
    assert "override topic-recreated" in str(operator.refusal(undo).hint)
    assert operator.apply(undo, "topic-recreated").is_done
    assert {group: {orders[0]: Position(7), orders[1]: Position(9)}} == operator.held(group)


def test_the_topic_was_made_anew_since_the_undo_was_planned(
    operator: Operator, apps: Applications, orders: Orders
) -> None:
    """What is applied is looked at again."""
    group, topic = apps.name("payments"), orders[0].topic
    operator.commit(group, {orders[0]: 7})
    plan = delete_group(operator, group)
    operator.apply(plan)
    undo = operator.undo(plan)
    apps.delete_topic(topic)
    apps.create_topic(topic, partitions=2, records=20)

    assert "topic-recreated" in operator.refusal(undo).problem
    assert {} == operator.held(group)


def test_a_backup_of_a_topic_that_was_made_anew(
    operator: Operator, apps: Applications, orders: Orders, tmp_path: Path
) -> None:
    """The file knows of which topic its offsets are."""
    group, topic = apps.name("payments"), orders[0].topic
    operator.commit(group, {orders[0]: 7})
    write_json(tmp_path / "saved.json", saved_offsets(operator.facts(group), [group]))
    saved = read_offsets(tmp_path / "saved.json")
    operator.commit(group, {orders[0]: 9})
    same = plan_restore(operator.facts(group, topics=(topic,)), saved)
    apps.delete_topic(topic)
    apps.create_topic(topic, partitions=2, records=20)
    other = plan_restore(operator.facts(group, topics=(topic,)), saved)

    assert () == same.findings
    assert [topic] == [f.topic for f in other.findings if f.rule == "topic-recreated"]
