"""Applying a plan and then its undo restores exactly what was there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from applications import Applications
from operators import Operator
from plans_of_groups import Orders, copy, delete_group, delete_offsets, rename

from toolkit.model import GroupState
from toolkit.plan import Action, Plan, Position
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
    """Undo brings back offset, epoch and metadata from the record; undone, it is as applied."""
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


def test_the_topic_was_made_anew(operator: Operator, apps: Applications, orders: Orders) -> None:
    """Offsets of the earlier topic come back only where somebody insists."""
    group, topic = apps.name("payments"), orders[0].topic
    operator.commit(group, {orders[0]: 7, orders[1]: 9})
    done = operator.apply(delete_group(operator, group))
    apps.delete_topic(topic)
    apps.create_topic(topic, partitions=2, records=20)

    undo = operator.undo(read_undo_record(operator.state, done.run_id))

    assert {"topic-recreated": topic} == {f.rule: f.topic for f in undo.findings if f.topic}
    assert "override topic-recreated" in str(operator.refusal(undo).hint)
    assert operator.apply(undo, "topic-recreated").is_done
    assert {group: {orders[0]: Position(7), orders[1]: Position(9)}} == operator.held(group)
