"""
What is to be done about the facts, and what became of it, as frozen records.

A `Plan` is steps; a step is one kind of request about one group; its changes say what each
committed offset is before and after. Its `fingerprint` stands for exactly that, so an approval
that names it approves nothing else. Findings say what is wrong with a plan, an `Outcome` what
applying it did.
"""

from toolkit.plan.actions import ON_LIVE_GROUPS, Action, Change, Intent, Position, Step
from toolkit.plan.findings import Finding, Severity
from toolkit.plan.outcomes import Ending, Outcome, Result, Status, StepOutcome
from toolkit.plan.plans import NEW_GROUP, NEW_TOPICS, Plan

__all__ = [
    "NEW_GROUP",
    "NEW_TOPICS",
    "ON_LIVE_GROUPS",
    "Action",
    "Change",
    "Ending",
    "Finding",
    "Intent",
    "Outcome",
    "Plan",
    "Position",
    "Result",
    "Severity",
    "Status",
    "Step",
    "StepOutcome",
]
