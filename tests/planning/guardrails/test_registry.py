"""Every guard-rail where it objects and where it just does not; what is made of objections."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from facts import NOON, live, member
from guardrail_cases import (
    BILLS,
    IDLE,
    ORDERS,
    OTHERS,
    case,
    change,
    commit,
    facts,
    found,
    plan,
    rules,
    step,
)

from toolkit.errors import UsageError
from toolkit.model import Group, GroupState, GroupType, LogOffsets, Policy, Problem, Snapshot
from toolkit.model.sightings import Sighting
from toolkit.plan import NEW_GROUP, NEW_TOPICS, Action, Finding, Intent, Severity
from toolkit.plan.approvals import Limits
from toolkit.planning.guardrails.check_context import EarlierSightings
from toolkit.planning.guardrails.registry import (
    FINAL,
    OVERRIDABLE,
    RULES,
    CheckContext,
    blocking,
    check,
    check_overrides,
)
from toolkit.planning.selection import scope

HOUR = timedelta(hours=1)
READER = live("g", member("orders"))
TOMBSTONE = step(change(after=None), action=Action.DELETE_OFFSETS)
DELETION_OF_GROUP = plan(step(change(after=None), action=Action.DELETE_GROUP))
DELETION = plan(TOMBSTONE, intent=Intent.DELETE_OFFSETS)
NEWCOMER = step(change(None, 5), state=None, group_id="new", type=GroupType.SIMPLE)
COPY = plan(NEWCOMER, intent=Intent.COPY, allows=frozenset({NEW_GROUP}))
JUST_NOW = (commit(age=0),)
DAY = 24 * HOUR
LEFT = EarlierSightings(unsubscribed={("g", "orders"): Sighting(NOON - 14 * DAY, 3, NOON)})
TWO_COMMITS = (commit(), commit(at=BILLS))


def holding(group: Group) -> CheckContext:
    """Return the case of pausing a partition of a group."""
    made = plan(step(change(None, None), action=Action.HOLD), intent=Intent.PAUSE)
    return case(made, facts(group))


def empty_since(days: int) -> Snapshot:
    """Return the facts of a group that has been Empty for so many days, with an old commit."""
    old = commit(age=90 * 24 * 3600)
    return facts(replace(IDLE, empty_since=NOON - days * DAY), commits=(old,))


NEVER_SEEN = EarlierSightings()


def standing(
    now: Snapshot | None = None, *, seen: EarlierSightings = NEVER_SEEN, **limits: Any
) -> CheckContext:
    """Return the case of an ordinary change under a standing approval with such limits."""
    given = Limits(**{"max_groups": 9, "max_partitions": 9, "max_records_repeated": 99, **limits})
    return case(now=now, limits=given, seen=seen)


class Example(NamedTuple):
    """Where a rule objects and what it says, and the nearest case in which it says nothing."""

    bad: CheckContext
    says: str
    good: CheckContext
    about: tuple[str | None, str | None, int | None] = (None, None, None)


def limited(**limits: int) -> CheckContext:
    """Return the case of skipping 5 records of one partition and repeating 5 of another."""
    made = plan(step(change(after=15), change(after=5, at=BILLS)))
    return case(made, facts(commits=TWO_COMMITS), policy=Policy(**limits))


EXAMPLES = {
    "read-only": Example(
        case(policy=Policy(read_only=True)), "cluster eu is read_only in the fleet file", case()
    ),
    "wrong-cluster": Example(
        case(now=facts(cluster_id="id2")),
        "the plan was made for the cluster with the id 'id', this one has 'id2'",
        case(now=facts(cluster="another name")),
    ),
    "protected-group": Example(
        case(policy=Policy(protected_groups=("f*", "[f-h]", "g"))),
        "the fleet file protects groups that match '[f-h]'",
        case(policy=Policy(protected_groups=("f*", "gg", "G"))),
        ("g", None, None),
    ),
    "reason-required": Example(case(reason=" \n"), "no reason was given", case(reason="x")),
    "stale-plan": Example(
        case(now=facts(), made=plan(made_at=NOON - 1.5 * HOUR)),
        "the plan was made 1.5 hours ago",
        case(now=facts(), made=plan(made_at=NOON - HOUR)),
    ),
    "no-such-group": Example(
        case(replace(COPY, allows=frozenset({NEW_TOPICS}))),
        "there is no such group, and none was to be made",
        case(COPY),
        ("new", None, None),
    ),
    "share-group": Example(
        case(now=facts(replace(IDLE, type=GroupType.SHARE))),
        "a share group has no committed offsets (KIP-932)",
        case(
            plan(step(action=Action.DELETE_GROUP, type=GroupType.SHARE)),
            facts(replace(IDLE, type=GroupType.SHARE), commits=()),
        ),
        ("g", None, None),
    ),
    "group-live": Example(
        case(now=facts(READER)),
        "group is Stable; members: app @ /10.0.0.1. Pause these partitions, or use 'offsetbook "
        "move'",
        case(DELETION, facts(live("g", member("bills")))),
        ("g", None, None),
    ),
    "subscribed": Example(
        case(DELETION, facts(READER)),
        "subscribed by app @ /10.0.0.1",
        case(DELETION, facts(live("g", member("bills")))),
        ("g", "orders", None),
    ),
    "facts-moved": Example(
        case(now=facts(commits=(commit(11),))),
        "11 is committed now, the plan starts from 10",
        case(now=facts(commits=(commit(10),))),
        ("g", "orders", 0),
    ),
    "topic-made-anew": Example(
        case(plan(step(change()), topic_ids={"orders": "id1"}), facts(topic_ids={"orders": "id2"})),
        "the topic was deleted and made anew since the plan was made",
        case(
            plan(step(change()), topic_ids={"orders": "id1"}),
            facts(topic_ids={"orders": "id1", "bills": "id3"}),
        ),
        ("g", "orders", None),
    ),
    "keeps-committing": Example(
        case(now=facts(commits=(commit(age=5),))),
        "it has no members, yet somebody committed for it at 11:59:55 UTC, after the plan was "
        "made: if an assign() consumer is running, it would write over the change",
        case(now=facts(commits=(commit(age=3600),))),
        ("g", None, None),
    ),
    "pending-transaction": Example(
        case(now=facts(commits=(replace(commit(), pending=True),))),
        "an open transaction is about to commit here",
        case(now=facts(commits=(commit(), replace(commit(at=OTHERS), pending=True)))),
        ("g", "orders", 0),
    ),
    "topic-never-used": Example(
        case(
            plan(step(change(None, 0, BILLS))),
            facts(commits=(commit(), commit(at=BILLS, group="another"))),
        ),
        "the group never committed this topic",
        case(plan(step(change(None, 0, OTHERS)))),
        ("g", "bills", None),
    ),
    "skips-unread-records": Example(
        # The ten of OTHERS, of which it has read nothing, are counted from the log start.
        case(plan(step(change(after=12), change(None, 10, OTHERS)))),
        "12 records that it has not read would be skipped",
        case(plan(step(change(after=9)))),
        ("g", None, None),
    ),
    "before-log-start": Example(
        case(plan(step(change(after=21)))),
        "21 is not in the log, which has 0 to 20",
        case(plan(step(change(after=20)))),
        ("g", "orders", 0),
    ),
    "last-offsets": Example(
        case(DELETION),
        "these are all its committed offsets: it would start where its consumers' "
        "auto.offset.reset says",
        case(DELETION, facts(commits=TWO_COMMITS)),
        ("g", None, None),
    ),
    "hidden-offsets": Example(
        case(DELETION_OF_GROUP, facts(problems=(Problem("commit times", "may not be read"),))),
        "cannot be judged without knowing: whether the offsets shown are all there are: may not be "
        "read",
        case(DELETION_OF_GROUP, facts()),
        (None, None, None),
    ),
    "not-undoable": Example(
        case(
            plan(step(action=Action.DELETE_GROUP)),
            facts(replace(IDLE, type=GroupType.SHARE), commits=()),
        ),
        "where a share group reads is kept apart from offsets, and lost with it for good",
        case(plan(step(action=Action.DELETE_GROUP)), facts(commits=())),
        ("g", None, None),
    ),
    "too-many-groups": Example(
        case(
            plan(step(), step(group_id="h"), step(group_id="h")),
            policy=Policy(max_groups=1),
        ),
        "2 groups; max_groups is 1",
        case(plan(step(), step()), policy=Policy(max_groups=1)),
    ),
    "too-many-partitions": Example(
        limited(max_partitions=1),
        "2 partitions; max_partitions is 1",
        limited(max_partitions=2),
    ),
    "too-many-records": Example(
        limited(max_records_skipped=4),
        "5 records skipped; max_records_skipped is 4",
        limited(max_records_skipped=5, max_records_repeated=5),
    ),
    "unreadable": Example(
        case(now=facts(problems=(Problem("members", "timed out", "g"),))),
        "members: timed out",
        case(now=facts(problems=(Problem("members", "timed out", "h"),))),
        ("g", None, None),
    ),
    "group-kind": Example(
        holding(live("g", type=GroupType.UNKNOWN)),
        "group type is not supported by this version",
        holding(live("g", type=GroupType.CONSUMER)),
        ("g", None, None),
    ),
    "group-empty": Example(
        holding(IDLE),
        "group is empty: reset it without a pause",
        holding(READER),
        ("g", None, None),
    ),
    "not-stable": Example(
        holding(replace(READER, state=GroupState.ASSIGNING)),
        "group is Assigning: wait until it is Stable",
        holding(READER),
        ("g", None, None),
    ),
    "custom-protocol": Example(
        holding(replace(READER, protocol_type="connect")),
        "protocol type is 'connect', not 'consumer'",
        holding(replace(READER, assignor="range")),
        ("g", None, None),
    ),
    "unreadable-member": Example(
        holding(live("g", member(unreadable="no idea"))),
        "no idea",
        case(plan(step(change(), action=Action.RELEASE)), facts(live("g", member(unreadable="?")))),
        ("g", None, None),
    ),
    "group-not-allowed": Example(
        standing(groups=("pay-*", "h")),
        "the standing approval is for pay-*, h",
        standing(groups=("[fg]",)),
        ("g", None, None),
    ),
    "empty-too-briefly": Example(
        standing(empty_since(30), empty_for_days=31),
        "unused for 30.0 days by group metadata record; empty_for_days is 31",
        standing(empty_since(30), empty_for_days=30),
        ("g", None, None),
    ),
    "unsubscribed-too-briefly": Example(
        standing(seen=LEFT, unsubscribed_for_days=15),
        "seen unsubscribed for 14.0 days; unsubscribed_for_days is 15",
        standing(seen=LEFT, unsubscribed_for_days=14),
        ("g", "orders", None),
    ),
}


def test_every_rule_has_an_example() -> None:
    """No rule is without a case in which it objects."""
    assert RULES.keys() == EXAMPLES.keys()


def test_an_ordinary_case_is_not_blocked() -> None:
    """An idle group, looked at twice, may be sent back within its log, for a reason."""
    assert () == check(case())


@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_rule_objects(rule: str) -> None:
    """It blocks under its name, says why, and about which group, topic and partition."""
    bad, says, _, about = EXAMPLES[rule]

    assert [Finding(rule, Severity.BLOCK, says, *about)] == found(rule, bad)


@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_rule_does_not_object_to_what_is_next_to_it(rule: str) -> None:
    """In the nearest case that is all right, it says nothing."""
    assert [] == found(rule, EXAMPLES[rule].good)


ONLY_WHEN_APPLYING = {"reason-required", "stale-plan", "keeps-committing"}


@pytest.mark.parametrize("rule", sorted(EXAMPLES.keys() - ONLY_WHEN_APPLYING))
def test_a_rule_is_told_when_a_plan_is_reviewed(rule: str) -> None:
    """What would stop a plan is known before anybody approves it."""
    bad, says, _, about = EXAMPLES[rule]
    reviewed = replace(bad, applying=False, reason="")

    assert [Finding(rule, Severity.BLOCK, says, *about)] == found(rule, reviewed)


@pytest.mark.parametrize("rule", sorted(ONLY_WHEN_APPLYING))
def test_a_review_needs_no_reason_and_no_second_look(rule: str) -> None:
    """A plan may be looked at for as long as anybody likes."""
    assert [] == found(rule, replace(EXAMPLES[rule].bad, applying=False))


@pytest.mark.parametrize("rule", EXAMPLES)
def test_an_override_lets_a_rule_pass_unless_it_is_final(rule: str) -> None:
    """An override goes by the name of the rule, and those in FINAL know none."""
    objections = found(rule, EXAMPLES[rule].bad)

    assert tuple(objections) == blocking(objections, ())
    assert tuple(objections if rule in FINAL else ()) == blocking(objections, {rule})
    assert tuple(objections) == blocking(objections, RULES.keys() - {rule})


def test_a_note_never_blocks() -> None:
    """Whatever its rule, a note only tells."""
    assert () == blocking([Finding("read-only", Severity.NOTE, "")], ())


@pytest.mark.parametrize("rule", sorted(OVERRIDABLE))
def test_an_override_of_a_known_rule_is_taken(rule: str) -> None:
    """Every name that the message lists is taken."""
    check_overrides([rule])


def test_an_unknown_override_is_an_error_that_names_the_known_ones() -> None:
    """A slip of the keyboard does not become an override of nothing."""
    with pytest.raises(UsageError, match="rule 'last-offset' does not exist") as caught:
        check_overrides(["last-offsets", "last-offset"])

    known = ", ".join(sorted(OVERRIDABLE))
    assert f"those that can be overridden are {known}" == caught.value.hint
    assert {"last-offsets", "moved-since"} <= set(known.split(", "))


@pytest.mark.parametrize("rule", sorted(FINAL))
def test_an_override_of_a_final_rule_is_an_error(rule: str) -> None:
    """It is refused, not ignored."""
    with pytest.raises(UsageError, match=f"rule '{rule}' cannot be overridden"):
        check_overrides([rule])


def test_what_planning_may_block_by_is_final_or_can_be_overridden() -> None:
    """No finding of a planner blocks under a name that an override calls unknown."""
    sources = [path.read_text("utf-8") for path in Path(scope.__file__).parents[1].rglob("*.py")]
    calls = r'\bblock\(\s*"([a-z-]+)"|"([a-z-]+)", Severity\.BLOCK'
    names = {a or b for text in sources for a, b in re.findall(calls, text)}

    assert {"no-such-group", "topics-required", "topic-never-used"} <= names
    assert set() == {*names, *scope.RULES.values()} - FINAL - OVERRIDABLE


def test_what_blocks_comes_first_and_findings_of_planning_pass_through() -> None:
    """Rules before planning, blocks before notes, each in its order."""
    findings = (
        Finding("no-commit", Severity.NOTE, "nothing here", "g", "bills", 3),
        Finding("past-end", Severity.BLOCK, "too late", "g", "bills", 0),
    )
    made = plan(step(change(after=11)), findings=findings)
    about = case(made, policy=Policy(read_only=True))

    assert ["read-only", "skips-unread-records", "past-end", "no-commit"] == [
        finding.rule for finding in check(about)
    ]
    assert [findings[1], findings[0]] == [f for f in check(about) if f in findings]


def test_what_a_rule_objects_to_is_not_said_again_as_a_note() -> None:
    """The note of planning is dropped for the same rule, group, topic and partition only."""
    here, there = (
        Finding("before-log-start", Severity.NOTE, "3 is before the log start 4", "g", *at)
        for at in (ORDERS, OTHERS)
    )
    other = replace(here, rule="moved-since")
    kept = Finding("before-log-start", Severity.BLOCK, here.why, "g", *ORDERS)
    made = plan(step(change()), findings=(here, other))

    assert (kept, other) == check(case(made))
    assert ["before-log-start"] * 2 == rules(case(replace(made, findings=(here, there))))


def test_two_limits_that_are_passed_are_both_told() -> None:
    """Whoever overrides a limit on records has seen both of them."""
    about = limited(max_records_skipped=4, max_records_repeated=3)

    assert [
        "5 records skipped; max_records_skipped is 4",
        "5 records repeated; max_records_repeated is 3",
    ] == [finding.why for finding in found("too-many-records", about)]


def test_a_note_about_another_partition_stays() -> None:
    """What a rule says of one partition is not said of its neighbour."""
    note = Finding("facts-moved", Severity.NOTE, "as planned", "g", *OTHERS)
    about = case(plan(step(change()), findings=(note,)), facts(commits=(commit(11),)))

    assert [(Severity.BLOCK, 0), (Severity.NOTE, 1)] == [
        (finding.severity, finding.partition) for finding in check(about)
    ]


def test_a_protected_group_is_named_literally_too() -> None:
    """A name that looks like a pattern protects the group that has it."""
    odd = plan(step(group_id="pay[1]"))

    assert ["protected-group"] == rules(
        case(
            odd,
            facts(replace(IDLE, group_id="pay[1]")),
            policy=Policy(protected_groups=("pay[1]",)),
        )
    )


def test_clocks_may_differ_a_little() -> None:
    """Who planned on a host whose clock is ahead need not wait for it."""
    assert [] == found("stale-plan", case(plan(made_at=NOON + timedelta(minutes=5))))


def test_what_is_found_twice_is_told_once() -> None:
    """Two planners that ran into the same thing make one finding."""
    finding = Finding("past-end", Severity.BLOCK, "too late", "g", "bills", 0)

    assert (finding,) == check(case(plan(findings=(finding, finding))))


@pytest.mark.parametrize(
    ("rule", "about", "lacking"),
    [
        ("wrong-cluster", case(now=facts(cluster_id="")), "the id of this cluster"),
        (
            "stale-plan",
            case(plan(made_at=NOON + timedelta(minutes=6))),
            "how old the plan is: it is of 2026-03-01 12:06 UTC",
        ),
        (
            "subscribed",
            case(DELETION, facts(replace(READER, described=False))),
            "what g subscribes to: the group could not be described",
        ),
        (
            "subscribed",
            case(DELETION, facts(live("g", state=GroupState.PREPARING_REBALANCE))),
            "what g subscribes to: no members known yet: the group is forming",
        ),
        (
            "keeps-committing",
            case(plan(step(change(), last_commit_at=NOON), made_at=NOON), facts(commits=JUST_NOW)),
            "whether g still commits: look again 6 s later",
        ),
        *(
            (
                rule,
                case(now=facts(logs=logs)),
                "where the log of orders partition 0 starts and ends",
            )
            for rule in ("skips-unread-records", "before-log-start", "too-many-records")
            for logs in ({}, {ORDERS: LogOffsets(None, 20)}, {ORDERS: LogOffsets(0, None)})
        ),
    ],
)
def test_a_rule_that_lacks_a_fact_blocks(rule: str, about: CheckContext, lacking: str) -> None:
    """What cannot be judged is not let through, and the finding says what is not known."""
    why = f"cannot be judged without knowing: {lacking}"

    assert [Finding(rule, Severity.BLOCK, why)] == found(rule, about)


@pytest.mark.parametrize(
    ("about", "says"),
    [
        (standing(empty_for_days=1), "since when nobody has used g"),
        (standing(unsubscribed_for_days=1), "since when g does not subscribe to orders"),
        (standing(unsubscribed_in_runs=1), "since when g does not subscribe to orders"),
    ],
)
def test_a_limit_that_cannot_be_judged_blocks(about: CheckContext, says: str) -> None:
    """Without a record or a sighting of ours, how long it was so is not known, and it blocks."""
    assert [f"cannot be judged without knowing: {says}"] == [
        finding.why for finding in check(about)
    ]


def test_how_often_it_must_have_been_seen() -> None:
    """Days alone are not enough where the approval asks for runs as well."""
    few = standing(seen=LEFT, unsubscribed_for_days=14, unsubscribed_in_runs=4)
    enough = standing(seen=LEFT, unsubscribed_for_days=14, unsubscribed_in_runs=3)

    assert ["seen unsubscribed by 3 runs; unsubscribed_in_runs is 4"] == [f.why for f in check(few)]
    assert () == check(enough)


def test_an_old_sighting_is_no_evidence() -> None:
    """What was seen for weeks, but not again for this plan, may have changed since."""
    old = Sighting(NOON - 14 * DAY, 3, NOON - 2 * HOUR)
    left = EarlierSightings(unsubscribed={("g", "orders"): old})
    empty = EarlierSightings(empty={"g": old})

    assert ["unsubscribed-too-briefly"] == rules(standing(seen=left, unsubscribed_in_runs=1))
    assert ["empty-too-briefly"] == rules(standing(seen=empty, empty_for_days=1))
    again = replace(old, last=NOON)
    fresh = EarlierSightings(empty={"g": again}, unsubscribed={("g", "orders"): again})
    assert [] == rules(standing(seen=fresh, unsubscribed_in_runs=1, unsubscribed_for_days=14))
