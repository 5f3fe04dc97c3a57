"""Whether a notebook applies its plan: what its parameters consent to, held against the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.plan import Ending, Finding, Plan
from toolkit.plan.approvals import Approval, Limits, is_reason
from toolkit.planning.guardrails.registry import blocking, check_overrides, check_standing

WITHIN_LIMITS = "within limits"  # instead of a fingerprint: a standing approval


@dataclass(frozen=True, slots=True)
class Decision:
    """A plan, and the approval to apply it; or, without one, why it is not applied."""

    plan: Plan
    said: str
    findings: tuple[Finding, ...] = ()
    approval: Approval | None = None
    ending: Ending = Ending.DONE
    wants_approval: bool = False  # an approval is all that is missing
    blocked_by: tuple[str, ...] = ()  # names of rules


@dataclass(frozen=True, slots=True)
class Consent:
    """
    What the parameters of a notebook consent to.

    `approve` is the plan's fingerprint, or "within limits": then `limits` say how much may be
    changed, in texts such as "max_groups=5", see `Limits`. Raises UsageError for an override that
    is no rule or cannot be overridden, and for limits that are none.
    """

    dry_run: bool
    approve: str = ""
    reason: str = ""
    overrides: Sequence[str] = ()
    limits: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check the overrides and the limits."""
        check_overrides(self.overrides)
        if self.limits or self.approve == WITHIN_LIMITS:
            Limits.parse(self.limits)

    def decide(self, plan: Plan, findings: Sequence[Finding]) -> Decision:
        """Return whether a plan is applied of which the guard-rails found these findings."""
        found = tuple(findings)
        if stopping := blocking(found, self.overrides):
            rules = tuple(sorted({finding.rule for finding in stopping}))
            said = f"blocked by {', '.join(rules)}: nothing was changed"
            return Decision(plan, said, found, ending=Ending.BLOCKED, blocked_by=rules)
        if not plan.steps:
            return Decision(plan, "nothing to do", found)
        if self.dry_run:
            return Decision(plan, "dry run: nothing was changed", found, wants_approval=True)
        if refusal := self._refusal(plan):
            return Decision(
                plan,
                f"{refusal}: nothing was changed",
                found,
                ending=Ending.BLOCKED,
                wants_approval=True,
            )
        return Decision(plan, "approved", found, self._approval(plan))

    def _refusal(self, plan: Plan) -> str:
        """Return why this is no approval of a plan; "" where it is one."""
        if not self.approve:
            return "not approved"
        if self.approve not in {plan.fingerprint, WITHIN_LIMITS}:
            return (
                f"the plan's fingerprint is {plan.fingerprint}, the approval is for {self.approve}"
            )
        return "" if is_reason(self.reason) else "no reason was given"

    def _approval(self, plan: Plan) -> Approval:
        overrides = tuple(self.overrides)
        if self.approve == WITHIN_LIMITS:
            limits = Limits.parse(self.limits)
            check_standing(overrides)
            return Approval(plan.fingerprint, self.reason, overrides, limits=limits)
        return Approval(self.approve, self.reason, overrides)
