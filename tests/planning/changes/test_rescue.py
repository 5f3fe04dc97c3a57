"""What keeps an offset from expiring depends on the group's type and state."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from facts import changes, idle, live, member, rules, snapshot

from toolkit.model import Commit, Group, GroupType, Problem, TopicPartition
from toolkit.plan import Action, Change, Position
from toolkit.planning.changes.rescue import plan_rescue

COMMIT = Commit("g", "orders", 0, 10, 3, "mine")
SAME = Position(10, 3, "mine")


@pytest.mark.parametrize(
    ("group_type", "action"),
    [
        (GroupType.SIMPLE, Action.COMMIT),
        (GroupType.CONSUMER, Action.COMMIT),
        (GroupType.STREAMS, Action.COMMIT),
        (GroupType.CLASSIC, Action.REJOIN),
    ],
)
def test_each_type_has_its_own_clock(group_type: GroupType, action: Action) -> None:
    """The same position is committed again, or a member of ours joins and leaves."""
    facts = snapshot(idle(kind=group_type), commits=(COMMIT,))
    plan = plan_rescue(facts, groups=["g"], retention_s=604_800)

    (step,) = plan.steps
    why = "re-committed unchanged to reset retention: expires 7 d after the rescue at the earliest"
    assert (action, (Change(TopicPartition("orders", 0), SAME, SAME, why),)) == (
        step.action,
        step.changes,
    )
    assert ((), "rescue g from expiry") == (plan.findings, plan.request)


@pytest.mark.parametrize(
    ("group", "rule", "says"),
    [
        (live("g", member("orders")), "not-expiring", "it subscribes to all their topics"),
        (live("g", member(), protocol_type="connect"), "not-expiring", "no offset expires while"),
        (
            live("g", member("audit")),
            "cannot-rescue",
            "offsets of unsubscribed topics orders will expire",
        ),
        (live("g", member(unreadable="it is custom")), "cannot-rescue", "it is custom"),
    ],
)
def test_a_live_group_is_not_rescued_from_outside(group: Group, rule: str, says: str) -> None:
    """What it subscribes to does not expire, and the rest only a member could commit."""
    plan = plan_rescue(snapshot(group, commits=(COMMIT,)), groups=["*"])

    assert ([(rule, "note")], ()) == (rules(plan), plan.steps)
    assert says in plan.findings[0].why


def test_a_live_group_without_offsets_is_not_spoken_of() -> None:
    """There is nothing that could expire."""
    assert () == plan_rescue(snapshot(live("g", member("orders"))), groups=["*"]).findings


@pytest.mark.parametrize("group_type", [GroupType.CLASSIC, GroupType.SHARE, GroupType.SIMPLE])
def test_an_idle_group_without_offsets_has_nothing_to_rescue(group_type: GroupType) -> None:
    """An empty group, and a share group at any time."""
    plan = plan_rescue(snapshot(idle(kind=group_type)), groups=["g"])

    assert ([("no-commit", "note")], ()) == (rules(plan), plan.steps)


def test_a_pending_commit_is_left_to_its_transaction() -> None:
    """It does not expire meanwhile, and a commit could make the transaction's offset lost."""
    group = idle(kind=GroupType.SIMPLE)
    other = replace(COMMIT, partition=1, pending=True)
    plan = plan_rescue(snapshot(group, commits=(COMMIT, other)), groups=["g"])

    assert [("pending-transaction", "note")] == rules(plan)
    assert [0] == [change.partition.partition for change in changes(plan)]


@pytest.mark.parametrize(
    ("changed", "name", "rule"),
    [
        (
            {"problems": (Problem("committed offset", "denied", "g", "orders", 1),)},
            "g",
            "unreadable",
        ),
        ({"groups": (idle(kind=GroupType.UNKNOWN),)}, "g", "unreadable"),
        ({}, "h", "no-such-group"),
    ],
)
def test_what_could_not_be_read_blocks(changed: dict[str, Any], name: str, rule: str) -> None:
    """Offsets that were not read, types that are not known, and missing groups are said."""
    facts = replace(snapshot(idle(kind=GroupType.SIMPLE), commits=(COMMIT,)), **changed)

    assert [(rule, "block")] == rules(plan_rescue(facts, groups=[name]))
