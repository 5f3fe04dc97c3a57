"""What a pause and a resume plan, what they refuse, and what they say."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from facts import NOON, snapshot
from guardrail_cases import reviewed
from held import (
    ALICE,
    PARTITIONS,
    blocks,
    changes,
    classic,
    facts,
    group,
    holder,
    notes,
    numbers,
    reader,
    reason,
    without_commits,
)
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model import (
    CaptureMode,
    Group,
    GroupState,
    GroupType,
    HoldNote,
    Problem,
    Snapshot,
    Subscription,
    TopicPartition,
    Unread,
)
from toolkit.plan import Action, Change, Intent, Plan, Position
from toolkit.planning.changes.pause import plan_pause, plan_resume
from toolkit.planning.holds.hold_context import HoldFacts, HoldSettings, HoldTerms

DAY = timedelta(days=1)
QUIET = HoldTerms(CaptureMode.QUIET)
BOB = ("bob", "elsewhere")


def pause(
    about: Snapshot | Group,
    *topics: str,
    terms: HoldTerms = HoldTerms(),  # noqa: B008 - it is frozen
    **beside: object,
) -> Plan:
    known = facts(about) if isinstance(about, Group) else about
    background = HoldFacts(**beside)  # type: ignore[arg-type] # a test names the fields it means
    return plan_pause(
        known, group="g", topics=topics or ("orders:1",), terms=terms, hold_facts=background
    )


def resume(about: Group, *topics: str, by: tuple[str, str] | None = None) -> Plan:
    return plan_resume(facts(about), group="g", topics=topics, by=by)


def test_a_pause_is_one_step_that_names_partitions_and_terms() -> None:
    """Changes have the reader and the lag; offsets stay; the terms are part of the plan."""
    plan = pause(group(), "orders:1-2", terms=HoldTerms(CaptureMode.FAST, timedelta(minutes=90)))

    (step,) = plan.steps
    assert (Intent.PAUSE, Action.HOLD) == (plan.intent, step.action)
    assert {"prefer": "fast", "for": "1h30m"} == plan.terms
    owners = {1: "owned by a @ /10.0.0.1; lag 10", 2: "owned by b @ /10.0.0.1; lag 10"}
    held = tuple(Change(PARTITIONS[number], None, None, why) for number, why in owners.items())
    assert held == step.changes
    assert "pause g orders:1-2 for 1 h 30 min" == plan.request


def test_an_approval_covers_the_terms() -> None:
    """A live group keeps committing, and the approval stays valid."""
    terms = (HoldTerms(), HoldTerms(CaptureMode.FAST), HoldTerms(pause_for=DAY))
    assert 3 == len({pause(group(), terms=of).fingerprint for of in terms})
    one, other = pause(facts(group())), pause(facts(group(), committed=15, end=90))
    assert one.fingerprint == other.fingerprint


@given(st.builds(HoldTerms, st.sampled_from(CaptureMode), st.timedeltas(timedelta(seconds=1), DAY)))
def test_terms_are_read_as_they_are_written(terms: HoldTerms) -> None:
    """What stands in a plan is what was asked for, to the second."""
    read = HoldTerms.of(replace(pause(group()), terms=terms.as_terms()))
    assert read.prefer is terms.prefer
    assert abs(read.pause_for - terms.pause_for) <= timedelta(seconds=0.5)


def test_a_pause_names_a_topic() -> None:
    """KIP-1249: one without numbers is paused as a whole; without one nothing is by chance."""
    assert [0, 1, 2, 3] == numbers(pause(group(), "orders"))
    with pytest.raises(UsageError, match="no topic"):
        plan_pause(facts(group()), group="g", topics=())


@pytest.mark.parametrize(
    ("prefer", "pause_for"), [("soft", ""), ("", "soon"), ("", "0s"), ("", "-5m")]
)
def test_terms_that_are_none(prefer: str, pause_for: str) -> None:
    """An unknown way, and a length that is none, are usage errors."""
    with pytest.raises(UsageError):
        HoldTerms.read(prefer, pause_for)


def test_paused_partitions_are_no_change() -> None:
    """A note has who paused them and since when, and the rest is planned."""
    held = group(reader("a", 0), reader("b", 2, 3), holder(1), state=GroupState.RECONCILING)

    more = pause(held, "orders:0-1")
    assert [0] == numbers(more)
    assert reason(more, "already-paused").startswith("orders:1 is already paused by alice @ desk")
    same = pause(held, "orders:1")
    assert ((), [], ["already-paused"]) == (same.steps, blocks(same), notes(same))


NO_BILLS = Problem(Unread.TOPIC, "the topic does not exist", topic="bills")
UNLISTED = Problem(Unread.GROUPS, "those coordinated by broker 2: nobody answers")
UNREADABLE = Subscription(unreadable="the member's subscription could not be parsed")
UNREADABLE_MEMBER = group(replace(reader("a", 0, 1), subscription=UNREADABLE))
UNREAD_ORDERS_1 = group(reader("a", 0), reader("b", 2, 3))
PARTLY_HELD = group(reader("a", 0, 1), reader("b", 2), holder(3), state=GroupState.RECONCILING)
KNOWN = ("range", "roundrobin", "sticky", "cooperative-sticky", "RoundRobinAssigner")


@pytest.mark.parametrize(
    ("about", "topic", "rules", "planned"),
    [
        # Unknown groups, topics and partitions are named.
        (group(), "orders:1,9", ["no-such-partition"], [1]),
        (replace(facts(group()), problems=(NO_BILLS,)), "bills:0", ["no-such-partition"], []),
        (group(state=GroupState.DEAD), "orders:1", ["no-such-group"], []),
        (snapshot(), "orders:1", ["no-such-group"], []),
        (replace(snapshot(), problems=(UNLISTED,)), "orders:1", ["unreadable"], []),
        # Groups that cannot be held are refused by a rule; the plan shows what was meant.
        (group(type=GroupType.SHARE), "orders:1", ["group-kind"], [1]),
        (group(type=GroupType.SIMPLE), "orders:1", ["group-kind"], [1]),
        (classic(state=GroupState.PREPARING_REBALANCE), "orders:1", ["not-stable"], [1]),
        (group(state=GroupState.RECONCILING), "orders:1", ["not-stable"], [1]),
        (classic(assignor="our-own"), "orders:1", ["custom-protocol"], [1]),
        (UNREADABLE_MEMBER, "orders:1", ["unreadable-member", "not-subscribed"], [1]),
        (group(described=False), "orders:1", ["unreadable-member"], [1]),
        (
            group(type=GroupType.STREAMS, state=GroupState.EMPTY),
            "orders",
            ["group-empty"],
            [0, 1, 2, 3],
        ),
        (UNREAD_ORDERS_1, "orders:1", ["nothing-assigned"], [1]),
        # Every assignor that we know, and a group that is held already, is free to be paused.
        *((classic(assignor=assignor), "orders:1", [], [1]) for assignor in KNOWN),
        (PARTLY_HELD, "orders:1", [], [1]),
    ],
)
def test_blocks_of_a_pause(
    about: Snapshot | Group, topic: str, rules: list[str], planned: list[int]
) -> None:
    """A rule blocks partitions that do not exist or cannot be held, and no others."""
    plan = pause(about, topic)
    assert (rules, planned) == (blocks(plan), numbers(plan))


def test_an_unread_partition_beside_a_read_one() -> None:
    """It is withheld from members that join, and that is noted."""
    plan = pause(UNREAD_ORDERS_1, "orders:0-1")
    assert ([], [0, 1], True) == (blocks(plan), numbers(plan), "not-assigned" in notes(plan))


STREAMS = group(type=GroupType.STREAMS)


def test_a_streams_application_is_paused_as_a_whole() -> None:
    """KIP-1071: without a topic, or with all that it reads; a part says what would stop as well."""
    whole = plan_pause(facts(STREAMS), group="g", topics=())
    assert ([0, 1, 2, 3], []) == (numbers(whole), blocks(whole))
    assert [] == blocks(pause(STREAMS, "orders"))
    assert "orders:0,2-3 would stop as well" in reason(pause(STREAMS), "whole-application")
    assert "within about 29 s after resume" in reason(whole, "stops")
    assert "all members are evicted, again every 23 s" in reason(whole, "disturbs")
    survives = "some after 23 s, all after a session timeout more"
    assert survives in reason(whole, "survives")


def test_an_unreadable_group_is_not_held() -> None:
    """What could not be read of it blocks, in the broker's words."""
    problem = Problem(Unread.COMMITS, "not authorised", group_id="g")
    unread = replace(facts(group()), problems=(problem,))
    assert ["unreadable"] == reviewed(pause(unread), unread)


@pytest.mark.parametrize(
    ("about", "prefer"),
    [
        (group(), CaptureMode.LOSSLESS),
        (group(), CaptureMode.QUIET),
        (group(), CaptureMode.FAST),
        (classic(), CaptureMode.LOSSLESS),
        (classic(assignor="cooperative-sticky"), CaptureMode.LOSSLESS),
        (classic(assignor="stream"), CaptureMode.LOSSLESS),
    ],
)
def test_partitions_without_a_committed_offset(about: Group, prefer: CaptureMode) -> None:
    """Their next owner starts by auto.offset.reset, unless a position is committed."""
    never, terms = without_commits(facts(about), 0), HoldTerms(prefer)
    plan = pause(never, terms=terms)
    assert "no-committed-offset" in blocks(plan)
    assert "no committed offset for orders:0" in reason(plan, "no-committed-offset")

    for words, offset in (("earliest", 0), ("latest", 20), ("7", 7), ("99", 20)):
        lifted = pause(never, terms=replace(terms, commit_missing=words))
        firsts, hold = lifted.steps
        assert (Action.FIRST_COMMIT, Action.HOLD) == (firsts.action, hold.action)
        assert [(PARTITIONS[0], Position(offset))] == [
            (c.partition, c.after) for c in firsts.changes
        ]
        assert ([], True) == (blocks(lifted), lifted.fingerprint != plan.fingerprint)


def test_old_commits_are_noted_if_records_would_repeat() -> None:
    """An hour of records would be redelivered; not if all is read, or no owner is evicted."""
    hour = facts(group(), age_s=3600)
    why = "last commit was 1 h ago; records read since then would be redelivered"
    assert f"{why}; {why}" == reason(pause(hour, terms=QUIET), "old-commit")
    assert "old-commit" not in notes(pause(hour))
    assert "old-commit" not in notes(pause(facts(group(), age_s=3600, end=10), terms=QUIET))


def test_a_busy_member_is_noted_if_it_is_waited_for() -> None:
    """It has lag and no recent commit; not if it has read all, or is evicted."""
    busy = facts(group(), age_s=120)
    why = reason(pause(busy), "slow-member")

    assert "has lag and has not committed for 2 min" in why
    assert "prefer quiet" in why
    others = (facts(group(), age_s=120, end=10), facts(group(), age_s=5), facts(classic()))
    assert not any("slow-member" in notes(pause(one)) for one in others)
    assert "slow-member" not in notes(pause(busy, terms=QUIET))


LOSSLESS = HoldTerms()
TWO_DAYS, MONTH = HoldTerms(pause_for=2 * DAY), HoldTerms(pause_for=25 * DAY)
USUAL, KEEPS_A_DAY = HoldSettings(), HoldSettings(retention=DAY)
HELD_AT_1 = group(holder(1), state=GroupState.RECONCILING)


@pytest.mark.parametrize(
    ("rule", "severity", "about", "terms", "settings"),
    [
        ("slow-group", "note", group(), LOSSLESS, HoldSettings(heartbeat_s=15)),
        ("slow-group", None, group(), LOSSLESS, HoldSettings(heartbeat_s=5)),
        ("hold-too-long", None, classic(), MONTH, USUAL),
        ("retention", "note", group(), LOSSLESS, KEEPS_A_DAY),
        ("retention", "block", HELD_AT_1, TWO_DAYS, KEEPS_A_DAY),
        ("retention", None, group(), HoldTerms(pause_for=DAY), KEEPS_A_DAY),
        ("retention", None, classic(), LOSSLESS, KEEPS_A_DAY),
        ("group-size", "block", classic(), LOSSLESS, HoldSettings(max_size=3)),
        ("group-size", None, classic(), LOSSLESS, HoldSettings(max_size=4)),
        ("no-choice", "note", classic(), QUIET, USUAL),
        ("no-choice", "note", classic(assignor="stream"), LOSSLESS, USUAL),
        ("no-choice", None, group(), QUIET, USUAL),
        ("no-choice", None, classic(assignor="cooperative-sticky"), QUIET, USUAL),
    ],
)
def test_limits(
    rule: str, severity: str | None, about: Group, terms: HoldTerms, settings: HoldSettings
) -> None:
    """A limit of the group, its brokers or the recipe is found by its rule; right at it nothing."""
    plan = pause(about, "orders:0", terms=terms, settings=settings)
    expected = [] if severity is None else [severity]
    assert expected == [f.severity for f in plan.findings if f.rule == rule]


def test_another_hold() -> None:
    """Holds coexist, except for a Streams application; each plan names what others hold."""
    members = (reader("a", 0, 1), reader("b", 2), holder(3))
    streams = classic(*members, assignor="stream")
    assert ["another-hold"] == blocks(pause(streams, by=BOB))
    assert [] == blocks(pause(streams, by=ALICE))
    why = "alice @ desk since 2026-03-01 12:00:00 UTC has already paused orders:3"
    for about in (classic(*members), group(*members, state=GroupState.RECONCILING)):
        plan = pause(about, by=BOB)
        assert ([], why) == (blocks(plan), reason(plan, "another-hold"))
    # Without a note nobody can tell whose it is.
    held = pause(classic(*members[:2], holder(3, note=HoldNote())), by=ALICE)
    assert "offsetbook-hold @ /10.0.0.9 has already paused" in reason(held, "another-hold")


@pytest.mark.parametrize(
    ("assignor", "stops"),
    [
        ("range", ["2 other partitions stop", "3.3 s"]),
        ("cooperative-sticky", ["no other partition"]),
    ],
)
def test_adding_to_a_held_classic_group_evicts_nobody(assignor: str, stops: list[str]) -> None:
    """A sentinel leads already, so it takes one rebalance; cooperative members read on."""
    held = classic(reader("a", 0, 1), reader("b", 2), holder(3), assignor=assignor)
    plan = pause(held, "orders:0", by=BOB)
    assert "no redelivered records, provided consumers commit on revoke" == reason(plan, "repeats")
    assert reason(plan, "disturbs").startswith("no member is evicted; all members rebalance: ")
    assert [] == [words for words in stops if words not in reason(plan, "stops")]


@pytest.mark.parametrize(
    ("ends_in", "pause_for", "blocked"),
    [
        (None, None, False),
        (DAY, DAY + timedelta(seconds=50), False),
        (None, DAY, True),
        (DAY, None, True),
        (DAY, 2 * DAY, True),
    ],
)
def test_added_partitions_end_with_the_hold(
    *, ends_in: timedelta | None, pause_for: timedelta | None, blocked: bool
) -> None:
    """So another end is blocked; a hold of another operator has its own rule."""
    note = HoldNote("alice", "desk", NOON, None if ends_in is None else NOON + ends_in)
    held = group(reader("a", 0, 1), reader("b", 2), holder(3, note=note))

    found = pause(held, terms=HoldTerms(pause_for=pause_for), by=ALICE)

    assert (["other-end"] if blocked else []) == blocks(found)
    again = pause(held, "orders:3", terms=HoldTerms(pause_for=pause_for), by=ALICE)
    assert (["other-end"] if blocked else []) == blocks(again)
    ends = "when resumed" if ends_in is None else f"at {NOON + ends_in:%Y-%m-%d %H:%M:%S} UTC"
    assert reason(again, "already-paused").endswith(f", which ends {ends}")
    assert [] == blocks(pause(held, terms=HoldTerms(pause_for=pause_for), by=BOB))


HELD = (reader("a", 0), reader("b", 2), holder(1, 3))
STREAMS_HELD = group(
    reader("a"), holder(0, 1, 2, 3), type=GroupType.STREAMS, state=GroupState.ASSIGNING
)


def test_a_resume_is_one_step() -> None:
    """It names the partitions and their holder; without a topic it is everything paused."""
    plan = resume(group(*HELD), "orders:1", by=ALICE)

    (step,) = plan.steps
    assert (Intent.RESUME, Action.RELEASE) == (plan.intent, step.action)
    assert ([1], ()) == (numbers(plan), plan.findings)
    assert ["held by alice @ desk since 2026-03-01 12:00:00 UTC"] == [c.why for c in changes(plan)]
    assert "resume g orders:1" == plan.request
    assert 'resume "" orders:1' == plan_resume(snapshot(), group="", topics=["orders:1"]).request
    assert [1, 3] == numbers(resume(group(*HELD)))


def test_partitions_that_are_not_paused_need_no_resume() -> None:
    """That is noted, and is success."""
    part = resume(group(*HELD), "orders:0-1")
    assert ([1], []) == (numbers(part), blocks(part))
    assert "orders:0 is not paused" == reason(part, "not-paused")
    nothing = resume(group())
    assert ((), [], ["not-paused"]) == (nothing.steps, blocks(nothing), notes(nothing))


def test_a_resume_of_missing_groups_and_partitions() -> None:
    """They block; a partition that is held though its topic is deleted does not."""
    assert ["no-such-group"] == blocks(plan_resume(facts(group()), group="x"))
    assert ["no-such-partition"] == blocks(resume(group(*HELD), "orders:9"))
    gone = TopicPartition("bills", 0)
    member = replace(holder(1), holds=(PARTITIONS[1], gone))
    about = group(reader("a", 0), member)
    assert [0] == numbers(resume(about, "bills:0"))
    part = resume(about, "bills:0-1")
    assert ([0], "bills:1 is not paused") == (numbers(part), reason(part, "not-paused"))


FOREIGN, MORE = "foreign-hold", "releases-more"


@pytest.mark.parametrize(
    ("about", "topics", "by", "rules", "planned"),
    [
        pytest.param(group(*HELD), ["orders:1"], BOB, [FOREIGN], [1], id="foreign"),
        pytest.param(classic(*HELD), ["orders:1"], BOB, [FOREIGN, MORE], [1], id="part of foreign"),
        pytest.param(classic(*HELD), [], BOB, [FOREIGN], [1, 3], id="whole foreign"),
        pytest.param(classic(*HELD), ["orders:1"], ALICE, [], [1], id="part of our own"),
        pytest.param(STREAMS_HELD, [], ALICE, [], [0, 1, 2, 3], id="whole Streams"),
        pytest.param(STREAMS_HELD, ["orders:1"], ALICE, [MORE], [1], id="part of Streams"),
    ],
)
def test_overrides_of_a_resume(
    about: Group, topics: list[str], by: tuple[str, str], rules: list[str], planned: list[int]
) -> None:
    """
    A hold of another operator needs one, and a hold of one member is resumed as a whole.

    One member holds all of a classic group; of a Streams application no part can be resumed.
    """
    plan = resume(about, *topics, by=by)
    assert (rules, planned) == (blocks(plan), numbers(plan))


@pytest.mark.parametrize("make", [group, classic])
@given(held=st.sets(st.integers(0, 3)), asked=st.sets(st.integers(0, 3), min_size=1))
def test_pause_and_resume_are_each_others_other(
    make: Callable[..., Group], held: set[int], asked: set[int]
) -> None:
    """Of what is asked for a pause plans what is not held, a resume what is; nothing is lost."""
    free = tuple(sorted(set(range(4)) - held))
    about = make(reader("a", *free), *([holder(*sorted(held))] if held else []))
    scope = f"orders:{','.join(map(str, asked))}"

    assert sorted(asked - held) == numbers(pause(about, scope, by=ALICE))
    assert sorted(asked & held) == numbers(resume(about, scope, by=ALICE))
    assert NOON == pause(about, scope).made_at


@pytest.mark.parametrize(
    ("topics", "told"), [("orders:1", "orders:2 of the same hold"), ("orders:1,2", "")]
)
def test_other_partitions_of_a_dead_keeper_stay_paused(topics: str, told: str) -> None:
    """The keeper that takes over continues the whole hold, even if a part is named."""
    known = facts(group(reader("a", 0, 3), holder(1, 2)))

    plan = pause(known, topics, orphaned=frozenset(PARTITIONS[1:3]), by=ALICE)

    assert [int(number) for number in topics[7:].split(",")] == numbers(plan)
    assert {"takes over the hold of a crashed keeper"} == {one.why for one in changes(plan)}
    assert reason(plan, "already-paused").startswith(told)
    assert bool(told) == bool(reason(plan, "already-paused"))
