"""What odd groups and half-read facts do to the guard-rails, and plans that were done in part."""

from dataclasses import replace
from typing import Any

import pytest
from facts import NOON, live, member
from guardrail_cases import (
    BILLS,
    IDLE,
    ORDERS,
    OTHERS,
    SECOND,
    case,
    change,
    commit,
    facts,
    found,
    plan,
    rules,
    step,
)
from held import holder

from toolkit.model import (
    Commit,
    Group,
    GroupState,
    GroupType,
    LogOffsets,
    Policy,
    Problem,
    Snapshot,
    Unread,
)
from toolkit.plan import (
    NEW_GROUP,
    NEW_TOPICS,
    Action,
    Change,
    Finding,
    Intent,
    Plan,
    Position,
    Severity,
)
from toolkit.planning.changes.skipped_ranges import skipped_ranges
from toolkit.planning.guardrails.check_context import CheckContext
from toolkit.planning.guardrails.registry import check

DEAD = replace(IDLE, state=GroupState.DEAD)
RESET = plan(step(change()))
NEW = step(change(None, 5), group_id="new", state=None, type=GroupType.SIMPLE)
COPY = plan(NEW, intent=Intent.COPY, allows=frozenset({NEW_GROUP}))
GONE = step(change(after=None), action=Action.DELETE_GROUP)
DELETION = plan(GONE, intent=Intent.DELETE_GROUPS)
GOES_ON = {Action.DELETE_OFFSETS, Action.HOLD, Action.RELEASE, Action.FIRST_COMMIT}
COMMITS = {Action.COMMIT, Action.MOVE}
WAY_OUT = ". Pause these partitions, or use 'offsetbook move' (live in a notebook)"
UNLISTED = Problem(Unread.GROUPS, "those coordinated by broker 2: timed out")


def whys(rule: str, about: CheckContext) -> list[tuple[str | None, str]]:
    """Return group and reason of what is found by one rule."""
    return [(finding.group_id, finding.why) for finding in found(rule, about)]


@pytest.mark.parametrize("state", sorted(set(GroupState) - {GroupState.EMPTY, GroupState.DEAD}))
@pytest.mark.parametrize("action", sorted(set(Action) - GOES_ON))
def test_a_group_that_is_not_known_to_be_idle_is_live(state: GroupState, action: Action) -> None:
    """Also one without members, which is forming, or in a state we do not know."""
    about = case(plan(step(change(), action=action)), facts(live("g", state=state)))

    told = f"group is {state}; members: none yet{WAY_OUT if action in COMMITS else ''}"
    assert [("g", told)] == whys("group-live", about)


def test_members_are_named_as_far_as_they_are_known_and_few() -> None:
    """A group of a thousand members does not fill the screen."""
    many = live("g", *[replace(member("orders"), client_id=f"app-{n}") for n in range(1000)])
    named = ", ".join(f"app-{n} @ /10.0.0.1" for n in (0, 1, 10, 100, 101)) + " and 995 more"
    dropped = case(plan(step(change(after=None), action=Action.DELETE_OFFSETS)), facts(many))

    for group, members in ((many, named), (replace(many, described=False), "not known")):
        told = f"group is Stable; members: {members}{WAY_OUT}"
        assert [("g", told)] == whys("group-live", case(now=facts(group)))
    assert [("g", f"subscribed by {named}")] == whys("subscribed", dropped)


GONE_SINCE = "group now does not exist, unlike when the plan was made"
NEW_SINCE = "group now exists, unlike when the plan was made"
OTHER_TYPE = "it is a {} group now, and was classic when the plan was made"
FIRST = plan(step(change(None, 5)))


@pytest.mark.parametrize(
    ("made", "group", "says"),
    [
        (RESET, DEAD, ("g", GONE_SINCE)),
        *((made, live("h"), ("g", GONE_SINCE)) for made in (RESET, FIRST, DELETION, plan(step()))),
        (COPY, replace(IDLE, group_id="new"), ("new", NEW_SINCE)),
        *(
            (FIRST, replace(IDLE, type=kind), ("g", OTHER_TYPE.format(kind)))
            for kind in sorted(set(GroupType) - {GroupType.CLASSIC})
        ),
    ],
)
def test_a_group_that_is_another_one_since_the_plan_is_refused(
    made: Plan, group: Group, says: tuple[str, str]
) -> None:
    """A group that vanished is not made, one that appeared not overwritten, whatever the change."""
    assert [says] == whys("facts-moved", case(made, facts(group, commits=())))


@pytest.mark.parametrize("action", [Action.COMMIT, Action.DELETE_OFFSETS, Action.REJOIN])
@pytest.mark.parametrize("state", [GroupState.EMPTY, GroupState.STABLE])
def test_a_share_group_is_refused_by_name(action: Action, state: GroupState) -> None:
    """Not as one that is live or has moved alone, which a new plan could not change."""
    share = replace(IDLE, type=GroupType.SHARE, state=state)
    about = case(plan(step(action=action, type=GroupType.SHARE)), facts(share, commits=()))

    assert [("g", "a share group has no committed offsets (KIP-932)")] == whys("share-group", about)


@pytest.mark.parametrize("action", sorted(set(Action) - {Action.COMMIT}))
def test_only_a_commit_may_create_a_group(action: Action) -> None:
    """A rejoin would create one as well, which nobody requested."""
    allows = frozenset({NEW_GROUP})
    about = case(plan(step(action=action, state=None), allows=allows), facts(commits=()))

    assert "no-such-group" in rules(about)


def test_a_group_that_is_not_listed_may_exist_where_not_all_could_be_listed() -> None:
    """Neither is it made, nor taken for deleted."""
    why = "unknown whether the group exists: groups: those coordinated by broker 2: timed out"
    about = facts(commits=(), problems=(UNLISTED, UNLISTED))

    for applying in (True, False):
        assert [("new", why)] == whys("unreadable", case(COPY, about, applying=applying))
    assert [] == whys("unreadable", case(RESET, facts(problems=(UNLISTED,))))


OFFLINE = Problem(Unread.LOG_OFFSETS, "it has no leader", None, *ORDERS)


@pytest.mark.parametrize(
    ("problem", "about"),
    [
        (Problem(Unread.COMMITS, "timed out", "g"), [("g", None, None)]),
        (Problem(Unread.COMMIT, "denied", "g", "bills", 0), [("g", "bills", 0)]),
        (OFFLINE, [(None, "orders", 0)]),
        (Problem(Unread.TOPIC, "denied", None, "orders"), [(None, "orders", None)]),
        # Other groups and logs, and what is left out safely, or judged by a rule of its own.
        (Problem(Unread.COMMIT, "denied", "h", *ORDERS), []),
        (replace(OFFLINE, partition=OTHERS.partition), []),
        (Problem(Unread.LEADER_EPOCHS, "timed out", None, *ORDERS), []),
        (Problem(Unread.GROUP, "no group matches this name", "g"), []),
        (Problem(Unread.TOPIC, "the topic does not exist", None, "bills"), []),
        (Problem(Unread.COMMIT_TIMES, "denied"), []),
    ],
)
def test_unread_facts_block_a_change(problem: Problem, about: list[tuple[Any, ...]]) -> None:
    """With the reason, for the group, partition or topic."""
    why = f"{problem.what} could not be read: {problem.why}"
    expected = [Finding("unreadable", Severity.BLOCK, why, *subject) for subject in about]

    assert (*expected,) == check(case(now=facts(problems=(problem,))))


def test_an_undescribed_group_is_unreadable_once() -> None:
    """Even if no problem says why it was not described."""
    problem = Problem(Unread.MEMBERS, "timed out", "g")

    unread = "members could not be read: timed out"
    for problems, why in (((), "its members are not known"), ((problem,), unread)):
        about = facts(replace(IDLE, described=False), problems=problems)
        assert [("g", why)] == whys("unreadable", case(now=about))


def test_one_group_that_cannot_be_judged_does_not_hide_the_others() -> None:
    """An override of a rule is made with all its objections known."""
    young, busy = step(change(), group_id="a", last_commit_at=NOON), step(change())
    commits = (commit(group="a", age=0), commit(age=1))
    now = facts(replace(IDLE, group_id="a"), IDLE, commits=commits)
    dropped = plan(
        *(step(change(after=None), group_id=n, action=Action.DELETE_OFFSETS) for n in "ag")
    )
    lives = facts(live("a"), live("g", member("orders")))

    for rule, about in (
        ("keeps-committing", case(plan(young, busy, made_at=NOON), now)),
        ("subscribed", case(dropped, lives)),
    ):
        assert ["g", None] == [finding.group_id for finding in found(rule, about)]


STABLE = {ORDERS: LogOffsets(0, 20, 20)}
OF_EARLIER_TOPIC = facts(
    commits=(replace(commit(), topic_id="id0"), replace(commit(group="h"), topic_id="id1")),
    topic_ids={"orders": "id1"},
)


@pytest.mark.parametrize(
    ("before", "now", "group_id", "skipped"),
    [
        (1000, facts(commits=(commit(1000),)), "g", 15),
        (10, OF_EARLIER_TOPIC, "g", 15),
        (10, OF_EARLIER_TOPIC, "h", 5),
    ],
)
def test_the_offset_of_an_earlier_topic_has_read_nothing(
    before: int, now: Snapshot, group_id: str, skipped: int
) -> None:
    """It counts other records, whether the log ends before it or its topic id says so."""
    made = plan(step(change(before, 15), group_id=group_id))
    (finding,) = found("skips-unread-records", case(made, now))
    where = [start for _, start in skipped_ranges(made, replace(now, logs=STABLE))]

    assert f"at most {skipped} unread records would be skipped" == finding.why
    assert [15 - skipped] == where


@pytest.mark.parametrize(
    ("first", "after", "says"),
    [
        (11, 11, ["no record is skipped: the next record has offset 11"]),
        (11, 12, []),
        (None, 20, []),
        (10, 11, []),
    ],
)
def test_a_marker_alone_is_no_record(first: int | None, after: int, says: list[str]) -> None:
    """A shift by one from a transaction marker leaves the record that was meant to be skipped."""
    now = facts(first_records={(ORDERS, 10): first})
    notes = found("skips-no-record", case(plan(step(change(after=after))), now))

    assert says == [note.why for note in notes]
    assert not any(note.blocks for note in notes)


def test_skipped_records_are_counted_before_an_open_transaction() -> None:
    """Up to the last stable offset it is settled which records are committed."""
    made = plan(step(change(after=12)), step(change(after=13, at=OTHERS)))
    now = facts(logs=dict.fromkeys((ORDERS, OTHERS), LogOffsets(0, 20, 12)))

    assert [(ORDERS, 10)] == list(skipped_ranges(made, now))


@pytest.mark.parametrize(
    ("count", "named", "more"), [(3, 3, ""), (4, 3, "; and 1 more"), (1003, 3, "; and 1,000 more")]
)
def test_many_unknown_facts_are_counted(count: int, named: int, more: str) -> None:
    """The first three are named."""
    made = plan(step(*[change(at=BILLS._replace(partition=n)) for n in range(1, count + 1)]))
    (finding,) = found("skips-unread-records", case(made))
    logs = [f"where the log of bills partition {n + 1} starts and ends" for n in range(named)]

    assert f"check not possible, unknown: {'; '.join(logs)}{more}" == finding.why


def watched(
    *commits: Commit, seconds: float, group: Group = IDLE, **fields: object
) -> CheckContext:
    """Return the case of a plan of so many seconds ago, for a group with these commits."""
    made = plan(step(change(), **fields), made_at=NOON - seconds * SECOND)
    return case(made, facts(group, commits=commits), watch=6 * SECOND)


LATELY = {"last_commit_at": NOON - 30 * SECOND}


@pytest.mark.parametrize(
    ("about", "blocked"),
    [
        (watched(commit(age=30), seconds=5.9, **LATELY), True),
        (watched(commit(age=30), seconds=6, **LATELY), False),
        # A minute, and five more by which the broker's clock may be behind ours.
        (watched(commit(age=360), seconds=0, last_commit_at=NOON - 360 * SECOND), True),
        (watched(commit(age=361), seconds=0, last_commit_at=NOON - 361 * SECOND), False),
        # A commit that moved on while it was read has no time, however old the others are.
        (watched(commit(), commit(at=OTHERS, age=None), seconds=0), True),
        (watched(commit(age=None), seconds=0, last_commit_at=None), True),
        (watched(commit(age=None), seconds=6, last_commit_at=None), False),
        # Nothing was known when the plan was made, and something came after it.
        (watched(commit(age=1), seconds=10, last_commit_at=None), True),
        (watched(commit(age=11), seconds=10, last_commit_at=None), False),
        # A broker whose clock is ahead does not make a group look quiet.
        (watched(commit(age=-90), seconds=0, last_commit_at=NOON + 90 * SECOND), True),
        (watched(seconds=0), True),
        (watched(seconds=0, group=live("g", state=GroupState.PREPARING_REBALANCE)), False),
    ],
)
def test_an_empty_group_with_recent_commits_is_sampled_twice(
    about: CheckContext, *, blocked: bool
) -> None:
    """Two samples six seconds apart, or a minute without a commit, and none since the plan."""
    assert blocked == bool(found("keeps-committing", about))


@pytest.mark.parametrize("intent", sorted(set(Intent) - {Intent.RESET, Intent.MOVE}))
def test_only_a_reset_is_held_to_the_topics_of_its_group(intent: Intent) -> None:
    """A copy, a restore and an undo bring the topics that they were asked to bring."""
    made = plan(step(change(None, 0, BILLS)), intent=intent)

    assert [] == found("topic-never-used", case(made))
    assert [] == found("topic-never-used", case(replace(made, allows=frozenset({NEW_TOPICS}))))


def test_a_difference_at_the_same_offset_is_named() -> None:
    """Another operator has cleared the metadata, or the partition has a new leader."""
    now = facts(commits=(replace(commit(), leader_epoch=2, metadata="x" * 99),))
    told = f"10 (leader epoch 2, metadata '{'x' * 40}')"
    why = f"committed offset is {told}, but the plan expects 10 (no leader epoch, metadata '')"

    assert [("g", why)] == whys("facts-moved", case(now=now))


BOTH_COMMITTED = facts(commits=(commit(), commit(at=BILLS)))


def test_a_commit_since_the_plan_blocks_the_deletion_of_a_group() -> None:
    """A client uses it; also while an interrupted deletion is finished."""
    others = facts(commits=(commit(), commit(at=BILLS, group="h")))
    why = "new committed offset since the plan was made"

    assert [] == found("facts-moved", case(DELETION, others))
    for finishing in (False, True):
        (finding,) = found("facts-moved", case(DELETION, BOTH_COMMITTED, finishing=finishing))
        assert (why, "bills") == (finding.why, finding.topic)


@pytest.mark.parametrize("fields", [{"finishing": True}, {"applying": False}])
def test_changes_of_the_interrupted_run_are_no_moved_facts(fields: dict[str, object]) -> None:
    """When it is finished, offsets at the target of the plan are done."""
    both = plan(step(change(), change(after=7, at=OTHERS)))
    half, moved = (facts(commits=(commit(at, ORDERS), commit(10, OTHERS))) for at in (5, 6))
    gone = facts(live("h"), commits=())

    assert [] == found("facts-moved", case(both, half, **fields))
    assert ["facts-moved"] == rules(case(both, moved, **fields))
    assert [] == found("facts-moved", case(DELETION, gone, **fields))
    assert ["facts-moved"] == rules(case(RESET, facts(live("h"), commits=()), **fields))


def test_finishing_needs_no_fresh_plan_and_no_second_sample() -> None:
    """The interrupted run had both, and its own commits are recent."""
    made = plan(step(change(), last_commit_at=NOON - 9000 * SECOND), made_at=NOON - 9000 * SECOND)
    about = case(made, facts(commits=(commit(5, age=1),)), finishing=True)

    assert [] == rules(about)
    assert ["stale-plan", "facts-moved", "keeps-committing"] == rules(
        replace(about, finishing=False)
    )


HELD_GROUP = live("g", member("orders"), holder(0), assignor="range")
BUSY = facts(replace(HELD_GROUP, state=GroupState.PREPARING_REBALANCE))
MOVED = facts(HELD_GROUP, commits=(replace(commit(99, age=0), pending=True),))
NOTHING = facts(commits=())
OF_BILLS = plan(step(change(None, 0, BILLS)), allows=frozenset({NEW_GROUP}))
OF_NEW_TOPICS = replace(OF_BILLS, allows=frozenset({NEW_TOPICS}))
ONE_AFTER_THE_OTHER = plan(step(change()), step(change(before=5, after=4)))
DELETED_AFTERWARDS = plan(step(change()), replace(GONE, changes=()))
DROPS = [step(change(after=None, at=at), action=Action.DELETE_OFFSETS) for at in (ORDERS, BILLS)]


THEIRS = facts(commits=(replace(commit(), metadata="theirs"),))
OUR_EPOCH = Change(ORDERS, Position(10, 4, "mine"), Position(5, 4, "mine"))
DROPPED, BILLS_DROPPED = (
    plan(*steps, intent=Intent.DELETE_OFFSETS) for steps in (DROPS, DROPS[1:])
)


def paused(action: Action) -> Plan:
    """Return a plan that holds or releases a partition, which changes no offset."""
    return plan(step(change(None, None), action=action), intent=Intent.PAUSE)


HOLD, RELEASE = paused(Action.HOLD), paused(Action.RELEASE)
PROTECTED = Policy(protected_groups=("g", "pay[1]"))
LIKE_A_PATTERN = replace(IDLE, group_id="pay[1]")
EMPTY_DELETION = plan(step(action=Action.DELETE_GROUP), intent=Intent.DELETE_GROUPS, made_at=NOON)
BLOCKED_BY = {
    "a group that is Dead is gone, so a copy may make it": (
        case(COPY, facts(replace(DEAD, group_id="new"), commits=())),
        [],
    ),
    **{
        f"no offset moves, so the log need not be read: {words}": (
            case(
                plan(step(change(after=after)), intent=Intent.RESCUE),
                facts(logs={}, problems=(OFFLINE,)),
            ),
            [],
        )
        for words, after in (("rescue", 10), ("deletion", None))
    },
    "nobody could write over a group without changes": (case(EMPTY_DELETION, NOTHING), []),
    "to allow a new group does not allow new topics": (case(OF_BILLS), ["topic-never-used"]),
    "new topics are for those who ask": (case(OF_NEW_TOPICS), []),
    "the same offset with other metadata was committed again": (case(now=THEIRS), ["facts-moved"]),
    "so was the same offset with another epoch": (case(plan(step(OUR_EPOCH))), ["facts-moved"]),
    "a step does not find what another leaves": (case(ONE_AFTER_THE_OTHER), ["facts-moved"]),
    "nor does a deletion of the group": (case(DELETED_AFTERWARDS), ["facts-moved"]),
    "one topic a step empties the group as well": (case(DROPPED, BOTH_COMMITTED), ["last-offsets"]),
    "one topic of two does not": (case(BILLS_DROPPED, BOTH_COMMITTED), []),
    "nothing is changed": (case(plan(), facts(live("g"), problems=(UNLISTED,))), []),
    "the topics of another cluster are not called new as well": (
        case(
            plan(step(change()), topic_ids={"orders": "id1"}),
            facts(cluster_id="x", topic_ids={"orders": "y"}),
        ),
        ["wrong-cluster"],
    ),
    "to hold changes no offset": (case(HOLD, MOVED), []),
    "to release changes no offset": (case(RELEASE, MOVED), []),
    "a protected group is not held": (case(HOLD, MOVED, policy=PROTECTED), ["protected-group"]),
    "nor released": (case(RELEASE, MOVED, policy=PROTECTED), ["protected-group"]),
    "to hold, a group must be calm": (case(HOLD, BUSY), ["not-stable"]),
    "to release it need not be": (case(RELEASE, BUSY), []),
    "a name like a pattern protects the group that has it": (
        case(plan(step(group_id="pay[1]")), facts(LIKE_A_PATTERN), policy=PROTECTED),
        ["protected-group"],
    ),
}


@pytest.mark.parametrize(("about", "blocking"), BLOCKED_BY.values(), ids=BLOCKED_BY)
def test_which_rules_block(about: CheckContext, blocking: list[str]) -> None:
    """Exactly these rules object, for the reason that the case is named by."""
    assert blocking == rules(about)


def test_rules_that_have_nothing_to_judge() -> None:
    """An idle group subscribes to nothing; where nothing is committed no offset is the last."""
    undescribed = facts(replace(IDLE, described=False))
    dropped = plan(step(change(after=None), action=Action.DELETE_OFFSETS))

    assert [] == found("subscribed", case(dropped, undescribed))
    assert [] == found("last-offsets", case(plan(*DROPS), NOTHING))


def moving(*changes: Change, intent: Intent = Intent.RESET) -> Plan:
    return plan(step(*changes, action=Action.MOVE), intent=intent)


def test_paused_partitions_of_a_live_group_can_be_changed() -> None:
    """If all of them are paused; others are named."""
    both = moving(change(), change(at=OTHERS))
    about = facts(HELD_GROUP, commits=(commit(), commit(at=OTHERS)))

    assert [] == rules(case(moving(change()), about))
    ((_, why),) = whys("group-live", case(both, about))
    assert "; orders:1 is not paused. Pause these partitions" in why
    assert "group-live" in rules(case(plan(step(change())), about))  # not in a transaction


def test_a_move_that_is_approved_before_it_holds() -> None:
    """While it is reviewed nothing is paused yet; when it is applied everything is."""
    reader, move = live("g", member("orders")), moving(change(), intent=Intent.MOVE)

    assert [] == rules(case(move, facts(reader), applying=False))
    assert ["group-live"] == rules(case(move, facts(reader)))
    streams = live("g", member("orders"), type=GroupType.STREAMS)
    evicting = moving(change(), intent=Intent.MOVE)
    evicting = replace(evicting, steps=(replace(evicting.steps[0], type=GroupType.STREAMS),))
    assert [] == rules(case(evicting, facts(streams)))
    since = facts(streams, commits=(commit(12, age=0),))
    assert [] == rules(case(evicting, since))  # its members read on until they are evicted
    assert "facts-moved" in rules(case(move, replace(since, groups=(HELD_GROUP,))))
    # By its terms it is planned again while it is live; of an empty group it is as it stands.
    by_terms = replace(move, terms={"target": "to-offset 5"})
    for group, says in ((reader, []), (IDLE, ["facts-moved"])):
        about = facts(group, commits=(commit(12),))
        assert says == rules(case(by_terms, about, applying=False))
