"""Every rule that judges: where it objects, and the nearest case in which it does not."""

from dataclasses import replace
from datetime import timedelta
from typing import Any, NamedTuple

import held
from facts import NOON, live, member
from guardrail_cases import BILLS, IDLE, ORDERS, OTHERS, case, change, commit, facts, plan, step

from toolkit.model import (
    CaptureMode,
    Group,
    GroupState,
    GroupType,
    Policy,
    Problem,
    Snapshot,
    Unread,
)
from toolkit.model.groups import Sighting
from toolkit.plan import NEW_GROUP, NEW_TOPICS, Action, Change, Intent
from toolkit.plan.approvals import Limits
from toolkit.planning.guardrails.check_context import CheckContext, EarlierSightings
from toolkit.planning.holds.hold_context import HoldFacts, HoldSettings, HoldTerms

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
NOTHING_BESIDE = HoldFacts()
TWO_COMMITS = (commit(), commit(at=BILLS))
SHARE = replace(IDLE, type=GroupType.SHARE)
OF_TOPIC_ID1 = plan(step(change()), topic_ids={"orders": "id1"})
BILLS_OF_ANOTHER = (commit(), commit(at=BILLS, group="another"))
NEVER_COMMITTED_3 = held.without_commits(held.facts(held.group()), 3)


def holding(group: Group) -> CheckContext:
    made = plan(step(change(None, None), action=Action.HOLD), intent=Intent.PAUSE)
    return case(made, facts(group))


def hold(
    group: Group, now: Snapshot | None = None, *, beside: HoldFacts = NOTHING_BESIDE, **terms: Any
) -> CheckContext:
    """Return the case of pausing the first of four partitions of a group, on such terms."""
    first = Change(held.PARTITIONS[0], None, None)
    made = step(first, action=Action.HOLD, type=group.type)
    asked = HoldTerms(**terms).as_terms()
    paused = plan(made, intent=Intent.PAUSE, terms=asked)
    return case(paused, now or held.facts(group), hold_facts={"g": beside})


def empty_since(days: int) -> Snapshot:
    """Return the facts of a group that has been Empty for so many days, with an old commit."""
    old = commit(age=90 * 24 * 3600)
    return facts(replace(IDLE, empty_since=NOON - days * DAY), commits=(old,))


def resuming(group: Group, *numbers: int, by: tuple[str, str] = ("bob", "desk")) -> CheckContext:
    """Return the case of resuming some of four partitions of a group."""
    changes = [Change(held.PARTITIONS[number], None, None) for number in numbers]
    made = plan(step(*changes, action=Action.RELEASE, type=group.type), intent=Intent.RESUME)
    return case(made, held.facts(group), by=by)


HELD_BY_ALICE = (held.reader("a", 0, 2, 3), held.holder(1))
TWO_HELD_BY_ALICE = held.classic(held.reader("a", 0, 2), held.holder(1, 3))
HELD_FOR_AN_HOUR = (
    held.reader("a", 0, 2, 3),
    held.holder(1, note=replace(held.NOTE, until=NOON + HOUR)),
)
NEVER_SEEN = EarlierSightings()
SKIPS_A_MARKER = facts(first_records={(ORDERS, 10): 11})
SKIPS_A_RECORD = facts(first_records={(ORDERS, 10): 10})


def standing(
    now: Snapshot | None = None,
    *,
    seen: EarlierSightings = NEVER_SEEN,
    after: int = 5,
    **limits: Any,
) -> CheckContext:
    """Return the case of an ordinary change under a standing approval with such limits."""
    given = Limits(**{"max_groups": 9, "max_partitions": 9, "max_records_repeated": 99, **limits})
    return case(plan(step(change(after=after))), now, limits=given, seen=seen)


class Example(NamedTuple):
    """Where a rule objects and what it says, and the nearest case in which it says nothing."""

    bad: CheckContext
    says: str
    good: CheckContext
    about: tuple[str | None, str | None, int | None] = ("g", None, None)


def of_plan(bad: CheckContext, says: str, good: CheckContext) -> Example:
    """Return an example of a rule that objects to the plan as a whole, not to one group."""
    return Example(bad, says, good, (None, None, None))


def limited(**limits: int) -> CheckContext:
    """Return the case of skipping 5 records of one partition and repeating 5 of another."""
    made = plan(step(change(after=15), change(after=5, at=BILLS)))
    return case(made, facts(commits=TWO_COMMITS), policy=Policy(**limits))


BOTH = ("orders", "bills")
APART = (("a", (0, 2)), ("b", (1, 3)))  # not as Kafka's range assignor would

EXAMPLES = {
    "read-only": of_plan(
        case(policy=Policy(read_only=True)),
        "cluster eu is marked read_only in the fleet file",
        case(),
    ),
    "wrong-cluster": of_plan(
        case(now=facts(cluster_id="id2")),
        "plan is for cluster id 'id', but this cluster has id 'id2'",
        case(now=facts(cluster="another name")),
    ),
    "protected-group": Example(
        case(policy=Policy(protected_groups=("f*", "[f-h]", "g"))),
        "protected by the fleet file (protected_groups: [f-h])",
        case(policy=Policy(protected_groups=("f*", "gg", "G"))),
    ),
    "reason-required": of_plan(case(reason=" \n"), "no reason given", case(reason="x")),
    "stale-plan": of_plan(
        case(now=facts(), made=plan(made_at=NOON - 1.5 * HOUR)),
        "the plan was made 1.5 hours ago",
        case(now=facts(), made=plan(made_at=NOON - HOUR)),
    ),
    "no-such-group": Example(
        case(replace(COPY, allows=frozenset({NEW_TOPICS}))),
        "group does not exist, and this plan may not create it",
        case(COPY),
        ("new", None, None),
    ),
    "share-group": Example(
        case(now=facts(SHARE)),
        "a share group has no committed offsets (KIP-932)",
        case(plan(step(action=Action.DELETE_GROUP, type=SHARE.type)), facts(SHARE, commits=())),
    ),
    "group-live": Example(
        case(now=facts(READER)),
        "group is Stable; members: app @ /10.0.0.1. Pause these partitions, or use "
        "'offsetbook move' (live in a notebook)",
        case(DELETION, facts(live("g", member("bills")))),
    ),
    "subscribed": Example(
        case(DELETION, facts(READER)),
        "subscribed by app @ /10.0.0.1",
        case(DELETION, facts(live("g", member("bills")))),
        ("g", "orders", None),
    ),
    "facts-moved": Example(
        case(now=facts(commits=(commit(11),))),
        "committed offset is 11, but the plan expects 10",
        case(now=facts(commits=(commit(10),))),
        ("g", "orders", 0),
    ),
    "topic-recreated": Example(
        case(OF_TOPIC_ID1, facts(topic_ids={"orders": "id2"})),
        "topic was deleted and re-created since the plan was made",
        case(OF_TOPIC_ID1, facts(topic_ids={"orders": "id1", "bills": "id3"})),
        ("g", "orders", None),
    ),
    "keeps-committing": Example(
        case(now=facts(commits=(commit(age=5),))),
        "group has no members, but a client committed at 11:59:55 UTC, after the plan was made. "
        "A running assign() consumer would overwrite the change",
        case(now=facts(commits=(commit(age=3600),))),
    ),
    "pending-transaction": Example(
        case(now=facts(commits=(replace(commit(), pending=True),))),
        "an open transaction has a pending offset commit for this partition",
        case(now=facts(commits=(commit(), replace(commit(at=OTHERS), pending=True)))),
        ("g", "orders", 0),
    ),
    "topic-never-used": Example(
        case(plan(step(change(None, 0, BILLS))), facts(commits=BILLS_OF_ANOTHER)),
        "the group has never committed offsets for this topic",
        case(plan(step(change(None, 0, OTHERS)))),
        ("g", "bills", None),
    ),
    "skips-unread-records": Example(
        # The ten of OTHERS, of which it has read nothing, are counted from the log start.
        case(plan(step(change(after=12), change(None, 10, OTHERS)))),
        "at most 12 unread records would be skipped",
        case(plan(step(change(after=9)))),
    ),
    "before-log-start": Example(
        case(plan(step(change(after=21)))),
        "offset 21 is out of range: log start offset 0, log end offset 20",
        case(plan(step(change(after=20)))),
        ("g", "orders", 0),
    ),
    "empty-name": Example(
        case(plan(replace(TOMBSTONE, group_id=""), intent=Intent.DELETE_OFFSETS)),
        "brokers delete no single offsets of the group with the empty name",
        case(plan(step(group_id="", action=Action.DELETE_GROUP), intent=Intent.DELETE_GROUPS)),
        ("", None, None),
    ),
    "last-offsets": Example(
        case(DELETION),
        "these are the group's last committed offsets; afterwards its consumers start according "
        "to auto.offset.reset",
        case(DELETION, facts(commits=TWO_COMMITS)),
    ),
    "hidden-offsets": of_plan(
        case(DELETION_OF_GROUP, facts(problems=(Problem(Unread.COMMIT_TIMES, "may not be read"),))),
        "check not possible, unknown: whether all committed offsets are shown: may not be read",
        case(DELETION_OF_GROUP, facts()),
    ),
    "not-undoable": Example(
        case(plan(step(action=Action.DELETE_GROUP)), facts(SHARE, commits=())),
        "deleting a share group deletes its share state; undo cannot restore it",
        case(plan(step(action=Action.DELETE_GROUP)), facts(commits=())),
    ),
    "too-many-groups": of_plan(
        case(plan(step(), step(group_id="h"), step(group_id="h")), policy=Policy(max_groups=1)),
        "2 groups; max_groups is 1",
        case(plan(step(), step()), policy=Policy(max_groups=1)),
    ),
    "too-many-partitions": of_plan(
        limited(max_partitions=1), "2 partitions; max_partitions is 1", limited(max_partitions=2)
    ),
    "too-many-records": of_plan(
        limited(max_records_skipped=4),
        "5 records skipped; max_records_skipped is 4",
        limited(max_records_skipped=5, max_records_repeated=5),
    ),
    "unreadable": Example(
        case(now=facts(problems=(Problem(Unread.MEMBERS, "timed out", "g"),))),
        "members could not be read: timed out",
        case(now=facts(problems=(Problem(Unread.MEMBERS, "timed out", "h"),))),
    ),
    "group-kind": Example(
        holding(live("g", type=GroupType.UNKNOWN)),
        "group type is not supported by this version",
        holding(live("g", type=GroupType.CONSUMER)),
    ),
    "group-empty": Example(
        holding(IDLE), "group is empty: reset it without a pause", holding(READER)
    ),
    "not-stable": Example(
        holding(replace(READER, state=GroupState.ASSIGNING)),
        "group is Assigning: wait until it is Stable",
        holding(READER),
    ),
    "custom-protocol": Example(
        holding(replace(READER, protocol_type="connect")),
        "protocol type is 'connect', not 'consumer'",
        holding(replace(READER, assignor="range")),
    ),
    "unreadable-member": Example(
        holding(live("g", member(unreadable="no idea"))),
        "no idea",
        case(plan(step(change(), action=Action.RELEASE)), facts(live("g", member(unreadable="?")))),
    ),
    "whole-application": Example(
        hold(held.group(type=GroupType.STREAMS)),
        "Streams groups (KIP-1071) cannot be paused per partition, only as a whole: orders:1-3 "
        "would stop as well. Name no topic, or use 'offsetbook move'",
        hold(held.group()),
    ),
    "not-subscribed": Example(
        hold(held.group(held.reader("a", 0, topics=("bills",)))),
        "no member subscribes to it",
        hold(held.group(held.reader("a", 0))),
        ("g", "orders", None),
    ),
    "nothing-assigned": Example(
        hold(held.group(held.reader("a", 1, 2, 3))),
        "orders:0 is not assigned to any member now: there is nothing to pause",
        hold(held.group(held.reader("a", 0))),
    ),
    "no-committed-offset": Example(
        hold(held.group(), replace(held.facts(held.group()), commits=()), prefer=CaptureMode.QUIET),
        "no committed offset for orders:0-1: the next owner starts according to "
        "auto.offset.reset; with `latest` it skips what is produced meanwhile. Set commit-missing "
        "to commit a position first",
        hold(held.group(), NEVER_COMMITTED_3, prefer=CaptureMode.QUIET),
    ),
    "hold-too-long": Example(
        hold(held.group(), pause_for=30 * DAY),
        "a pause of a KIP-848 group can last at most 24 d 20 h",
        hold(held.group(), pause_for=24 * DAY),
    ),
    "retention": Example(
        hold(held.group(held.holder(1)), beside=HoldFacts(HoldSettings(retention=DAY))),
        "if all consumers leave, the group's offsets expire after 1 d, even during the pause",
        hold(held.group(), beside=HoldFacts(HoldSettings(retention=DAY))),
    ),
    "group-size": Example(
        hold(held.group(), beside=HoldFacts(HoldSettings(max_size=6))),
        "needs 7 members temporarily; the group's maximum size is 6",
        hold(held.group(), beside=HoldFacts(HoldSettings(max_size=7))),
    ),
    "another-hold": Example(
        hold(held.classic(*HELD_BY_ALICE, assignor="stream"), beside=HoldFacts(by=("bob", "desk"))),
        "alice @ desk since 2026-03-01 12:00:00 UTC has already paused orders:1. Pause "
        "these partitions from there as well, or resume that pause first",
        hold(held.classic(*HELD_BY_ALICE), beside=HoldFacts(by=("bob", "desk"))),
    ),
    "assignor-differs": Example(
        hold(held.classic(*(held.reader(n, *own, topics=BOTH) for n, own in APART))),
        "the group's range assignor assigns partitions otherwise than Kafka's, for example by "
        "rack; during the pause members keep what they have, and one that joins is given "
        "partitions by number only: equal partition numbers of two topics may then be read by two "
        "members",
        hold(held.classic(*(held.reader(n, *own) for n, own in APART))),
    ),
    "other-end": Example(
        hold(held.group(*HELD_FOR_AN_HOUR)),
        "orders:1 is already paused, which ends at 2026-03-01 13:00:00 UTC; added "
        "partitions end with it. Use the same duration, or resume first",
        hold(held.group(*HELD_FOR_AN_HOUR), for_move=True),
    ),
    "foreign-hold": Example(
        resuming(held.group(*HELD_BY_ALICE), 1),
        "orders:1 was paused by alice @ desk since 2026-03-01 12:00:00 UTC. Override foreign-hold "
        "to resume it anyway",
        resuming(held.group(*HELD_BY_ALICE), 1, by=held.ALICE),
    ),
    "releases-more": Example(
        resuming(TWO_HELD_BY_ALICE, 1),
        "alice @ desk since 2026-03-01 12:00:00 UTC also paused orders:3, which would be resumed "
        "as well; name all of them",
        resuming(TWO_HELD_BY_ALICE, 1, 3),
    ),
    "group-not-allowed": Example(
        standing(groups=("pay-*", "h")),
        "not covered by the standing approval, which allows pay-*, h",
        standing(groups=("[fg]",)),
    ),
    "too-few-records": of_plan(
        standing(SKIPS_A_MARKER, after=11, min_records_skipped=1),
        "0 records skipped; min_records_skipped is 1",
        standing(SKIPS_A_RECORD, after=11, max_records_skipped=1, min_records_skipped=1),
    ),
    "empty-too-briefly": Example(
        standing(empty_since(30), empty_for_days=31),
        "unused for only 30.0 days by group metadata record; the limit empty_for_days requires 31",
        standing(empty_since(30), empty_for_days=30),
    ),
    "unsubscribed-too-briefly": Example(
        standing(seen=LEFT, unsubscribed_for_days=15),
        "seen unsubscribed for 14.0 days; unsubscribed_for_days is 15",
        standing(seen=LEFT, unsubscribed_for_days=14),
        ("g", "orders", None),
    ),
}
