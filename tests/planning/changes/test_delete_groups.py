"""Which groups are deleted, and how it is known that nobody has used them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from facts import NOON, changes, idle, live, member, rules, snapshot
from guardrail_cases import reviewed

from toolkit.model import Commit, Group, GroupState, GroupType, Problem, Snapshot, TopicPartition
from toolkit.model.sightings import Sighting
from toolkit.plan import Action, Change, Finding, Plan, Position, Severity
from toolkit.planning.changes.delete_groups import plan_delete_groups

DAY = timedelta(days=1)
IDLE = idle()
SIMPLE = idle(kind=GroupType.SIMPLE)
MONTH = 30 * DAY


def ago(days: float) -> datetime:
    """Return the instant so many days before the snapshot."""
    return NOON - days * DAY


def commit(days: float | None = None, *, group: str = "g") -> Commit:
    """Return a commit made so many days ago, or at an unknown time."""
    return Commit(group, "orders", 0, 10, committed_at=None if days is None else ago(days))


def after_a_month(facts: Snapshot, seen: float | None) -> Plan:
    """Plan to delete g after 30 days, which was seen Empty since so many days ago, or never."""
    sightings = {"g": Sighting(ago(seen), 1, NOON)} if seen else {}
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
UNREAD = Problem("committed offsets", "not authorised", "g")


@pytest.mark.parametrize(
    ("facts", "name", "age", "found", "gone"),
    [
        # An empty shell, and a share group, have nothing to keep.
        (snapshot(IDLE, idle("s", GroupType.SHARE)), "*", None, [], ("g", "s")),
        # `svc[1]` is not `svc1`, and the plan says how the name was taken.
        (
            snapshot(idle("svc1"), idle("svc[1]")),
            *("svc[1]", None, [("name-is-a-pattern", "note")], ("svc[1]",)),
        ),
        (snapshot(IDLE), "h", None, [("no-such-group", "block")], ()),
        # Of a simple group, every commit has to be known to be old.
        (snapshot(SIMPLE, commits=OLD_AND_UNDATED), "g", DAY, [("age-unknown", "note")], ()),
        # Of all groups, the live ones are not a month empty; one that is named was mistaken.
        (snapshot(live("l", member("orders"))), "l", MONTH, [("group-live", "block")], ()),
        (snapshot(live("l", member("orders"))), "*", MONTH, [("left-out", "note")], ()),
        # What cannot be saved first is not deleted.
        *(
            (
                replace(snapshot(IDLE, commits=(commit(),)), problems=(problem,)),
                *("g", None, [("unreadable", "block")], ()),
            )
            for problem in (UNREAD, replace(UNREAD, topic="orders", partition=1))
        ),
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


def test_a_live_group_is_refused_with_its_members() -> None:
    """The members are named, and the other groups are planned."""
    plan = plan_delete_groups(snapshot(IDLE, live("l", member("orders"))), groups=["g", "l"])

    why = "group is Stable; members: app @ /10.0.0.1"
    assert (Finding("group-live", Severity.BLOCK, why, "l"),) == plan.findings
    assert ("g",) == plan.group_ids


@pytest.mark.parametrize(
    ("group", "newest", "seen", "told"),
    [
        (replace(IDLE, empty_since=ago(41)), 50, None, "Empty for 41 d: group metadata record of"),
        # The record is proof also of what nobody has watched.
        (replace(IDLE, empty_since=ago(41)), 50, 2, "Empty for 41 d: group metadata record of"),
        (IDLE, 50, 40, "Empty for 40 d: first of consecutive observations of"),
        (IDLE, None, 40, "Empty for 40 d: first of consecutive observations of"),
        # An assign() consumer commits for a group without joining it.
        (replace(IDLE, empty_since=ago(41)), 35, None, "Empty for 35 d: latest commit of"),
        (SIMPLE, 33, None, "Empty for 33 d: latest commit of"),
        (replace(IDLE, empty_since=ago(30)), 50, None, "Empty for 30 d: group metadata record of"),
    ],
)
def test_a_group_that_has_been_empty_long_enough_goes(
    group: Group, newest: float | None, seen: float | None, told: str
) -> None:
    """How that is known is named in the change and as a note."""
    plan = after_a_month(snapshot(group, commits=(commit(newest),)), seen)
    (change,) = changes(plan)

    assert [("empty-for", "note")] == rules(plan)
    assert (True, change.why) == (change.why.startswith(told), plan.findings[0].why)
    assert "delete groups g, empty for 30 d" == plan.request


@pytest.mark.parametrize(
    ("group", "newest", "seen", "rule"),
    [
        (replace(IDLE, empty_since=ago(29)), 50, None, "too-young"),
        # Used between two of our looks: the record knows better.
        (replace(IDLE, empty_since=ago(5)), 50, 40, "too-young"),
        (replace(IDLE, empty_since=ago(41)), 1, None, "too-young"),
        (IDLE, 50, 29, "too-young"),
        (IDLE, 1, 40, "too-young"),
        (SIMPLE, 1, 40, "too-young"),
        (IDLE, 50, None, "age-unknown"),
        # It looks Empty at every look, also while an assign() consumer runs.
        (SIMPLE, None, 40, "age-unknown"),
    ],
)
def test_a_group_that_may_have_been_used_stays(
    group: Group, newest: float | None, seen: float | None, rule: str
) -> None:
    """Too young or of unknown age, it is left out, and that is not a mistake."""
    plan = after_a_month(snapshot(group, commits=(commit(newest),)), seen)

    assert ([(rule, "note")], ()) == (rules(plan), plan.steps)


@pytest.mark.parametrize("age", [None, timedelta(0)])
def test_a_pattern_leaves_out_what_cannot_be_deleted(age: timedelta | None) -> None:
    """Live and protected groups that only match are notes; the groups that are named block."""
    since = replace(IDLE, empty_since=ago(41))
    groups = since, replace(since, group_id="audit"), live("l", member("orders"))
    asked = {"empty_for": age, "protected": ["aud*"]}
    plan = plan_delete_groups(snapshot(*groups), groups=["*"], **asked)

    left_out = [(f.rule, f.group_id, f.why) for f in plan.findings if f.rule == "left-out"]
    assert [
        ("left-out", "audit", "only matches a pattern: protected by the fleet file (aud*)"),
        ("left-out", "l", "only matches a pattern: group is Stable; members: app @ /10.0.0.1"),
    ] == left_out
    assert (("g",), False) == (plan.group_ids, any(f.blocks for f in plan.findings))

    named = plan_delete_groups(snapshot(*groups), groups=["*", "audit", '"l"'], **asked)
    # The rule about protected groups finds the one that is named.
    assert (("audit", "g"), ["group-live"]) == (
        named.group_ids,
        [f.rule for f in named.findings if f.blocks],
    )


def test_a_pending_commit_blocks() -> None:
    """An open transaction would lose its offset without an error to the producer."""
    facts = snapshot(IDLE, commits=(replace(commit(), pending=True),))

    assert ["pending-transaction"] == reviewed(plan_delete_groups(facts, groups=["g"]), facts)


@pytest.mark.parametrize(
    ("age", "words"),
    [
        (timedelta(days=1), "1 d"),
        (timedelta(hours=36), "1 d 12 h"),
        (timedelta(hours=23), "23 h"),
        (timedelta(minutes=59), "59 min"),
        (timedelta(minutes=-5), "0 s"),
    ],
)
def test_ages_are_told_in_words(age: timedelta, words: str) -> None:
    """The two largest units; clocks that differ make no negative age."""
    facts = snapshot(replace(IDLE, empty_since=NOON - age), commits=(commit(50),))
    (change,) = changes(plan_delete_groups(facts, groups=["g"]))

    assert change.why.startswith(f"Empty for {words}: ")
