"""What keeps an offset from expiring depends on the group's type and state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from facts import changes, idle, live, member, rules, snapshot

from toolkit.model import Commit, Group, GroupType, Problem, Snapshot, TopicPartition
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


def test_a_pending_commit_is_left_to_its_transaction() -> None:
    """It does not expire meanwhile, and a commit could make the transaction's offset lost."""
    group = idle(kind=GroupType.SIMPLE)
    other = replace(COMMIT, partition=1, pending=True)
    plan = plan_rescue(snapshot(group, commits=(COMMIT, other)), groups=["g"])

    assert [("pending-transaction", "note")] == rules(plan)
    assert [0] == [change.partition.partition for change in changes(plan)]


UNREAD = Problem("committed offset", "denied", "g", "orders", 1)
SIMPLE = snapshot(idle(kind=GroupType.SIMPLE), commits=(COMMIT,))


@pytest.mark.parametrize(
    ("facts", "name", "found"),
    [
        (snapshot(live("g", member("orders"))), "*", []),
        *(
            (snapshot(idle(kind=kind)), "g", [("no-commit", "note")])
            for kind in (GroupType.CLASSIC, GroupType.SHARE, GroupType.SIMPLE)
        ),
        (replace(SIMPLE, problems=(UNREAD,)), "g", [("unreadable", "block")]),
        (replace(SIMPLE, groups=(idle(kind=GroupType.UNKNOWN),)), "g", [("unreadable", "block")]),
        (SIMPLE, "h", [("no-such-group", "block")]),
    ],
)
def test_what_there_is_nothing_to_rescue_of(
    facts: Snapshot, name: str, found: list[tuple[str, str]]
) -> None:
    """A live group without offsets is not spoken of; one that was not read or is missing blocks."""
    assert found == rules(plan_rescue(facts, groups=[name]))
