"""
The rules that judge whether partitions of a live group can be held.

Planning a pause judges them, and so does planning a move, which holds its partitions. They are
judged again when a pause is applied, by the facts of then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from toolkit.model import Group
from toolkit.plan import Action, Finding, Intent
from toolkit.planning.guardrails.check_context import CheckContext, Needs, Objection
from toolkit.planning.guardrails.rule import Judge, Override, Rule
from toolkit.planning.holds import hold_rules
from toolkit.planning.holds.assignor_rule import assignor_differs
from toolkit.planning.holds.hold_context import HoldContext

HELD = frozenset({Intent.PAUSE, Intent.MOVE})
ABOUT_A_GROUP = {
    "group-kind": "The group has members that read partitions one by one.",
    "group-empty": "The group has members.",
    "not-stable": "The group is Stable.",
    "custom-protocol": "The members use a consumer's protocol and an assignor that is known.",
    "unreadable-member": "The members and their subscriptions are known.",
}


def by_group(why_not: Callable[[Group], str]) -> Judge:
    """Return what judges the group of every step that holds."""

    def judge(case: CheckContext) -> Iterator[Objection]:
        for step in case.plan.steps:
            group = case.groups.get(step.group_id)
            if step.action is Action.HOLD and group and (why := why_not(group)):
                yield Objection(why, step.group_id)

    return judge


def by_hold(rule: Callable[[HoldContext], Iterator[Finding]]) -> Judge:
    """Return what judges what every step holds; what only informs was said when it was planned."""

    def judge(case: CheckContext) -> Iterator[Objection]:
        for hold in case.holds:
            for found in rule(hold):
                if found.blocks:
                    yield Objection(found.why, found.group_id, found.topic, found.partition)

    return judge


def hold_rule(
    name: str,
    judges: str,
    rule: Callable[[HoldContext], Iterator[Finding]],
    *,
    override: Override = Override.NEVER,
    intents: frozenset[Intent] = HELD,
) -> Rule:
    """Return a rule about what is to be held."""
    by, needs = by_hold(rule), Needs.HOLD_FACTS
    return Rule(name, judges, by, override=override, needs=needs, intents=intents)


HOLD_RULES = (
    *(
        Rule(
            name,
            ABOUT_A_GROUP[name],
            by_group(why_not),
            override=Override.NEVER,
            intents=HELD | {Intent.RESUME} if name == "unreadable-member" else HELD,
        )
        for name, why_not in hold_rules.GROUP_RULES.items()
    ),
    hold_rule(
        "whole-application",
        "All partitions of a Streams application (KIP-1071) are paused, or none.",
        hold_rules.whole_application,
        intents=frozenset({Intent.PAUSE}),  # a move evicts the owners instead
    ),
    hold_rule(
        "not-subscribed",
        "A member subscribes to every topic that is to be held.",
        hold_rules.not_subscribed,
    ),
    hold_rule(
        "nothing-assigned",
        "A member reads at least one of the partitions.",
        hold_rules.nothing_assigned,
    ),
    hold_rule(
        "no-committed-offset",
        "Every partition that a member loses and gets again has a committed offset.",
        hold_rules.no_committed_offset,
        override=Override.ALLOWED,
    ),
    hold_rule(
        "hold-too-long",
        "The hold is no longer than a KIP-848 group allows.",
        hold_rules.hold_too_long,
        intents=frozenset({Intent.PAUSE}),  # a move takes seconds
    ),
    hold_rule(
        "retention", "The committed offsets do not expire during the hold.", hold_rules.retention
    ),
    hold_rule("group-size", "The group has room for the members that hold.", hold_rules.group_size),
    hold_rule(
        "another-hold",
        "Nobody else holds partitions of a Kafka Streams application.",
        hold_rules.another_hold,
    ),
    hold_rule(
        "assignor-differs",
        "Topics that are read together by partition number stay together during the pause.",
        assignor_differs,
        override=Override.ALLOWED,
    ),
    hold_rule(
        "other-end",
        "What is added to a hold ends when that hold ends.",
        hold_rules.other_end,
        override=Override.ALLOWED,
        intents=frozenset({Intent.PAUSE}),  # the hold inside a move ends with the move
    ),
)
