"""Every guard rail where it objects and where it just does not; and the limits of approvals."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from facts import NOON, live
from guardrail_cases import ORDERS, OTHERS, case, change, commit, facts, found, plan, rules, step
from guardrail_examples import (
    DAY,
    DELETION,
    EXAMPLES,
    HOUR,
    JUST_NOW,
    LEFT,
    READER,
    limited,
    standing,
)
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.model import GroupState, LogOffsets, Policy
from toolkit.model.groups import Sighting
from toolkit.plan import Finding, Intent, Severity
from toolkit.plan.approvals import Limits
from toolkit.planning.guardrails.check_context import CheckContext, EarlierSightings
from toolkit.planning.guardrails.registry import (
    FINAL,
    RULES,
    blocking,
    check,
    check_overrides,
)


def test_every_rule_has_an_example() -> None:
    """No rule is without a case in which it objects."""
    assert {name for name, rule in RULES.items() if rule.by} == EXAMPLES.keys()


def test_an_ordinary_case_is_not_blocked() -> None:
    """An idle group, looked at twice, may be sent back within its log, for a reason."""
    assert () == check(case())


ONLY_WHEN_APPLYING = {"reason-required", "stale-plan", "keeps-committing"}


@pytest.mark.parametrize("intent", [Intent.PAUSE, Intent.RESUME])
def test_a_move_is_paused_and_resumed_within_its_limits(intent: Intent) -> None:
    """The plans of which a live move consists are judged by its limits, and skip no record."""
    case = standing(max_records_skipped=1, min_records_skipped=1)
    part = replace(case, plan=replace(case.plan, intent=intent))

    assert [] == [found.rule for found in check(part) if found.rule == "too-few-records"]


@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_rule_objects_where_it_must_and_not_in_the_nearest_case(rule: str) -> None:
    """A rule blocks by its name, with reason and subject, in a review too unless it needs time."""
    bad, says, good, about = EXAMPLES[rule]
    objection = [Finding(rule, Severity.BLOCK, says, *about)]

    assert objection == found(rule, bad)
    assert [] == found(rule, good)
    in_review = [] if rule in ONLY_WHEN_APPLYING else objection
    assert in_review == found(rule, replace(bad, applying=False, reason=""))


@pytest.mark.parametrize("rule", EXAMPLES)
def test_an_override_lets_a_rule_pass_unless_it_is_final(rule: str) -> None:
    """An override goes by the name of the rule, and those in FINAL know none."""
    objections, plan = found(rule, EXAMPLES[rule].bad), case().plan
    nothing = replace(plan, steps=())

    assert tuple(objections) == blocking(objections, (), plan=plan)
    assert tuple(objections if rule in FINAL else ()) == blocking(objections, {rule}, plan=plan)
    assert tuple(objections) == blocking(objections, RULES.keys() - {rule}, plan=plan)
    assert tuple(objections) == blocking(objections, {rule}, plan=nothing)


def test_an_unknown_override_is_an_error_that_names_the_known_ones() -> None:
    """A slip of the keyboard is no override of nothing."""
    with pytest.raises(UsageError, match="rule 'last-offset' does not exist") as caught:
        check_overrides(["last-offsets", "last-offset"], intent=Intent.UNDO)

    assert "those that can be overridden for undo are" in str(caught.value.hint)
    assert " last-offsets, " in str(caught.value.hint)


@pytest.mark.parametrize("rule", sorted(FINAL))
def test_an_override_of_a_final_rule_is_an_error(rule: str) -> None:
    """It is refused, not ignored, and the hint is what does what was asked, if anything does."""
    with pytest.raises(UsageError, match=f"rule '{rule}' cannot be overridden") as caught:
        check_overrides([rule], intent=Intent.RESET)
    assert str(caught.value.hint).startswith(RULES[rule].instead or "those that can be overridden")


PAST_END = Finding("past-end", Severity.BLOCK, "too late", "g", "bills", 0)


def test_the_order_of_findings() -> None:
    """Rules before planning, blocks before notes, each in its order."""
    note = Finding("no-commit", Severity.NOTE, "nothing here", "g", "bills", 3)
    made = plan(step(change(after=11)), findings=(note, PAST_END))
    findings = check(case(made, policy=Policy(read_only=True)))

    assert ["read-only", "skips-unread-records"] == [one.rule for one in findings[:2]]
    assert (PAST_END, note) == findings[2:]


def test_an_objection_replaces_the_note_of_planning() -> None:
    """For the same rule, group, topic and partition only."""
    here, there = (
        Finding("facts-moved", Severity.NOTE, "as planned", "g", *at) for at in (ORDERS, OTHERS)
    )
    other = replace(here, rule="moved-since")
    made = plan(step(change()), findings=(here, there, other))
    judged, *kept = check(case(made, facts(commits=(commit(11),))))

    assert ("facts-moved", Severity.BLOCK, 0) == (judged.rule, judged.severity, judged.partition)
    assert [there, other] == kept


def test_equal_findings_are_merged() -> None:
    """Two planners with the same finding make one; a note never blocks."""
    assert (PAST_END,) == check(case(plan(findings=(PAST_END, PAST_END))))
    assert () == blocking([Finding("read-only", Severity.NOTE, "")], (), plan=case().plan)
    # Who planned on a host whose clock is ahead need not wait for it.
    assert [] == found("stale-plan", case(plan(made_at=NOON + timedelta(minutes=5))))


def test_two_exceeded_limits_are_both_named() -> None:
    """An override of a limit on records is made with both known."""
    about = limited(max_records_skipped=4, max_records_repeated=3)

    assert [
        "5 records skipped; max_records_skipped is 4",
        "5 records repeated; max_records_repeated is 3",
    ] == [finding.why for finding in found("too-many-records", about)]


YOUNG, TOO_BRIEFLY = case(plan(made_at=NOON + timedelta(minutes=6))), "unsubscribed-too-briefly"
COMMITTED_JUST_NOW = case(
    plan(step(change(), last_commit_at=NOON), made_at=NOON), facts(commits=JUST_NOW)
)


@pytest.mark.parametrize(
    ("rule", "about", "lacking"),
    [
        ("wrong-cluster", case(now=facts(cluster_id="")), "the id of this cluster"),
        ("stale-plan", YOUNG, "how old the plan is: it is of 2026-03-01 12:06 UTC"),
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
        ("keeps-committing", COMMITTED_JUST_NOW, "whether g still commits; retry in 6 s"),
        *(
            (
                rule,
                case(now=facts(logs=logs)),
                "where the log of orders partition 0 starts and ends",
            )
            for rule in ("skips-unread-records", "before-log-start", "too-many-records")
            for logs in ({}, {ORDERS: LogOffsets(None, 20)}, {ORDERS: LogOffsets(0, None)})
        ),
        # Without a record or a sighting of ours, how long it was so is not known.
        ("empty-too-briefly", standing(empty_for_days=1), "when g was last used"),
        *(
            (TOO_BRIEFLY, standing(**limit), "since when g does not subscribe to orders")
            for limit in ({"unsubscribed_for_days": 1}, {"unsubscribed_in_runs": 1})
        ),
    ],
)
def test_a_rule_that_lacks_a_fact_blocks(rule: str, about: CheckContext, lacking: str) -> None:
    """What cannot be judged is not let through, and the finding says what is not known."""
    why = f"check not possible, unknown: {lacking}"

    assert [Finding(rule, Severity.BLOCK, why)] == found(rule, about)


def test_how_often_it_must_have_been_seen() -> None:
    """Days alone are not enough where the approval asks for runs as well."""
    few = standing(seen=LEFT, unsubscribed_for_days=14, unsubscribed_in_runs=4)
    enough = standing(seen=LEFT, unsubscribed_for_days=14, unsubscribed_in_runs=3)

    assert ["unsubscribed in 3 runs; the limit is 4"] == [f.why for f in check(few)]
    assert () == check(enough)


@pytest.mark.parametrize("last", [NOON - 2 * HOUR, NOON + HOUR])
def test_an_old_sighting_is_no_evidence(last: datetime) -> None:
    """What was seen for weeks, but not again for this plan, may have changed since."""
    old = Sighting(NOON - 14 * DAY, 3, last)
    left = EarlierSightings(unsubscribed={("g", "orders"): old})
    empty = EarlierSightings(empty={"g": old})

    assert ["unsubscribed-too-briefly"] == rules(standing(seen=left, unsubscribed_in_runs=1))
    assert ["empty-too-briefly"] == rules(standing(seen=empty, empty_for_days=1))
    again = replace(old, last=NOON)
    fresh = EarlierSightings(empty={"g": again}, unsubscribed={("g", "orders"): again})
    assert [] == rules(standing(seen=fresh, unsubscribed_in_runs=1, unsubscribed_for_days=14))


NEEDED = ["max_groups=1", "max_partitions=2"]


def test_every_limit_can_be_written() -> None:
    """Groups one after the other; records not spoken of may be neither skipped nor repeated."""
    texts = [
        *("max_groups=1", "max_partitions=2_000", "max_records_skipped=3"),
        *("max_records_repeated=4", "groups=pay=*", "empty_for_days=30", "groups=search-*"),
        *("unsubscribed_for_days=14", "unsubscribed_in_runs=2", "min_records_skipped=1"),
    ]
    least = Limits.parse(NEEDED)
    none = {"max_records_skipped": 0, "max_records_repeated": 0}

    assert Limits(1, 2000, 3, 4, ("pay=*", "search-*"), 30, 14, 2, 1) == Limits.parse(texts)
    assert Limits(1, 2) == least
    assert Policy(max_groups=1, max_partitions=2, **none) == least.narrow(Policy())


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        ([], "a standing approval needs a limit for max_groups, max_partitions"),
        (["max_groups=1"], "a standing approval needs a limit for max_partitions"),
        ([*NEEDED, "max_group=1"], "unknown limit 'max_group'"),
        ([*NEEDED, ""], "unknown limit ''"),
        ([*NEEDED, "max_records_skipped"], "limit 'max_records_skipped' has no value"),
        ([*NEEDED, "max_records_skipped="], "limit 'max_records_skipped=' has no value"),
        ([*NEEDED, "max_groups=9"], "duplicate limit max_groups"),
        *(
            ([f"max_groups={text}"], f"limit 'max_groups={text}' must be a whole number from 0")
            for text in ("-1", "1.5", "٣", "01")
        ),
    ],
)
def test_a_limit_that_is_none_is_refused(texts: list[str], says: str) -> None:
    """The text that is wrong is named; nothing is guessed."""
    with pytest.raises(UsageError) as caught:
        Limits.parse(texts)

    assert says == caught.value.problem


counts = st.integers(0, 5)


@given(st.tuples(counts, counts, counts, counts), st.tuples(counts, counts, counts, counts))
def test_limits_only_narrow(approval: tuple[int, ...], fleet: tuple[int, ...]) -> None:
    """No approval allows more than the fleet file, and none more than itself."""
    names = ("max_groups", "max_partitions", "max_records_skipped", "max_records_repeated")
    policy = Policy(**dict(zip(names, fleet, strict=True)))
    narrow = Limits(*approval).narrow(policy)

    assert tuple(map(min, approval, fleet)) == tuple(getattr(narrow, name) for name in names)


@pytest.mark.parametrize(
    ("entry", "listed", "blocked"),
    [("[fg]", ["g"], []), ("[fg]", ["g", "[fg]"], ["group-not-allowed"]), ('"g"', ["g"], [])],
)
def test_an_allowed_name_is_that_of_a_group(
    entry: str, listed: list[str], blocked: list[str]
) -> None:
    """It is a pattern only where no group has it as its name, whether the plan is of it or not."""
    assert blocked == rules(standing(facts(listed=frozenset(listed)), groups=(entry,)))
