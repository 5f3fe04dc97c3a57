"""
The rules that stop a change, one function each.

A rule gets a `CheckContext` and yields its objections; `check` turns them into findings under the
rule's name. A rule that lacks a fact raises `CannotTell`, which blocks like a violation. An
operator may override a rule by its name, and that is recorded; those in `FINAL` cannot be
overridden.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import partial

from toolkit.errors import UsageError
from toolkit.plan import Finding, Severity
from toolkit.planning.guardrails import group_rules, loss_rules, policy_rules, standing_rules
from toolkit.planning.guardrails.check_context import CannotTell, CheckContext, Rule
from toolkit.planning.guardrails.group_rules import QUIET_AFTER
from toolkit.planning.holds.hold_rules import GROUP_RULES

__all__ = [
    "FINAL",
    "LIMITING",
    "OF_APPROVALS",
    "OVERRIDABLE",
    "QUIET_AFTER",
    "RULES",
    "CheckContext",
    "blocking",
    "check",
    "check_overrides",
    "check_standing",
]

RULES: dict[str, Rule] = {
    "read-only": policy_rules.read_only,
    "wrong-cluster": group_rules.wrong_cluster,
    "protected-group": policy_rules.protected_group,
    "reason-required": policy_rules.reason_required,
    "stale-plan": policy_rules.stale_plan,
    "no-such-group": group_rules.no_such_group,
    "share-group": group_rules.share_group,
    "group-live": group_rules.group_live,
    "subscribed": group_rules.subscribed,
    "facts-moved": group_rules.facts_moved,
    "topic-made-anew": group_rules.topic_made_anew,
    "keeps-committing": group_rules.keeps_committing,
    "pending-transaction": group_rules.pending_transaction,
    "topic-never-used": group_rules.topic_never_used,
    "skips-unread-records": loss_rules.skips_unread_records,
    "before-log-start": loss_rules.before_log_start,
    "last-offsets": loss_rules.last_offsets,
    "not-undoable": loss_rules.not_undoable,
    "hidden-offsets": loss_rules.hidden_offsets,
    "too-many-groups": policy_rules.too_many_groups,
    "too-many-partitions": policy_rules.too_many_partitions,
    "too-many-records": loss_rules.too_many_records,
    "group-not-allowed": standing_rules.group_not_allowed,
    "empty-too-briefly": standing_rules.empty_too_briefly,
    "unsubscribed-too-briefly": standing_rules.unsubscribed_too_briefly,
    "unreadable": group_rules.unreadable,
    **{rule: partial(group_rules.not_holdable, why_not=why) for rule, why in GROUP_RULES.items()},
}
# Found while planning, not by a rule here: overriding one means going on without what it is about.
PLANNED_WITHOUT = frozenset(
    {
        "missing-partition",
        "no-leader",
        "moved-since",
        "other-cluster",
        "no-row",
        "past-end",
        "cut-off-run",
        "foreign-hold",
        "no-committed-offset",
        "other-end",
        "releases-more",
    }
)
OF_APPROVALS = frozenset({"group-not-allowed", "empty-too-briefly", "unsubscribed-too-briefly"})
FINAL = frozenset(
    {
        *("read-only", "wrong-cluster", "reason-required", "no-such-group", "group-exists"),
        *("group-live", "subscribed", "facts-moved", "share-group", "in-the-future"),
        *("topics-required", "protected-group"),
        *GROUP_RULES,
        *("streams-share", "not-subscribed", "nothing-assigned", "hold-too-long", "retention"),
        *("group-size", "another-hold"),
        *OF_APPROVALS,
    }
)
# What the limits of an approval are about: who sets them cannot pass over them in one breath.
LIMITING = frozenset({"too-many-groups", "too-many-partitions", "too-many-records"})
OVERRIDABLE = (RULES.keys() | PLANNED_WITHOUT) - FINAL


def check(case: CheckContext) -> tuple[Finding, ...]:
    """
    Return what every rule objects to and what the planning found, the blocking ones first.

    Where a rule objects, what the planning found by it about the same is not said again.
    """
    judged = list(_judged(case))
    said = {_subject(finding) for finding in judged}
    planned = (finding for finding in case.plan.findings if _subject(finding) not in said)
    findings = dict.fromkeys((*judged, *planned))
    return tuple(sorted(findings, key=lambda finding: finding.severity is not Severity.BLOCK))


def _subject(finding: Finding) -> tuple[str, str | None, str | None, int | None]:
    return finding.rule, finding.group_id, finding.topic, finding.partition


def _judged(case: CheckContext) -> Iterator[Finding]:
    for name, rule in RULES.items():
        try:
            for objection in rule(case):
                yield Finding(name, Severity.BLOCK, *objection)
        except CannotTell as exc:
            yield Finding(name, Severity.BLOCK, f"cannot be judged without knowing: {exc}")


def blocking(findings: Iterable[Finding], overrides: Collection[str]) -> tuple[Finding, ...]:
    """Return the findings that stop the plan, after those that an operator overrides."""
    return tuple(
        finding
        for finding in findings
        if finding.severity is Severity.BLOCK
        and (finding.rule in FINAL or finding.rule not in overrides)
    )


def check_overrides(overrides: Iterable[str]) -> None:
    """Raise UsageError for an override that names no rule, or one that cannot be overridden."""
    for name in overrides:
        if name not in OVERRIDABLE:
            final = name in FINAL
            raise UsageError(
                f"rule {name!r} {'cannot be overridden' if final else 'does not exist'}",
                hint=f"those that can be overridden are {', '.join(sorted(OVERRIDABLE))}",
            )


def check_standing(overrides: Iterable[str]) -> None:
    """Raise UsageError where a standing approval would override what its limits are about."""
    if lifted := sorted(LIMITING & set(overrides)):
        raise UsageError(
            f"a standing approval cannot override {', '.join(lifted)}",
            hint="set the limits to what is meant",
        )
