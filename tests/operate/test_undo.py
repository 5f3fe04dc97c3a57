"""Applying a plan and then its undo restores exactly what was there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from applications import Applications
from desks import Desk

from toolkit.model import GroupState, TopicPartition
from toolkit.plan import Action, Plan, Position
from toolkit.planning.changes.copy import plan_copy, plan_rename
from toolkit.planning.changes.delete_groups import plan_delete_groups
from toolkit.planning.changes.delete_offsets import plan_delete_offsets
from toolkit.planning.changes.restore import plan_restore
from toolkit.storage.offsets_files import read_offsets, saved_offsets, write_json
from toolkit.storage.undo_records import read_undo_record

Orders = tuple[TopicPartition, TopicPartition]


def delete_offsets(desk: Desk, group: str) -> Plan:
    """Plan to delete all that a group has committed."""
    return plan_delete_offsets(desk.facts(group), groups=[group], all_topics=True)


def delete_group(desk: Desk, group: str) -> Plan:
    """Plan to delete a group."""
    return plan_delete_groups(desk.facts(group), groups=[group])


def copy(desk: Desk, group: str) -> Plan:
    """Plan to copy a group."""
    target = f"{group}-copy"
    return plan_copy(desk.facts(group, target), source=group, target=target)


def rename(desk: Desk, group: str) -> Plan:
    """Plan to rename a group."""
    target = f"{group}-new"
    return plan_rename(desk.facts(group, target), source=group, target=target)


@pytest.mark.parametrize("make", [Desk.reset, delete_offsets, delete_group, copy, rename])
def test_undo_and_its_undo(
    desk: Desk, apps: Applications, orders: Orders, make: Callable[[Desk, str], Plan]
) -> None:
    """Undo brings back offset, epoch and metadata from the record; undone, it is as applied."""
    group = apps.name("payments")
    desk.commit(group, {orders[0]: Position(7, 0, "a note"), orders[1]: Position(10)})
    plan = make(desk, group)
    names = (group, f"{group}-copy", f"{group}-new")
    overrides = ("last-offsets",) if make is delete_offsets else ()
    before = desk.held(*names)

    outcome = desk.apply(plan, *overrides)
    after = desk.held(*names)
    undo = desk.undo(read_undo_record(desk.state, outcome.run_id))
    undone = desk.apply(undo)
    restored = desk.held(*names)
    again = desk.undo(read_undo_record(desk.state, undone.run_id))
    redone = desk.apply(again, *overrides)

    assert before != after
    assert before == restored
    assert after == desk.held(*names)
    assert outcome.is_done
    assert undone.is_done
    assert redone.is_done
    assert 6 == len(desk.log)


def test_undo_of_what_a_member_joined_since(desk: Desk, apps: Applications, orders: Orders) -> None:
    """A group that is live by then is not put back."""
    group = apps.name("payments")
    desk.commit(group, {orders[0]: 7})
    plan = desk.reset(group)
    desk.apply(plan)
    apps.join(group, [orders[0].topic])

    assert "group-live" in desk.refusal(desk.undo(plan)).problem


def test_a_deleted_classic_group_comes_back(desk: Desk, apps: Applications, orders: Orders) -> None:
    """A group that had members comes back Empty with its commits, and may be joined again."""
    group = apps.name("payments")
    apps.join(group, [orders[0].topic]).close()
    apps.eventually(lambda: desk.facts(group).groups[0].state is GroupState.EMPTY)
    desk.commit(group, {orders[0]: Position(7, 0, "a note")})
    plan = delete_group(desk, group)
    desk.apply(plan)

    undo = desk.undo(plan)

    assert [Action.COMMIT] == [step.action for step in undo.steps]
    assert ["comes-back-simple"] == [finding.rule for finding in undo.findings]
    assert desk.apply(undo).is_done
    assert {group: {orders[0]: Position(7, 0, "a note")}} == desk.held(group)
    apps.join(group, [orders[0].topic])
    assert [GroupState.STABLE] == [found.state for found in desk.facts(group).groups]


@pytest.mark.parametrize("make", [delete_offsets, delete_group])
def test_the_topic_was_made_anew(
    desk: Desk, apps: Applications, orders: Orders, make: Callable[[Desk, str], Plan]
) -> None:
    """Offsets of the earlier topic come back only where somebody insists."""
    group, topic = apps.name("payments"), orders[0].topic
    desk.commit(group, {orders[0]: 7, orders[1]: 9})
    plan = make(desk, group)
    done = desk.apply(plan, *(("last-offsets",) if make is delete_offsets else ()))
    apps.delete_topic(topic)
    apps.create_topic(topic, partitions=2, records=20)

    undo = desk.undo(read_undo_record(desk.state, done.run_id))

    assert {"topic-recreated": topic} == {f.rule: f.topic for f in undo.findings if f.topic}
    assert "override topic-recreated" in str(desk.refusal(undo).hint)
    assert desk.apply(undo, "topic-recreated").is_done
    assert {group: {orders[0]: Position(7), orders[1]: Position(9)}} == desk.held(group)


def test_the_topic_was_made_anew_since_the_undo_was_planned(
    desk: Desk, apps: Applications, orders: Orders
) -> None:
    """What is applied is looked at again."""
    group, topic = apps.name("payments"), orders[0].topic
    desk.commit(group, {orders[0]: 7})
    plan = delete_group(desk, group)
    desk.apply(plan)
    undo = desk.undo(plan)
    apps.delete_topic(topic)
    apps.create_topic(topic, partitions=2, records=20)

    assert "topic-recreated" in desk.refusal(undo).problem
    assert {} == desk.held(group)


def test_a_backup_of_a_topic_that_was_made_anew(
    desk: Desk, apps: Applications, orders: Orders, tmp_path: Path
) -> None:
    """The file knows of which topic its offsets are."""
    group, topic = apps.name("payments"), orders[0].topic
    desk.commit(group, {orders[0]: 7})
    write_json(tmp_path / "saved.json", saved_offsets(desk.facts(group), [group]))
    saved = read_offsets(tmp_path / "saved.json")
    desk.commit(group, {orders[0]: 9})
    same = plan_restore(desk.facts(group, topics=(topic,)), saved)
    apps.delete_topic(topic)
    apps.create_topic(topic, partitions=2, records=20)
    other = plan_restore(desk.facts(group, topics=(topic,)), saved)

    assert () == same.findings
    assert [topic] == [f.topic for f in other.findings if f.rule == "topic-recreated"]
