"""What keeps an offset from expiring depends on the group's type and state."""

from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from facts import NOON, changes, idle, live, member, rules, snapshot

from toolkit.model import Commit, Group, GroupType, Problem, Snapshot, TopicPartition, Unread
from toolkit.model.snapshot import NO_TOPIC
from toolkit.plan import Action, Change, Position
from toolkit.planning.changes.rescue import leave_out_lost_groups, plan_rescue

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
def test_each_group_type_has_its_own_retention_timer(group_type: GroupType, action: Action) -> None:
    """The same position is committed again, or a sentinel joins and leaves."""
    facts = snapshot(idle(kind=group_type), commits=(COMMIT,))
    plan = plan_rescue(facts, groups=["g"], retention_s=604_800)

    how = {Action.COMMIT: "re-committed unchanged", Action.REJOIN: "a member joins and leaves"}
    why = f"{how[action]} to reset retention: expires 7 d after the rescue at the earliest"
    change = Change(TopicPartition("orders", 0), SAME, SAME, why)
    assert [(action, change)] == [(step.action, change) for step, change in plan.changes]
    assert ((), "rescue g from expiry") == (plan.findings, plan.request)


def test_a_pending_commit_is_left_to_its_transaction() -> None:
    """It does not expire meanwhile, and a commit could make the transaction's offset lost."""
    group = idle(kind=GroupType.SIMPLE)
    other = replace(COMMIT, partition=1, pending=True)
    plan = plan_rescue(snapshot(group, commits=(other, COMMIT)), groups=["g"])

    assert [("pending-transaction", "note")] == rules(plan)
    assert [(0, "re-committed unchanged to reset retention")] == [
        (change.partition.partition, change.why) for change in changes(plan)
    ]


def test_a_commit_that_was_not_read_blocks() -> None:
    """It is not taken for a missing one; the one that was read is planned."""
    plan = plan_rescue(committed(SIMPLE, problems=(UNREAD,)), groups=["g"])

    assert (UNREADABLE, 1) == (rules(plan), len(plan.steps))


def committed(*groups: Group, **fields: Any) -> Snapshot:
    """Return the facts of groups, of which g has one commit."""
    return replace(snapshot(*groups, commits=(COMMIT,)), **fields)


SIMPLE = idle(kind=GroupType.SIMPLE)
UNREAD = Problem(Unread.COMMIT, "denied", "g", "orders", 1)
LEFT = "offsets of unsubscribed topics orders will expire"
NOT_EXPIRING, CANNOT = [("not-expiring", "note")], [("cannot-rescue", "note")]
UNREADABLE, NO_COMMIT = [("unreadable", "block")], [("no-commit", "note")]


@pytest.mark.parametrize(
    ("facts", "name", "found", "says"),
    [
        # What a live group subscribes to does not expire; the rest only a member could commit.
        (committed(live("g", member("orders"))), "*", NOT_EXPIRING, "to all their topics"),
        (committed(live("g", member(), protocol_type="connect")), "*", NOT_EXPIRING, "while"),
        (committed(live("g", member("audit"))), "*", CANNOT, LEFT),
        (committed(live("g", member(unreadable="it is custom"))), "*", CANNOT, "it is custom"),
        # A live group without offsets is not spoken of.
        (snapshot(live("g", member("orders"))), "*", [], ""),
        *(
            (snapshot(idle(kind=kind)), "g", NO_COMMIT, "")
            for kind in (GroupType.CLASSIC, GroupType.SHARE, GroupType.SIMPLE)
        ),
        (committed(idle(kind=GroupType.UNKNOWN)), "g", UNREADABLE, ""),
        (committed(SIMPLE), "h", [("no-such-group", "block")], ""),
    ],
)
def test_groups_without_anything_to_rescue(
    facts: Snapshot, name: str, found: list[tuple[str, str]], says: str
) -> None:
    """No step is planned, with the reason; a group of unknown type or that is missing blocks."""
    plan = plan_rescue(facts, groups=[name])

    assert (found, ()) == (rules(plan), plan.steps)
    assert says in "".join(finding.why for finding in plan.findings)


def test_a_lost_group_does_not_stop_the_others_of_a_forecast() -> None:
    """What is gone is noted; what cannot be read has no step, and the plan is incomplete."""
    groups = (SIMPLE, idle("u", GroupType.UNKNOWN), idle("half", GroupType.SIMPLE))
    commits = [replace(COMMIT, group_id=group.group_id) for group in groups]
    unread = replace(UNREAD, group_id="half")
    facts = committed(*groups, commits=tuple(commits), problems=(unread,))
    plan = leave_out_lost_groups(plan_rescue(facts, groups=["g", "gone", "half", "u"]))

    assert ["g"] == [step.group_id for step in plan.steps]
    found = {finding.group_id: (finding.rule, str(finding.severity)) for finding in plan.findings}
    incomplete = ("incomplete", "note")
    assert {"gone": ("no-such-group", "note"), "half": incomplete, "u": incomplete} == found
    unlisted = Problem(Unread.GROUPS, "broker 2 did not answer")
    unknown = plan_rescue(replace(facts, problems=(unlisted,)), groups=["gone"])
    assert [incomplete] == rules(leave_out_lost_groups(unknown))


@pytest.mark.parametrize(
    ("kind", "expires_at", "found", "planned"),
    [
        (GroupType.SIMPLE, None, CANNOT, 0),
        (GroupType.CLASSIC, NOON, CANNOT, 0),
        (GroupType.CLASSIC, None, [], 1),
    ],
)
def test_an_offset_of_a_deleted_topic_cannot_be_committed_again(
    kind: GroupType, expires_at: datetime | None, found: list[tuple[str, str]], planned: int
) -> None:
    """A broker refuses that; where a member joins and leaves, the offset is kept with the rest."""
    commit = replace(COMMIT, expires_at=expires_at)
    gone = Problem(Unread.LOG_OFFSETS, NO_TOPIC, None, "orders")
    plan = plan_rescue(
        committed(idle(kind=kind), commits=(commit,), problems=(gone,)), groups=["g"]
    )

    assert (found, planned) == (rules(plan), len(changes(plan)))
