"""A rule blocks without exactly those facts that the registry says it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from facts import NOON
from guardrail_cases import found
from guardrail_examples import EXAMPLES

from toolkit.model import UNREAD_OFFSETS_TOPIC, Group, Problem, Subscription
from toolkit.planning.guardrails.check_context import EarlierSightings, Needs
from toolkit.planning.guardrails.registry import RULES, CheckContext


def without_subscriptions(group: Group) -> Group:
    """Return a group of which no member's subscription can be read."""
    unread = Subscription(unreadable="no idea")
    return replace(group, members=tuple(replace(m, subscription=unread) for m in group.members))


def without_commit_times(case: CheckContext) -> CheckContext:
    """Return a case right after its plan was made, in which no commit has a time."""
    commits = tuple(replace(commit, committed_at=None) for commit in case.facts.commits)
    groups = tuple(replace(group, empty_since=None) for group in case.facts.groups)
    facts = replace(case.facts, commits=commits, groups=groups)
    return replace(case, plan=replace(case.plan, made_at=NOON), facts=facts)


WITHOUT: dict[Needs, Callable[[CheckContext], CheckContext]] = {
    Needs.CLUSTER_ID: lambda case: replace(case, facts=replace(case.facts, cluster_id="")),
    Needs.PLAN_AGE: lambda case: replace(
        case, plan=replace(case.plan, made_at=NOON + timedelta(hours=1))
    ),
    Needs.LOGS: lambda case: replace(case, facts=replace(case.facts, logs={})),
    Needs.SUBSCRIPTIONS: lambda case: replace(
        case, facts=replace(case.facts, groups=tuple(map(without_subscriptions, case.facts.groups)))
    ),
    Needs.COMMIT_TIMES: without_commit_times,
    Needs.OFFSETS_TOPIC: lambda case: replace(
        case, facts=replace(case.facts, problems=(Problem(UNREAD_OFFSETS_TOPIC, "no right"),))
    ),
    Needs.SIGHTINGS: lambda case: replace(case, seen=EarlierSightings()),
    Needs.HOLD_FACTS: lambda case: replace(case, beside={}),
}


def cannot_tell(rule: str, case: CheckContext) -> bool:
    """Whether a rule says that it lacks a fact."""
    return any(
        finding.why.startswith("check not possible, unknown: ") for finding in found(rule, case)
    )


def test_every_fact_can_be_missing() -> None:
    """No fact is listed that is always there."""
    assert set(Needs) == WITHOUT.keys()
    assert Needs(sum(need.value for need in Needs)) == Needs(
        sum({need.value for rule in RULES.values() for need in rule.needs})
    )


@pytest.mark.parametrize("rule", EXAMPLES)
def test_a_rule_needs_what_it_says(rule: str) -> None:
    """Without a fact that it needs it blocks and says so; it judges without the others."""
    missing = {
        need
        for need, without in WITHOUT.items()
        for case in (EXAMPLES[rule].bad, EXAMPLES[rule].good)
        if not cannot_tell(rule, case) and cannot_tell(rule, without(case))
    }

    assert set(RULES[rule].needs) == missing
