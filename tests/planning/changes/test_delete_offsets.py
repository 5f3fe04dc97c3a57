"""Which committed offsets may be deleted, and what is said of those that may not."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from facts import NOON, idle, live, member, rules, snapshot
from guardrail_cases import reviewed

from toolkit.errors import UsageError
from toolkit.model import Commit, Group, GroupState, GroupType, Problem, Snapshot, Unread
from toolkit.model.groups import Sighting
from toolkit.plan import Action, Finding, Plan, Position, Severity
from toolkit.planning.changes.delete_offsets import plan_delete_offsets, plan_delete_unsubscribed

IDLE = idle()


def commits(*topics: str, group: str = "g", partitions: int = 1) -> tuple[Commit, ...]:
    """Return commits at 10 on the first partitions of topics."""
    return tuple(Commit(group, topic, p, 10) for topic in topics for p in range(partitions))


def deleted(plan: Plan) -> list[tuple[str, str, int]]:
    return [(step.group_id, *change.partition) for step, change in plan.changes]


def unread(group: Group) -> Snapshot:
    """Return a group of which the commit of audit:1 could not be read."""
    problem = Problem(Unread.COMMIT, "not authorised", "g", "audit", 1)
    return replace(snapshot(group, commits=commits("orders", "audit")), problems=(problem,))


READER = snapshot(live("g", member("orders")), commits=commits("orders", "payments"))


def test_a_live_group_loses_its_unsubscribed_offsets() -> None:
    """Without topics it keeps the offsets of subscribed topics and loses all others."""
    plan = plan_delete_offsets(READER, groups=["g"])

    (step,) = plan.steps
    assert [("g", "payments", 0)] == deleted(plan)
    assert (Action.DELETE_OFFSETS, GroupState.STABLE) == (step.action, step.state)
    assert (Position(10), None) == (step.changes[0].before, step.changes[0].after)
    assert "delete offsets of g, topics not subscribed to" == plan.request


def test_a_subscribed_topic_is_blocked_with_its_members() -> None:
    """The plan names the subscribers, before the broker refuses it with error 86."""
    other = replace(member("audit"), client_id="other")
    facts = snapshot(live("g", member("orders"), other), commits=commits("orders", "payments"))
    plan = plan_delete_offsets(facts, groups=["g"], topics=["orders", "payments"])

    why = "subscribed by app @ /10.0.0.1"
    assert (Finding("subscribed", Severity.BLOCK, why, "g", "orders"),) == plan.findings
    assert [("g", "payments", 0)] == deleted(plan)


@pytest.mark.parametrize(
    ("topic", "finding"),
    [
        # The real tool calls it successful to delete what is not there (O13).
        ("other", "no-commit: no committed offset for other"),
        ("orders:0,5-6", "no-commit: no committed offset for orders:5-6"),
        # A slip of the keyboard is not "nothing to do"; a deleted topic may have offsets left.
        ("ordres", "no-such-partition: the topic does not exist; did you mean orders?"),
        ("orders:0,7-8", "no-such-partition: the partition does not exist: 7-8"),
        ("gone:0,2", "no-such-partition: the partition does not exist: 2"),
    ],
)
def test_partitions_without_a_commit_and_missing_ones(topic: str, finding: str) -> None:
    """The first are a note, the second block; each is one finding that names the partitions."""
    logs = {(name, number): (0, 9) for name in ("orders", "other") for number in range(7)}
    missing = Problem(Unread.TOPIC, "the topic does not exist", topic="ordres")
    facts = snapshot(IDLE, commits=commits("orders", "gone"), logs=logs)
    plan = plan_delete_offsets(replace(facts, problems=(missing,)), groups=["g"], topics=[topic])

    rule, why = finding.split(": ", 1)
    severity = Severity.NOTE if rule == "no-commit" else Severity.BLOCK
    assert (Finding(rule, severity, why, "g", topic.split(":", maxsplit=1)[0]),) == plan.findings


def test_a_pending_commit_blocks() -> None:
    """An open transaction would lose its offset without an error to the producer."""
    pending = replace(commits("orders")[0], pending=True)
    facts = snapshot(IDLE, commits=(pending, *commits("bills")))
    plan = plan_delete_offsets(facts, groups=["g"], topics=["orders"])

    assert ["pending-transaction"] == reviewed(plan, facts)


LIVE = live("g", member("orders"))
BOTH = commits("orders", "audit")
NO_COMMIT = ("no-commit", "note")
UNREAD = ("unreadable", "block")
ORDERS, ALL = {"topics": ["orders"]}, {"all_topics": True}
SOME = {"topics": ["orders:0", "audit:1-2"]}
THREE_OF_EACH = commits("orders", "bills", "audit", partitions=3)
# What is subscribed is not guessed, and members that are not consumers keep everything.
UNKNOWN_SUBSCRIPTIONS = (
    (live("g", member(unreadable="it is not known")), "unreadable"),
    (live("g", described=False), "unreadable"),
    (live("g", state=GroupState.PREPARING_REBALANCE), "unreadable"),
    (live("g", member(), type=GroupType.UNKNOWN), "unreadable"),
    (live("g", member(), protocol_type="connect"), "group-live"),
    (replace(IDLE, type=GroupType.SHARE), "share-group"),
)


@pytest.mark.parametrize(
    ("facts", "asked", "found", "gone"),
    [
        # Without a topic, everything of an idle group has to be asked for.
        (snapshot(IDLE, commits=BOTH), {}, [("topics-required", "block")], []),
        (snapshot(IDLE, commits=BOTH), ALL, [], ["audit:0", "orders:0"]),
        # Topics and single partitions, whatever the group once subscribed to.
        (snapshot(IDLE, commits=THREE_OF_EACH), SOME, [], ["audit:1", "audit:2", "orders:0"]),
        # Everything includes what is subscribed, which is refused.
        (snapshot(LIVE, commits=BOTH), ALL, [("subscribed", "block")], ["audit:0"]),
        (snapshot(LIVE, commits=commits("orders")), {}, [NO_COMMIT], []),
        (snapshot(IDLE), ALL, [NO_COMMIT], []),
        (snapshot(), ORDERS, [("no-such-group", "block")], []),
        # A commit that could not be read is not taken for a missing one, where it is meant.
        (unread(IDLE), {"topics": ["audit"]}, [UNREAD], ["audit:0"]),
        (unread(IDLE), ORDERS, [], ["orders:0"]),
        (unread(LIVE), {}, [UNREAD], ["audit:0"]),
        *(
            (snapshot(group, commits=BOTH), ORDERS, [(rule, "block")], [])
            for group, rule in UNKNOWN_SUBSCRIPTIONS
        ),
    ],
)
def test_which_topics_go(
    facts: Snapshot, asked: dict[str, Any], found: list[tuple[str, str]], gone: list[str]
) -> None:
    """What is named, or not subscribed to; nothing goes by omission or because it was not read."""
    plan = plan_delete_offsets(facts, groups=["g"], **asked)

    assert (found, gone) == (rules(plan), [f"{topic}:{n}" for _, topic, n in deleted(plan)])


def test_a_group_has_to_be_named() -> None:
    """Nothing named is a mistake, not all groups."""
    with pytest.raises(UsageError, match="no group given"):
        plan_delete_offsets(snapshot(IDLE), groups=[], topics=["orders"])


def test_all_unsubscribed_offsets_of_a_cluster_in_one_plan() -> None:
    """Groups whose subscription is unknown are noted."""
    facts = snapshot(
        live("a", member("orders")),
        live("b", member("audit")),
        live("c", member(unreadable="a pattern that is not known here")),
        live("d", member("orders")),
        idle("idle"),
        commits=tuple(
            commit
            for group in ("a", "b", "c", "d", "idle")
            for commit in commits("orders", *(["audit"] if group in "ab" else []), group=group)
        ),
    )
    plan = plan_delete_unsubscribed(facts, groups=["*"])

    assert [("a", "audit", 0), ("b", "orders", 0)] == deleted(plan)
    left_out = [(finding.rule, finding.group_id) for finding in plan.findings]
    assert [("left-out", "c"), ("left-out", "idle")] == left_out


DAY = timedelta(days=1)
LEFT = snapshot(
    live("g", member("orders")),
    live("h", member("orders")),
    commits=(*commits("orders", "audit", "payments", partitions=2), *commits("audit", group="h")),
)
SINCE = {
    ("g", "audit"): Sighting(NOON - 14 * DAY, 3, NOON),
    ("g", "payments"): Sighting(NOON - 13 * DAY, 2, NOON),
    # What was not judged by this look, or is read again, may still have a series.
    ("g", "orders"): Sighting(NOON - 99 * DAY, 99, NOON),
    # This look did not see it again.
    ("h", "audit"): Sighting(NOON - 99 * DAY, 99, NOON - DAY),
}


AUDIT, PAYMENTS, OF_H = ("g", "audit"), ("g", "payments"), ("h", "audit")
YOUNG = ("too-young", *PAYMENTS)
UNSEEN = ("age-unknown", *OF_H)


@pytest.mark.parametrize(
    ("asked", "gone", "notes"),
    [
        ({}, {AUDIT, PAYMENTS, OF_H}, []),
        ({"in_runs": 2}, {AUDIT, PAYMENTS}, [UNSEEN]),
        ({"in_runs": 3}, {AUDIT}, [YOUNG, UNSEEN]),
        ({"left_for": 14 * DAY}, {AUDIT}, [YOUNG, UNSEEN]),
        ({"left_for": 13 * DAY, "in_runs": 4}, set(), [("too-young", *AUDIT), YOUNG, UNSEEN]),
    ],
)
def test_offsets_unsubscribed_too_recently_stay(
    asked: dict[str, Any], gone: set[tuple[str, str]], notes: list[tuple[str, str, str]]
) -> None:
    """Both conditions must be met, the limit itself is enough, and the note blocks nothing."""
    plan = plan_delete_unsubscribed(LEFT, groups=["*"], sightings=SINCE, **asked)

    assert gone == {(group, topic) for group, topic, _ in deleted(plan)}
    assert notes == [(f.rule, f.group_id, f.topic) for f in plan.findings]
    assert {Severity.NOTE} >= {f.severity for f in plan.findings}


def test_sightings_are_in_the_plan() -> None:
    """The request, the reason of a change and the notes have the condition and what was seen."""
    limits = {"left_for": 14 * DAY, "in_runs": 2}
    plan = plan_delete_unsubscribed(LEFT, groups=["*"], sightings=SINCE, **limits)

    words = "unsubscribed for 14 d, in 2 runs"
    assert f"delete offsets of topics not subscribed to, *, {words}" == plan.request
    seen = "observed as unsubscribed in 3 runs since 2026-02-15 12:00 UTC"
    assert f"no member subscribes to the topic; {seen}" == plan.steps[0].changes[0].why
    young, unseen = (finding.why for finding in plan.findings)
    since = "observed as unsubscribed in 2 runs since 2026-02-16 12:00 UTC"
    assert f"{since}; required: {words}" == young
    assert "no earlier run has observed this topic" in unseen


def test_a_condition_does_not_hide_blocks() -> None:
    """Unreadable offsets, and pending commits, block at any age."""
    unread = Problem(Unread.COMMIT, "not authorised", "g", "audit", 5)
    pending = tuple(replace(commit, pending=True) for commit in LEFT.commits)
    facts = replace(LEFT, problems=(unread,), commits=pending)
    plan = plan_delete_unsubscribed(facts, groups=["g"], in_runs=3, sightings=SINCE)

    blocking = ["pending-transaction", "pending-transaction", "unreadable"]
    assert blocking == reviewed(plan, facts)
