"""Copying and renaming: what is committed is kept as it is, and nothing is lost on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest
from facts import live, member, rules, snapshot

from toolkit.errors import UsageError
from toolkit.model import Commit, Group, GroupState, GroupType, Problem, Snapshot, TopicPartition
from toolkit.plan import Action, Change, Position
from toolkit.planning.changes.copy import plan_copy, plan_rename

OLD = Group("old", GroupType.CLASSIC, GroupState.EMPTY)
NEW = Group("new", GroupType.CLASSIC, GroupState.EMPTY)
ORDERS, AUDIT = TopicPartition("orders", 0), TopicPartition("audit", 1)
COMMITS = (Commit("old", *ORDERS, 10, 3, "mine"), Commit("old", *AUDIT, 20))
LOGS: dict[tuple[str, int], tuple[int | None, int | None]] = {
    ("orders", 0): (0, 40),
    ("audit", 1): (0, 40),
}
MORE_LOGS: dict[tuple[str, int], tuple[int | None, int | None]] = {
    ("orders", 1): (0, 40),
    ("orders", 2): (0, 0),
}
AT_10 = Position(10, 3, "mine")


def facts(*groups: Group, commits: tuple[Commit, ...] = ()) -> Snapshot:
    """Return a cluster in which the old group has committed two offsets."""
    return snapshot(*groups, commits=(*COMMITS, *commits), logs=LOGS)


def test_a_copy_is_exact_and_makes_the_group() -> None:
    """Leader epoch and metadata go along, and that a group is made is said."""
    plan = plan_copy(facts(OLD), source="old", target="new")

    (step,) = plan.steps
    expected = (
        Change(AUDIT, None, Position(20), "committed offset of old"),
        Change(ORDERS, None, AT_10, "committed offset of old"),
    )
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
    there = replace(facts(OLD), logs={**facts(OLD).logs, **snapshot(logs=MORE_LOGS).logs})
    for plan in (
        plan_copy(there, source="old", target="new"),
        plan_rename(there, source="old", target="new"),
    ):
        (why,) = [finding.why for finding in plan.findings if finding.rule == "no-commit"]
        assert why.startswith("no committed offset for orders:1-2: nothing is copied")


def test_a_copy_of_the_same_changes_nothing() -> None:
    """What the target has already is no change."""
    same = tuple(replace(commit, group_id="new") for commit in COMMITS)

    assert () == plan_copy(facts(OLD, NEW, commits=same), source="old", target="new").steps


def test_a_live_group_can_be_copied_from() -> None:
    """It goes on, so the plan says at which instant it was looked at."""
    plan = plan_copy(facts(live("old", member("orders"))), source="old", target="new")

    assert [("source-live", "note"), ("new-group", "note")] == rules(plan)
    assert "12:00:00 UTC" in plan.findings[0].why


@pytest.mark.parametrize(
    ("target", "rule"),
    [
        (live("new", member("orders")), "group-live"),
        (Group("new", GroupType.SHARE, GroupState.EMPTY), "share-group"),
    ],
)
def test_what_cannot_be_copied_to_blocks(target: Group, rule: str) -> None:
    """Only an idle group with committed offsets takes a copy."""
    assert [(rule, "block")] == rules(plan_copy(facts(OLD, target), source="old", target="new"))


def test_what_cannot_be_copied_from_blocks() -> None:
    """A missing group, a share group, and one that could not be read have nothing to copy."""
    unread = Problem("committed offsets", "not authorised", "old")
    share = Group("old", GroupType.SHARE, GroupState.EMPTY)
    down = Problem("groups coordinated by broker 1", "no answer")

    for fact, rule in (
        (snapshot(), "no-such-group"),
        (snapshot(share), "share-group"),
        (replace(snapshot(OLD), problems=(unread,)), "unreadable"),
        (replace(snapshot(), problems=(down,)), "unreadable"),
    ):
        plan = plan_copy(fact, source="old", target="new")
        assert ([(rule, "block")], ()) == (rules(plan), plan.steps)


def test_a_pending_commit_of_the_source_blocks() -> None:
    """The copy would be of an offset that is about to be another."""
    pending = tuple(replace(commit, pending=True) for commit in COMMITS[:1])
    plan = plan_copy(snapshot(OLD, NEW, commits=pending, logs=LOGS), source="old", target="new")

    assert [("pending-transaction", "block")] == rules(plan)


def test_an_unreadable_commit_of_the_target_is_left_alone() -> None:
    """What would be written over is not known."""
    unread = Problem("committed offset", "not authorised", "new", *ORDERS)
    plan = plan_copy(replace(facts(OLD, NEW), problems=(unread,)), source="old", target="new")

    assert [("unreadable", "block")] == rules(plan)
    assert [AUDIT] == [change.partition for _, change in plan.changes]


def test_a_target_whose_offsets_could_not_be_read_is_left_alone() -> None:
    """From where its offsets would go is not known for any of them."""
    unread = Problem("committed offsets", "not authorised", "new")
    plan = plan_copy(replace(facts(OLD, NEW), problems=(unread,)), source="old", target="new")

    assert ([("unreadable", "block")], ()) == (rules(plan), plan.steps)


def test_a_rename_copies_everything_and_then_deletes() -> None:
    """The old group goes only after the new one was made."""
    plan = plan_rename(facts(OLD), source="old", target="new")

    made, gone = plan.steps
    assert (Action.COMMIT, "new", True, "") == (
        made.action,
        made.group_id,
        made.creates,
        made.needs,
    )
    assert (Action.DELETE_GROUP, "old", "new") == (gone.action, gone.group_id, gone.needs)
    assert [(c.partition, c.after) for c in made.changes] == [
        (c.partition, c.before) for c in gone.changes
    ]
    assert ((), "rename old to new") == (plan.findings, plan.request)


@pytest.mark.parametrize(
    ("groups", "problems", "rule"),
    [
        ((OLD, NEW), (), "group-exists"),
        ((live("old", member("orders")),), (), "group-live"),
        ((), (), "no-such-group"),
        ((OLD,), (Problem("committed offset", "no", "old", "orders", 1),), "unreadable"),
        ((OLD,), (Problem("committed offsets", "no", "old"),), "unreadable"),
        ((OLD,), (Problem("groups coordinated by broker 1", "no"),), "unreadable"),
    ],
)
def test_a_rename_that_could_lose_something_is_not_planned(
    groups: tuple[Group, ...], problems: tuple[Problem, ...], rule: str
) -> None:
    """A taken name, members, and anything unread: neither group is touched."""
    plan = plan_rename(replace(facts(*groups), problems=problems), source="old", target="new")

    assert ([(rule, "block")], ()) == (rules(plan), plan.steps)


def test_a_group_without_offsets_is_not_renamed() -> None:
    """There is nothing with which the new group could be made."""
    plan = plan_rename(snapshot(OLD), source="old", target="new")

    assert ([("no-commit", "note")], ()) == (rules(plan), plan.steps)


def test_a_group_is_not_copied_to_itself_or_to_nothing() -> None:
    """Two names are needed, and both are names."""
    with pytest.raises(UsageError, match="source and target are both"):
        plan_copy(facts(OLD), source="old", target="old")
    with pytest.raises(UsageError, match="is empty"):
        plan_rename(facts(OLD), source="old", target="")
