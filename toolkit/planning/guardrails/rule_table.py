"""
The table of guard rails: what each rule judges, by which function, and where it may be overridden.

First the rules that judge a plan by the facts: who may change what, what is lost, how much at once.
Then those that judge whether partitions of a live group can be held: planning a pause judges them,
and so does planning a move, which holds its partitions; they are judged again when a pause is
applied, by the facts of then. So are the rules about a resume. Last what only planning can find:
rules without a function of their own, and notes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

from toolkit.model import Group
from toolkit.plan import Action, Finding, Intent
from toolkit.planning.changes.pause import of_others
from toolkit.planning.guardrails import group_rules, policy_rules
from toolkit.planning.guardrails.check_context import (
    AIMED,
    NEW_OFFSETS,
    CheckContext,
    FactsMissing,
    Objection,
)
from toolkit.planning.holds import hold_rules
from toolkit.planning.holds.hold_context import HoldContext

ANY = frozenset(Intent)
OF_OFFSETS = ANY - {Intent.PAUSE, Intent.RESUME}  # these two only change the assignment
OFFSETS_GO = frozenset({Intent.DELETE_OFFSETS, Intent.UNDO})
GROUPS_GO = frozenset({Intent.DELETE_GROUPS, Intent.RENAME, Intent.UNDO})
HELD = frozenset({Intent.PAUSE, Intent.MOVE})
NO_PARTITIONS_NAMED = frozenset({Intent.DELETE_GROUPS, Intent.RENAME, Intent.RESCUE})
WRITTEN_DOWN = NEW_OFFSETS | {Intent.RESTORE}
UNDO = frozenset({Intent.UNDO})
RESUME = frozenset({Intent.RESUME})

Judge = Callable[[CheckContext], Iterable[Objection]]


class Override(StrEnum):
    """Whether an operator may override a rule that blocks, by naming it."""

    ALLOWED = "allowed"
    NEVER = "never"
    BY_HAND = "by hand"  # an approval of one fingerprint may; a standing approval sets the limits


@dataclass(frozen=True, slots=True)
class Rule:
    """
    One guard rail.

    `judges` says in one sentence what holds where it does not block. `by` is the function that
    judges it; None where only planning can find it. `intents` are those of the plans that it can
    block: for others, an override has no effect. `instead` is another way to the same result, where
    an override would only leave that out. `only_standing`: it judges only what is applied under a
    standing approval. `lasting`: a new plan is blocked as well.
    """

    name: str
    judges: str
    by: Judge | None = None
    _: KW_ONLY
    override: Override = Override.ALLOWED
    instead: str = ""
    intents: frozenset[Intent] = ANY
    only_standing: bool = False
    lasting: bool = False


NEVER, BY_HAND = Override.NEVER, Override.BY_HAND

EVALUATED_RULES = (
    Rule(
        "read-only",
        "The fleet file does not call the cluster read-only.",
        policy_rules.read_only,
        override=NEVER,
        lasting=True,
    ),
    Rule(
        "wrong-cluster",
        "The plan was made for this cluster.",
        group_rules.wrong_cluster,
        override=NEVER,
        lasting=True,
    ),
    Rule(
        "protected-group",
        "The fleet file does not protect the group.",
        policy_rules.protected_group,
        override=NEVER,
        lasting=True,
    ),
    Rule(
        "reason-required",
        "The approval gives a reason, or the fleet file makes it optional.",
        policy_rules.reason_required,
        override=NEVER,
    ),
    Rule(
        "stale-plan",
        "The plan is younger than an hour.",
        policy_rules.stale_plan,
    ),
    Rule(
        "no-such-group",
        "The group exists, unless the request creates it.",
        group_rules.no_such_group,
        override=NEVER,
    ),
    Rule(
        "share-group",
        "The group is not a share group, unless the plan deletes it.",
        group_rules.share_group,
        override=NEVER,
        intents=ANY - {Intent.DELETE_GROUPS},
    ),
    Rule(
        "group-live",
        "The group has no members, or nobody reads the partitions that change.",
        group_rules.group_live,
        override=NEVER,
        intents=OF_OFFSETS,
    ),
    Rule(
        "subscribed",
        "No member subscribes to a topic whose committed offsets the plan deletes.",
        group_rules.subscribed,
        override=NEVER,
        intents=OFFSETS_GO,
    ),
    Rule(
        "facts-moved",
        "Groups and committed offsets are as they were when the plan was made.",
        group_rules.facts_moved,
        override=NEVER,
    ),
    Rule(
        "topic-recreated",
        "The topic was not deleted and created again since its offsets were read.",
        group_rules.topic_recreated,
    ),
    Rule(
        "keeps-committing",
        "Nobody commits for a group that has no members.",
        group_rules.keeps_committing,
        intents=OF_OFFSETS,
    ),
    Rule(
        "pending-transaction",
        "No open transaction is about to commit an offset that the plan changes or copies.",
        group_rules.pending_transaction,
        intents=OF_OFFSETS,
    ),
    Rule(
        "topic-never-used",
        "The group has committed the topic before, or the request allows new topics.",
        group_rules.topic_never_used,
        override=NEVER,
        instead="allow new topics, in a reset or a move: --new-topics, or new_topics=True in a "
        "notebook",
        intents=NEW_OFFSETS | {Intent.COPY},
    ),
    Rule(
        "skips-unread-records",
        "The plan skips no record that the group has not read.",
        group_rules.skips_unread_records,
        intents=AIMED,
    ),
    Rule(
        "before-log-start",
        "The records asked for still exist, and every new offset is in its log.",
        group_rules.before_log_start,
        intents=AIMED,
    ),
    Rule(
        "last-offsets",
        "The group keeps at least one committed offset.",
        group_rules.last_offsets,
        intents=OFFSETS_GO,
    ),
    Rule(
        "not-undoable",
        "An undo can restore everything that the plan deletes.",
        group_rules.not_undoable,
        intents=GROUPS_GO,
    ),
    Rule(
        "hidden-offsets",
        "Every committed offset that is deleted with a group was visible.",
        group_rules.hidden_offsets,
        intents=GROUPS_GO,
    ),
    Rule(
        "too-many-groups",
        "The plan changes no more groups than max_groups.",
        policy_rules.too_many_groups,
        override=BY_HAND,
    ),
    Rule(
        "too-many-partitions",
        "The plan changes no more committed offsets than max_partitions.",
        policy_rules.too_many_partitions,
        override=BY_HAND,
    ),
    Rule(
        "too-many-records",
        "The plan skips and repeats no more records than max_records_skipped and "
        "max_records_repeated.",
        policy_rules.too_many_records,
        override=BY_HAND,
        intents=AIMED,
    ),
    Rule(
        "group-not-allowed",
        "The standing approval is for this group.",
        policy_rules.group_not_allowed,
        override=NEVER,
        only_standing=True,
    ),
    Rule(
        "too-few-records",
        "The plan skips as many records as min_records_skipped asks for.",
        policy_rules.too_few_records,
        override=NEVER,
        intents=AIMED,
        only_standing=True,
    ),
    Rule(
        "empty-too-briefly",
        "Nobody has used the group for as long as the standing approval says.",
        policy_rules.empty_too_briefly,
        override=NEVER,
        only_standing=True,
    ),
    Rule(
        "unsubscribed-too-briefly",
        "The topic was seen unsubscribed for as long, and in as many runs, as the standing "
        "approval says.",
        policy_rules.unsubscribed_too_briefly,
        override=NEVER,
        only_standing=True,
    ),
    Rule(
        "unreadable", "Everything that the plan depends on could be read.", group_rules.unreadable
    ),
)

ABOUT_A_GROUP = {
    "group-kind": "The group has members that read partitions one by one.",
    "group-empty": "The group has members.",
    "not-stable": "The group is Stable.",
    "custom-protocol": "The members use a consumer's protocol and an assignor that is known.",
    "unreadable-member": "The members and their subscriptions are known.",
}


def _by_group(why_not: Callable[[Group], str]) -> Judge:
    """Return what judges the group of every step that holds."""

    def judge(case: CheckContext) -> Iterator[Objection]:
        for step in case.plan.steps:
            group = case.groups.get(step.group_id)
            if step.action is Action.HOLD and group and (why := why_not(group)):
                yield Objection(why, step.group_id)

    return judge


def _by_hold(rule: Callable[[HoldContext], Iterator[Finding]]) -> Judge:
    """Return the judge of every hold of a plan by a rule; notes were reported by the planner."""

    def judge(case: CheckContext) -> Iterator[Objection]:
        for hold in case.holds:
            for found in rule(hold):
                if found.blocks:
                    yield Objection(found.why, found.group_id, found.topic, found.partition)
        FactsMissing.where(case.holds_unknown)

    return judge


def _hold_rule(
    name: str,
    judges: str,
    rule: Callable[[HoldContext], Iterator[Finding]],
    *,
    override: Override = Override.NEVER,
    intents: frozenset[Intent] = HELD,
) -> Rule:
    return Rule(name, judges, _by_hold(rule), override=override, intents=intents)


HOLD_RULES = (
    *(
        Rule(
            name,
            ABOUT_A_GROUP[name],
            _by_group(why_not),
            override=NEVER,
            intents=HELD | {Intent.RESUME} if name == "unreadable-member" else HELD,
        )
        for name, why_not in hold_rules.GROUP_RULES.items()
    ),
    _hold_rule(
        "whole-application",
        "All partitions of a Streams application (KIP-1071) are paused, or none.",
        hold_rules.whole_application,
        intents=frozenset({Intent.PAUSE}),  # a move evicts the owners instead
    ),
    _hold_rule(
        "not-subscribed",
        "A member subscribes to every topic that is to be held.",
        hold_rules.not_subscribed,
    ),
    _hold_rule(
        "nothing-assigned",
        "A member reads at least one of the partitions.",
        hold_rules.nothing_assigned,
    ),
    _hold_rule(
        "no-committed-offset",
        "Every partition that a member loses and gets again has a committed offset.",
        hold_rules.no_committed_offset,
        override=Override.ALLOWED,
    ),
    _hold_rule(
        "hold-too-long",
        "The hold is no longer than a KIP-848 group allows.",
        hold_rules.hold_too_long,
        intents=frozenset({Intent.PAUSE}),  # a move takes seconds
    ),
    _hold_rule(
        "retention", "The committed offsets do not expire during the hold.", hold_rules.retention
    ),
    _hold_rule(
        "group-size", "The group has room for the members that hold.", hold_rules.group_size
    ),
    _hold_rule(
        "another-hold",
        "Nobody else holds partitions of a Kafka Streams application.",
        hold_rules.another_hold,
    ),
    _hold_rule(
        "assignor-differs",
        "Topics that are read together by partition number stay together during the pause.",
        hold_rules.assignor_differs,
        override=Override.ALLOWED,
    ),
    _hold_rule(
        "other-end",
        "What is added to a hold ends when that hold ends.",
        hold_rules.other_end,
        override=Override.ALLOWED,
        intents=frozenset({Intent.PAUSE}),  # the hold inside a move ends with the move
    ),
)


def _by_resume(rule: str) -> Judge:
    """Return what judges by a rule what others hold now of the partitions to be resumed."""

    def judge(case: CheckContext) -> Iterator[Objection]:
        for step in case.plan.steps:
            group = case.groups.get(step.group_id)
            if step.action is Action.RELEASE and group:
                released = {change.partition for change in step.changes}
                for found in of_others(group, released, case.by):
                    if found.rule == rule:
                        yield Objection(found.why, found.group_id)

    return judge


RESUME_RULES = (
    Rule(
        "foreign-hold",
        "Nobody else holds what is resumed.",
        _by_resume("foreign-hold"),
        intents=RESUME,
    ),
    Rule(
        "releases-more",
        "Resuming releases no partition that was not named.",
        _by_resume("releases-more"),
        intents=RESUME,
    ),
)

PLANNED = (
    Rule(
        "no-such-partition",
        "The topics and partitions that are asked for exist.",
        override=NEVER,
        intents=ANY - NO_PARTITIONS_NAMED - UNDO,
    ),
    Rule(
        "missing-partition",
        "The topics and partitions that have a committed or saved offset still exist.",
        intents=ANY - NO_PARTITIONS_NAMED | {Intent.RENAME},
    ),
    Rule("no-leader", "The partition has a leader.", intents=ANY - NO_PARTITIONS_NAMED - UNDO),
    Rule(
        "moved-since",
        "Nobody has moved the offset since the run that is undone.",
        override=NEVER,
        instead="--even-if-moved, or even_if_moved=True in a notebook",
        intents=UNDO,
    ),
    Rule("other-cluster", "The saved offsets are of this cluster.", intents=WRITTEN_DOWN),
    Rule(
        "no-row",
        "The file has an offset for everything that was asked for.",
        override=NEVER,
        instead="name only groups and partitions that the file has",
        intents=WRITTEN_DOWN,
    ),
    Rule(
        "past-end",
        "A record at or after the timestamp exists.",
        override=NEVER,
        instead="say what to do there: --past-end keep or latest, or past_end in a notebook",
        intents=NEW_OFFSETS,
    ),
    Rule(
        "cut-off-run",
        "No earlier run that changed these groups ended early.",
        intents=OF_OFFSETS - UNDO,
    ),
    Rule(
        "in-the-future",
        "The timestamp is in the past.",
        override=NEVER,
        intents=NEW_OFFSETS,
    ),
    Rule(
        "topics-required",
        "Deleting all offsets of an empty group is asked for explicitly.",
        override=NEVER,
        intents=frozenset({Intent.DELETE_OFFSETS}),
    ),
    Rule(
        "group-exists",
        "No group has the new name.",
        override=NEVER,
        intents=frozenset({Intent.RENAME}),
    ),
)

NOTES = {
    "age-unknown": "Since when a group is empty, or does not subscribe to a topic, is not known.",
    "already-paused": "A partition is paused already.",
    "alternatives": "What else can be done instead of the hold, and at what cost.",
    "cannot-come-back": "A deleted group had no committed offset with which it could be restored.",
    "cannot-rescue": "Offsets may expire that only a member of the group, or nobody, can commit.",
    "name-is-a-pattern": "A group has the name, so it is not read as a pattern.",
    "cluster-unknown": "The file does not say which cluster its offsets are of.",
    "clamped": "The requested offset is outside the log; the nearest one is committed instead.",
    "comes-back-simple": "A deleted group comes back without members.",
    "disturbs": "Which members the hold disturbs.",
    "empty-for": "How long a group has been empty.",
    "first-commits": "A position is committed where the live group has no committed offset.",
    "incomplete": "What could not be read may be meant as well: the plan may lack it.",
    "kept": "A group stays as it is because another one cannot be restored.",
    "left-out": "Nothing of a group is deleted: which topics it subscribes to is not known, or it "
    "only matches a pattern, and is live or protected.",
    "move-unheld": "The partitions cannot be held, so the move evicts the members that read them.",
    "new-group": "The plan creates the group.",
    "no-choice": "The group can be held in one way only.",
    "no-commit": "Nothing is committed, so nothing changes.",
    "no-upgrade": "No member of the consumer protocol can join a classic group during a hold.",
    "not-assigned": "No member reads some of the partitions now.",
    "not-expiring": "No offset of the live group expires.",
    "not-in-backup": "The group has committed offsets that the backup does not have.",
    "not-paused": "A partition is not paused.",
    "nothing-to-undo": "The run changed nothing, or everything is as it was before.",
    "old-commit": "The last commit of a member that is evicted is old.",
    "other-groups": "The file has rows for groups that were not asked for.",
    "other-partitions": "The file has rows for partitions that were not asked for.",
    "repeats": "How many records the group reads again.",
    "watched": "After a move, the commits of the group are watched.",
    "stays-committed": "What was committed before a pause stays while the group is live.",
    "skips-no-record": "The offset moves on over transaction markers or compacted records alone.",
    "slow-member": "A member may be processing one record, and revokes nothing meanwhile.",
    "slow-group": "The members send heartbeats rarely, so they notice a change late.",
    "source-live": "The group that is copied has members, which continue to commit.",
    "stops": "Which partitions stop, and for how long.",
    "survives": "When the hold ends, and what happens if the process that holds dies.",
    "too-young": "A group or a topic has not been left alone for as long as was asked for.",
    "undo-others": "The groups of the run that nothing blocks can be undone without the others.",
}
