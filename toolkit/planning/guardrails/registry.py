"""
The one registry of guard rails: every rule that can stop a plan, and every note.

A rule gets a `CheckContext` and yields its objections; `check` turns them into findings under the
rule's name. A rule that lacks a fact blocks like a violation. An operator may override a rule by
its name, where the rule allows it, and that is recorded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from toolkit.errors import UsageError
from toolkit.model.garbage_collection import no_garbage_collection
from toolkit.plan import Finding, Intent, Plan, Severity
from toolkit.planning.guardrails.check_context import CheckContext, FactsMissing
from toolkit.planning.guardrails.group_rules import skips_no_record
from toolkit.planning.guardrails.rule import Override, Rule
from toolkit.planning.guardrails.rule_table import (
    EVALUATED_RULES,
    HOLD_RULES,
    PLANNED,
    RESUME_RULES,
)

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
    findings = dict.fromkeys((*judged, *planned, *skips_no_record(case)))
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
