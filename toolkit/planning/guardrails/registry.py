"""
The one registry of guard rails: every rule that can stop a plan, every note, and the check.

A rule gets a `CheckContext` and yields its objections; `check` turns them into findings under the
rule's name. A rule that lacks a fact blocks like a violation. An operator may override a rule by
its name, where the rule allows it, and that is recorded.

First come the rules that judge a plan by the facts: who may change what, what is lost, how much at
once. Then those that judge whether partitions of a live group can be held: planning a pause judges
them, and so does planning a move, which holds its partitions; they are judged again when a pause is
applied, by the facts of then. So are the rules about a resume. Last what only planning can find:
rules without a function of their own, and notes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import wraps

from toolkit.errors import UsageError
from toolkit.model import Group
from toolkit.model.garbage_collection import no_garbage_collection
from toolkit.plan import Action, Finding, Intent, Plan, Severity
from toolkit.planning.changes.pause import of_others
from toolkit.planning.guardrails import group_rules, policy_rules
from toolkit.planning.guardrails.check_context import (
    NEW_OFFSETS,
    CheckContext,
    FactsMissing,
    Objection,
)
from toolkit.planning.guardrails.rule import ANY, NEVER, OF_OFFSETS, Override, Rule
from toolkit.planning.holds import hold_rules
from toolkit.planning.holds.hold_context import HoldContext

HELD = frozenset({Intent.PAUSE, Intent.MOVE})
PAUSE, RESUME, UNDO = (frozenset({one}) for one in (Intent.PAUSE, Intent.RESUME, Intent.UNDO))
NO_PARTITIONS_NAMED = frozenset({Intent.DELETE_GROUPS, Intent.RENAME, Intent.RESCUE})
WRITTEN_DOWN = NEW_OFFSETS | {Intent.RESTORE}

EVALUATED_RULES = (
    *(policy_rules.read_only, group_rules.wrong_cluster, policy_rules.protected_group),
    *(policy_rules.reason_required, policy_rules.stale_plan),
    *(group_rules.no_such_group, group_rules.share_group),
    *(group_rules.group_live, group_rules.subscribed, group_rules.facts_moved),
    *(group_rules.topic_recreated, group_rules.keeps_committing, group_rules.pending_transaction),
    *(group_rules.topic_never_used, group_rules.skips_unread_records, group_rules.before_log_start),
    *(group_rules.empty_name, group_rules.last_offsets, group_rules.not_undoable),
    group_rules.hidden_offsets,
    *(policy_rules.too_many_groups, policy_rules.too_many_partitions),
    *(policy_rules.too_many_records, policy_rules.group_not_allowed, policy_rules.too_few_records),
    *(policy_rules.empty_too_briefly, policy_rules.unsubscribed_too_briefly),
    group_rules.unreadable,
)


def _group_rule(
    why_not: Callable[[Group], str], judges: str, *, intents: frozenset[Intent] = HELD
) -> Rule:
    """Return the rule that judges the group of every step that holds."""

    @wraps(why_not)
    def judge(case: CheckContext) -> Iterator[Objection]:
        for step in case.plan.steps:
            group = case.groups.get(step.group_id)
            if step.action is Action.HOLD and group and (why := why_not(group)):
                yield Objection(why, step.group_id)

    return Rule(judges, override=NEVER, intents=intents)(judge)


def _hold_rule(
    rule: Callable[[HoldContext], Iterator[Finding]],
    judges: str,
    *,
    override: Override = NEVER,
    intents: frozenset[Intent] = HELD,
) -> Rule:
    """Return the rule that judges every hold of a plan; notes were reported by the planner."""

    @wraps(rule)
    def judge(case: CheckContext) -> Iterator[Objection]:
        for hold in case.holds:
            for found in rule(hold):
                if found.blocks:
                    yield Objection(found.why, found.group_id, found.topic, found.partition)
        FactsMissing.where(case.holds_unknown)

    return Rule(judges, override=override, intents=intents)(judge)


HOLD_RULES = (
    _group_rule(hold_rules.group_kind, "The group has members that read partitions one by one."),
    _group_rule(hold_rules.group_empty, "The group has members."),
    _group_rule(hold_rules.not_stable, "The group is Stable."),
    _group_rule(
        hold_rules.custom_protocol,
        "The members use a consumer's protocol and an assignor that is known.",
    ),
    _group_rule(
        hold_rules.unreadable_member,
        "The members and their subscriptions are known.",
        intents=HELD | RESUME,
    ),
    _hold_rule(
        hold_rules.whole_application,
        "All partitions of a Streams application (KIP-1071) are paused, or none.",
        intents=PAUSE,  # a move evicts the owners instead
    ),
    _hold_rule(hold_rules.not_subscribed, "A member subscribes to every topic that is to be held."),
    _hold_rule(hold_rules.nothing_assigned, "A member reads at least one of the partitions."),
    _hold_rule(
        hold_rules.no_committed_offset,
        "Every partition that a member loses and gets again has a committed offset.",
        override=Override.ALLOWED,
    ),
    _hold_rule(
        hold_rules.hold_too_long,
        "The hold is no longer than a KIP-848 group allows.",
        intents=PAUSE,  # a move takes seconds
    ),
    _hold_rule(hold_rules.retention, "The committed offsets do not expire during the hold."),
    _hold_rule(hold_rules.group_size, "The group has room for the members that hold."),
    _hold_rule(
        hold_rules.another_hold, "Nobody else holds partitions of a Kafka Streams application."
    ),
    _hold_rule(
        hold_rules.assignor_differs,
        "Topics that are read together by partition number stay together during the pause.",
        override=Override.ALLOWED,
    ),
    _hold_rule(
        hold_rules.other_end,
        "What is added to a hold ends when that hold ends.",
        override=Override.ALLOWED,
        intents=PAUSE,  # the hold inside a move ends with the move
    ),
)


def _of_a_resume(case: CheckContext, rule: str) -> Iterator[Objection]:
    """Yield what others hold now of the partitions to be resumed, as far as a rule is about it."""
    for step in case.plan.steps:
        group = case.groups.get(step.group_id)
        if step.action is Action.RELEASE and group:
            released = {change.partition for change in step.changes}
            for found in of_others(group, released, case.by):
                if found.rule == rule:
                    yield Objection(found.why, found.group_id)


@Rule("Nobody else holds what is resumed.", intents=RESUME)
def foreign_hold(case: CheckContext) -> Iterator[Objection]:
    return _of_a_resume(case, "foreign-hold")


@Rule("Resuming releases no partition that was not named.", intents=RESUME)
def releases_more(case: CheckContext) -> Iterator[Objection]:
    return _of_a_resume(case, "releases-more")


RESUME_RULES = (foreign_hold, releases_more)

PLANNED = (
    Rule(
        "The topics and partitions that are asked for exist.",
        name="no-such-partition",
        override=NEVER,
        intents=ANY - NO_PARTITIONS_NAMED - UNDO,
    ),
    Rule(
        "The topics and partitions that have a committed or saved offset still exist.",
        name="missing-partition",
        intents=ANY - NO_PARTITIONS_NAMED | {Intent.RENAME},
    ),
    Rule("The partition has a leader.", name="no-leader", intents=ANY - NO_PARTITIONS_NAMED - UNDO),
    Rule(
        "Nobody has moved the offset since the run that is undone.",
        name="moved-since",
        override=NEVER,
        instead="--even-if-moved, or even_if_moved=True in a notebook",
        intents=UNDO,
    ),
    Rule("The saved offsets are of this cluster.", name="other-cluster", intents=WRITTEN_DOWN),
    Rule(
        "The file has an offset for everything that was asked for.",
        name="no-row",
        override=NEVER,
        instead="name only groups and partitions that the file has",
        intents=WRITTEN_DOWN,
    ),
    Rule(
        "A record at or after the timestamp exists.",
        name="past-end",
        override=NEVER,
        instead="say what to do there: --past-end keep or latest, or past_end in a notebook",
        intents=NEW_OFFSETS,
    ),
    Rule(
        "No earlier run that changed these groups ended early.",
        name="cut-off-run",
        intents=OF_OFFSETS - UNDO,
    ),
    Rule(
        "The timestamp is in the past.",
        name="in-the-future",
        override=NEVER,
        intents=NEW_OFFSETS,
    ),
    Rule(
        "Deleting all offsets of an empty group is asked for explicitly.",
        name="topics-required",
        override=NEVER,
        intents=frozenset({Intent.DELETE_OFFSETS}),
    ),
    Rule(
        "No group has the new name.",
        name="group-exists",
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

RULES: Mapping[str, Rule] = {
    rule.name: rule for rule in (*EVALUATED_RULES, *HOLD_RULES, *RESUME_RULES, *PLANNED)
}


def overridable(intent: Intent | None = None) -> frozenset[str]:
    """Return the rules that an operator may override, of plans with an intent or of any."""
    return frozenset(
        rule.name
        for rule in RULES.values()
        if rule.override is not Override.NEVER and (intent is None or intent in rule.intents)
    )


OVERRIDABLE = overridable()
FINAL = RULES.keys() - OVERRIDABLE


@no_garbage_collection()
def check(case: CheckContext) -> tuple[Finding, ...]:
    """
    Return what every rule objects to and what the planning found, the blocking ones first.

    Where a rule objects, the planner's finding by the same rule on the same subject is left out.
    """
    judged = list(_judged(case))
    subjects = {_subject(finding) for finding in judged}
    planned = (finding for finding in case.plan.findings if _subject(finding) not in subjects)
    findings = dict.fromkeys((*judged, *planned, *group_rules.skips_no_record(case)))
    return tuple(sorted(findings, key=lambda finding: finding.severity is not Severity.BLOCK))


def _subject(finding: Finding) -> tuple[str, str | None, str | None, int | None]:
    return finding.rule, finding.group_id, finding.topic, finding.partition


def _judged(case: CheckContext) -> Iterator[Finding]:
    for rule in RULES.values():
        try:
            for objection in rule.by(case) if rule.by else ():
                yield Finding(rule.name, Severity.BLOCK, *objection)
        except FactsMissing as exc:
            why = f"check not possible, unknown: {exc}"
            yield Finding(rule.name, Severity.BLOCK, why)


def blocking(
    findings: Iterable[Finding], overrides: Collection[str], *, plan: Plan
) -> tuple[Finding, ...]:
    """
    Return the findings that stop the plan, after those that an operator overrides.

    If a plan has no steps, overrides would leave out everything requested, so none counts.
    """
    overridden = OVERRIDABLE & set(overrides) if plan.steps else frozenset()
    return tuple(
        finding
        for finding in findings
        if finding.severity is Severity.BLOCK and finding.rule not in overridden
    )


def alternatives(rules: Iterable[str]) -> tuple[str, ...]:
    """Return other ways to the same result, for blocking rules that cannot be overridden."""
    return tuple(dict.fromkeys(RULES[rule].instead for rule in rules if RULES[rule].instead))


def check_overrides(overrides: Iterable[str], *, intent: Intent) -> None:
    """
    Raise UsageError for an override that has no effect on a plan with this intent.

    That is one that names no rule, a rule that cannot be overridden, or one that never blocks it.
    """
    known = overridable(intent)
    for name in overrides:
        if name in known:
            continue
        why = f"never blocks {intent}" if name in OVERRIDABLE else "cannot be overridden"
        others = f"those that can be overridden for {intent} are {', '.join(sorted(known))}"
        raise UsageError(
            f"rule {name!r} {why if name in RULES else 'does not exist'}",
            hint="; ".join(alternatives({name} & RULES.keys())) or others,
        )


def check_standing(overrides: Iterable[str]) -> None:
    """Raise UsageError where a standing approval would override what its limits are about."""
    limiting = {rule.name for rule in RULES.values() if rule.override is Override.BY_HAND}
    if lifted := sorted(limiting & set(overrides)):
        raise UsageError(
            f"a standing approval cannot override {', '.join(lifted)}",
            hint="set the limits to the values you want",
        )
