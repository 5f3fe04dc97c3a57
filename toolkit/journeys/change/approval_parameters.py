"""What a caller approves, compared with a plan."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.model import Policy
from toolkit.plan import Plan, same_fingerprint
from toolkit.plan.approvals import Approval, Limits, lacks_reason
from toolkit.planning.guardrails.registry import check_standing

WITHIN_LIMITS = "within limits"  # instead of a fingerprint: a standing approval


@dataclass(frozen=True, slots=True)
class ApprovalParameters:
    """
    What a caller approves, as the parameters of a notebook say it; see `PlannedChange.decide`.

    Raises UsageError for limits that cannot be read.
    """

    dry_run: bool = True
    approve: str = ""
    reason: str = ""
    overrides: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.limits or self.approve == WITHIN_LIMITS:
            Limits.parse(self.limits)

    def refusal(self, plan: Plan, policy: Policy) -> str:
        """Return why the approval is invalid for a plan; "" if it is valid."""
        if not self.approve:
            return "not approved"
        is_named = same_fingerprint(self.approve, plan.fingerprint)
        if not is_named and self.approve != WITHIN_LIMITS:
            other = f"the approval is for plan {self.approve}, this plan is {plan.fingerprint}"
            return f"not approved: {other}"
        return "no reason given" if lacks_reason(self.reason, policy) else ""

    def approval(self, plan: Plan) -> Approval:
        """Return the approval of a plan; raises UsageError for an override it cannot have."""
        if self.approve == WITHIN_LIMITS:
            check_standing(self.overrides)
            limits = Limits.parse(self.limits)
            return Approval(plan.fingerprint, self.reason, self.overrides, limits=limits)
        return Approval(plan.fingerprint, self.reason, self.overrides)
