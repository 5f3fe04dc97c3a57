"""Which groups are deleted, and how it is known that nobody has used them."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from facts import NOON, changes, idle, live, member, rules, snapshot
from guardrail_cases import reviewed

from toolkit.model import (
    Commit,
    Group,
    GroupState,
    GroupType,
    Problem,
    Snapshot,
    TopicPartition,
    Unread,
)
from toolkit.model.groups import Sighting
from toolkit.plan import Action, Change, Finding, Plan, Position, Severity
from toolkit.planning.changes.delete_groups import plan_delete_groups

DAY = timedelta(days=1)
IDLE = idle()
SIMPLE = idle(kind=GroupType.SIMPLE)
MONTH = 30 * DAY


def ago(days: float) -> datetime:
    return NOON - days * DAY


def commit(days: float | None = None, *, group: str = "g") -> Commit:
    return Commit(group, "orders", 0, 10, committed_at=None if days is None else ago(days))


def after_a_month(facts: Snapshot, seen: float | None, last: datetime = NOON) -> Plan:
    """Plan to delete g after 30 days, which was seen Empty since so many days ago, or never."""
    sightings = {"g": Sighting(ago(seen), 1, last)} if seen else {}
    return plan_delete_groups(facts, groups=["g"], empty_for=MONTH, sightings=sightings)


def test_an_idle_group_goes_with_all_its_commits() -> None:
    """The plan holds every offset, from which the group can come back."""
    kept = replace(commit(), leader_epoch=3, metadata="mine")
    plan = plan_delete_groups(snapshot(IDLE, commits=(kept,)), groups=["g"])

    (step,) = plan.steps
    change = Change(TopicPartition("orders", 0), Position(10, 3, "mine"), None)
    assert (Action.DELETE_GROUP, GroupState.EMPTY) == (step.action, step.state)
    assert ((change,), (), "delete groups g") == (step.changes, plan.findings, plan.request)


OLD_AND_UNDATED = (commit(50), replace(commit(), partition=1))
SHELLS = snapshot(IDLE, idle("s", GroupType.SHARE))
ALIKE = snapshot(idle("svc1"), idle("svc[1]"))
READER = snapshot(live("l", member("orders")))
ONE_COMMIT = snapshot(IDLE, commits=(commit(),))
PART_UNREAD = replace(
    ONE_COMMIT, problems=(Problem(Unread.COMMIT, "not authorised", "g", "orders", 1),)
)


@pytest.mark.parametrize(
    ("facts", "name", "age", "found", "gone"),
    [
        # An empty shell, and a share group, have nothing to keep.
        (SHELLS, "*", None, [], ("g", "s")),
        # `svc[1]` is not `svc1`, and the plan says how the name was taken.
        (ALIKE, "svc[1]", None, [("name-is-a-pattern", "note")], ("svc[1]",)),
        (snapshot(IDLE), "h", None, [("no-such-group", "block")], ()),
        # Of a simple group, every commit has to be known to be old.
        (snapshot(SIMPLE, commits=OLD_AND_UNDATED), "g", DAY, [("age-unknown", "note")], ()),
        # Of all groups, the live ones are not a month empty; one that is named was mistaken.
        (READER, "l", MONTH, [("group-live", "block")], ()),
        (READER, "*", MONTH, [("left-out", "note")], ()),
        # What cannot be saved first is not deleted.
        (PART_UNREAD, "g", None, [("unreadable", "block")], ()),
    ],
)
def test_which_groups_go(
    facts: Snapshot,
    name: str,
    age: timedelta | None,
    found: list[tuple[str, str]],
    gone: tuple[str, ...],
) -> None:
    """A group goes where it was meant, can be saved, and is known to be old enough."""
    plan = plan_delete_groups(facts, groups=[name], empty_for=age)

    assert (found, gone) == (rules(plan), plan.group_ids)


def test_a_simple_group_without_commits_has_only_our_sightings() -> None:
    """Nothing was committed, so nothing tells of its use but that it stayed so."""
    assert ("g",) == after_a_month(snapshot(SIMPLE), 40).group_ids
    for last in (ago(10), ago(-1)):  # of an old file, or by a host whose clock is ahead
        assert () == after_a_month(snapshot(SIMPLE), 40, last).group_ids


EMPTY_FOR_41_DAYS = replace(IDLE, empty_since=ago(41))
EMPTY_FOR_30_DAYS = replace(IDLE, empty_since=ago(30))


GOES = "empty-for"
BY_RECORD, BY_COMMIT = "group metadata record of", "latest commit of"
BY_OBSERVATION = "first of consecutive observations of"


@pytest.mark.parametrize(
    ("group", "newest", "seen", "rule", "says"),
    [
        (EMPTY_FOR_41_DAYS, 50, None, GOES, f"Empty for 41 d: {BY_RECORD}"),
        # The record is proof also of what nobody has watched.
        (EMPTY_FOR_41_DAYS, 50, 2, GOES, f"Empty for 41 d: {BY_RECORD}"),
        (IDLE, 50, 40, GOES, f"Empty for 40 d: {BY_OBSERVATION}"),
        (IDLE, None, 40, GOES, f"Empty for 40 d: {BY_OBSERVATION}"),
        # An assign() consumer commits for a group without joining it.
        (EMPTY_FOR_41_DAYS, 35, None, GOES, f"Empty for 35 d: {BY_COMMIT}"),
        (SIMPLE, 33, None, GOES, f"Empty for 33 d: {BY_COMMIT}"),
        (EMPTY_FOR_30_DAYS, 50, None, GOES, f"Empty for 30 d: {BY_RECORD}"),
        (replace(IDLE, empty_since=ago(29)), 50, None, "too-young", ""),
        # Used between two of our looks: the record knows better.
        (replace(IDLE, empty_since=ago(5)), 50, 40, "too-young", ""),
        (EMPTY_FOR_41_DAYS, 1, None, "too-young", ""),
        (IDLE, 50, 29, "too-young", ""),
        (IDLE, 1, 40, "too-young", ""),
        (SIMPLE, 1, 40, "too-young", ""),
        (IDLE, 50, None, "age-unknown", ""),
        # It looks Empty at every look, also while an assign() consumer runs.
        (SIMPLE, None, 40, "age-unknown", ""),
    ],
)
def test_a_group_goes_once_it_has_been_empty_long_enough(
    group: Group, newest: float | None, seen: float | None, rule: str, says: str
) -> None:
    """A note and the change name how that is known; what is too young or unknown is left out."""
    plan = after_a_month(snapshot(group, commits=(commit(newest),)), seen)

    assert [(rule, "note")] == rules(plan)
    why = plan.findings[0].why
    assert why.startswith(says)
    assert [why] * (rule == GOES) == [change.why for change in changes(plan)]
    assert "delete groups g, empty for 30 d" == plan.request


@pytest.mark.parametrize("newest", [0.01, 35, 50])
@pytest.mark.parametrize(("group", "seen"), [(EMPTY_FOR_41_DAYS, None), (IDLE, 40)])
def test_a_group_that_commits_while_it_is_read_is_not_old(
    group: Group, newest: float, seen: float | None
) -> None:
    """A commit that moved between two reads has no time; the others were not forgotten for it."""
    moved = replace(commit(), partition=1)
    plan = after_a_month(snapshot(group, commits=(commit(newest), moved)), seen)

    assert ([("age-unknown", "note")], ()) == (rules(plan), plan.steps)


@pytest.mark.parametrize("age", [None, timedelta(0)])
def test_a_pattern_leaves_out_groups_that_cannot_be_deleted(age: timedelta | None) -> None:
    """Live and protected groups that only match are notes; named ones block."""
    audit = replace(EMPTY_FOR_41_DAYS, group_id="audit")
    facts = snapshot(EMPTY_FOR_41_DAYS, audit, live("l", member("orders")))
    asked = {"empty_for": age, "protected": ["aud*"]}
    plan = plan_delete_groups(facts, groups=["*"], **asked)
    named = plan_delete_groups(facts, groups=["*", "audit", '"l"'], **asked)

    why = "group is Stable; members: app @ /10.0.0.1"
    protected = "only matches a pattern: protected by the fleet file (aud*)"
    left_out = [(f.group_id, f.why) for f in plan.findings if f.rule == "left-out"]
    assert [("audit", protected), ("l", f"only matches a pattern: {why}")] == left_out
    assert (("g",), False) == (plan.group_ids, any(f.blocks for f in plan.findings))
    # The rule about protected groups finds the one that is named.
    assert ("audit", "g") == named.group_ids
    blocking = [finding for finding in named.findings if finding.blocks]
    assert [Finding("group-live", Severity.BLOCK, why, "l")] == blocking


def test_a_pending_commit_blocks() -> None:
    """An open transaction would lose its offset without an error to the producer."""
    facts = snapshot(IDLE, commits=(replace(commit(), pending=True),))

    assert ["pending-transaction"] == reviewed(plan_delete_groups(facts, groups=["g"]), facts)


def test_clocks_that_differ_make_no_negative_age() -> None:
    """A group that is Empty since an instant to come is Empty for 0 s."""
    group = replace(IDLE, empty_since=NOON + timedelta(minutes=5))
    (change,) = changes(plan_delete_groups(snapshot(group, commits=(commit(50),)), groups=["g"]))

    assert change.why.startswith("Empty for 0 s: ")
