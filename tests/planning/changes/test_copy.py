"""Copying and renaming: what is committed is kept as it is, and nothing is lost on the way."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from facts import changes, idle, live, member, rules, snapshot

from toolkit.errors import UsageError
from toolkit.model import Commit, Group, GroupType, Problem, Snapshot, TopicPartition, Unread
from toolkit.model.snapshot import NO_TOPIC
from toolkit.plan import Action, Change, Plan, Position
from toolkit.planning.changes.copy import plan_copy, plan_rename

OLD, NEW = idle("old"), idle("new")
ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 1)
COMMITS = (Commit("old", *ORDERS, 10, 3, "mine"), Commit("old", *AUDIT, 20))
LOGS = dict.fromkeys((ORDERS, AUDIT), (0, 40))
AT_10 = Position(10, 3, "mine")
UNREADABLE = [("unreadable", "block")]


def facts(*groups: Group, commits: tuple[Commit, ...] = ()) -> Snapshot:
    """Return a cluster in which the old group has committed two offsets."""
    return snapshot(*groups, commits=(*COMMITS, *commits), logs=LOGS)


def unread(about: Snapshot, what: Unread, *subject: Any) -> Snapshot:
    return replace(about, problems=(Problem(what, "no answer", *subject),))


def test_a_copy_is_exact_and_creates_the_group() -> None:
    """Leader epoch and metadata are copied, and the plan says that the group is created."""
    plan = plan_copy(facts(OLD), source="old", target="new")

    why = "committed offset of old"
    (step,) = plan.steps
    expected = (Change(AUDIT, None, Position(20), why), Change(ORDERS, None, AT_10, why))
    assert (True, expected) == (step.creates, step.changes)
    assert [("new-group", "note")] == rules(plan)
    assert ("copy old to new", {"new-group"}) == (plan.request, plan.allows)


def test_a_copy_of_some_topics_leaves_the_targets_others() -> None:
    """Only what differs and is meant is a change."""
    there = (Commit("new", *ORDERS, 5), Commit("new", "payments", 0, 7))
    plan = plan_copy(facts(OLD, NEW, commits=there), source="old", target="new", topics=["orders"])

    (step,) = plan.steps
    assert (Change(ORDERS, Position(5), AT_10, "committed offset of old"),) == step.changes
    assert ((), "copy old to new, orders") == (plan.findings, plan.request)


def test_partitions_without_a_committed_offset_are_named() -> None:
    """Nothing is copied for them, so their next consumer may skip what was produced."""
    more = {("orders", 1): (0, 40), ("orders", 2): (0, 0)}
    there = snapshot(OLD, commits=COMMITS, logs={**LOGS, **more})
    for planned in (plan_copy, plan_rename):
        plan = planned(there, source="old", target="new")
        (why,) = [finding.why for finding in plan.findings if finding.rule == "no-commit"]
        assert why.startswith("no committed offset for orders:1-2: none is committed")
    # Neither where they are named; what the target has committed stays.
    kept = replace(there, groups=(OLD, NEW), commits=(*COMMITS, Commit("new", "orders", 2, 5)))
    for topics in ((), ("orders:0-2",)):
        (found,) = plan_copy(kept, source="old", target="new", topics=topics).findings
        assert found.why.startswith("no committed offset for orders:1: none is committed")


def test_a_live_group_can_be_copied_from() -> None:
    """It goes on, so the plan says at which instant it was looked at."""
    plan = plan_copy(facts(live("old", member("orders"))), source="old", target="new")

    assert [("source-live", "note"), ("new-group", "note")] == rules(plan)
    assert "12:00:00 UTC" in plan.findings[0].why


BUSY = live("new", member("orders"))
SAME = tuple(replace(commit, group_id="new") for commit in COMMITS)
COMMIT_OF_NEW = (Unread.COMMIT, "new", *ORDERS)
ORDERS_GONE = replace(
    snapshot(OLD, commits=COMMITS, logs={AUDIT: (0, 40)}),
    problems=(Problem(Unread.LOG_OFFSETS, NO_TOPIC, None, "orders"),),
)
PENDING = snapshot(OLD, NEW, commits=(replace(COMMITS[0], pending=True),), logs=LOGS)


@pytest.mark.parametrize(
    ("planner", "about", "found", "planned"),
    [
        (plan_copy, facts(OLD, NEW, commits=SAME), [], []),
        (plan_copy, facts(OLD, BUSY), [("group-live", "block")], [AUDIT, ORDERS]),
        (plan_copy, facts(OLD, idle("new", GroupType.SHARE)), [("share-group", "block")], []),
        (plan_copy, snapshot(), [("no-such-group", "block")], []),
        (plan_copy, snapshot(idle("old", GroupType.SHARE)), [("share-group", "block")], []),
        (plan_copy, unread(snapshot(), Unread.GROUPS), UNREADABLE, []),
        (plan_copy, unread(facts(OLD, NEW), Unread.COMMITS, "new"), UNREADABLE, []),
        (plan_copy, unread(facts(OLD, NEW), *COMMIT_OF_NEW), UNREADABLE, [AUDIT]),
        (plan_copy, PENDING, [("pending-transaction", "block")], [ORDERS]),
        (plan_rename, facts(OLD, NEW), [("group-exists", "block")], []),
        (plan_rename, facts(live("old", member("orders"))), [("group-live", "block")], []),
        (plan_rename, facts(), [("no-such-group", "block")], []),
        (plan_rename, unread(facts(OLD), Unread.COMMIT, "old", "orders", 1), UNREADABLE, []),
        (plan_rename, unread(facts(OLD), Unread.GROUPS), UNREADABLE, []),
        (plan_rename, snapshot(OLD), [("no-commit", "note")], []),
        # With an override, the offset of a deleted topic goes with the old group.
        (plan_rename, ORDERS_GONE, [("missing-partition", "block")], [AUDIT, AUDIT, ORDERS]),
    ],
)
def test_copies_and_renames_that_are_blocked(
    planner: Callable[..., Plan],
    about: Snapshot,
    found: list[tuple[str, str]],
    planned: list[TopicPartition],
) -> None:
    """Offsets that could be lost, or are unknown, block; a rename is all or nothing."""
    plan = planner(about, source="old", target="new")

    assert (found, planned) == (rules(plan), [change.partition for change in changes(plan)])


def test_a_rename_copies_everything_and_then_deletes() -> None:
    """The old group goes only after the new one was made."""
    plan = plan_rename(facts(OLD), source="old", target="new")

    made, gone = plan.steps
    assert [(Action.COMMIT, "new", True, None), (Action.DELETE_GROUP, "old", False, "new")] == [
        (step.action, step.group_id, step.creates, step.needs) for step in plan.steps
    ]
    assert [(c.partition, c.after) for c in made.changes] == [
        (c.partition, c.before) for c in gone.changes
    ]
    assert ((), "rename old to new") == (plan.findings, plan.request)


def test_a_group_is_not_copied_to_itself_or_to_nothing() -> None:
    """Two names are needed, and both are names."""
    with pytest.raises(UsageError, match="source and target are both"):
        plan_copy(facts(OLD), source="old", target="old")
    with pytest.raises(UsageError, match="is empty"):
        plan_rename(facts(OLD), source="old", target="")
