"""
Plans, findings, approvals and results, as frozen dataclasses.

A `Plan` is steps; a step is one kind of request about one group; its changes say what each
committed offset is before and after. Its `fingerprint` identifies exactly these changes, and an
approval names it. Findings are the checks on a plan, an `Outcome` is the result of applying it.
"""

from toolkit.plan.plans import (
    HOLD_ACTIONS,
    HOLD_INTENTS,
    NEW_GROUP,
    NEW_TOPICS,
    OFFSETS,
    ON_LIVE_GROUPS,
    Action,
    Change,
    ChangeStatus,
    ConclusionStatus,
    Finding,
    Intent,
    Outcome,
    Plan,
    Position,
    Result,
    Severity,
    Step,
    StepOutcome,
    same_fingerprint,
)

__all__ = [
    "HOLD_ACTIONS",
    "HOLD_INTENTS",
    "NEW_GROUP",
    "NEW_TOPICS",
    "OFFSETS",
    "ON_LIVE_GROUPS",
    "Action",
    "Change",
    "ChangeStatus",
    "ConclusionStatus",
    "Finding",
    "Intent",
    "Outcome",
    "Plan",
    "Position",
    "Result",
    "Severity",
    "Step",
    "StepOutcome",
    "same_fingerprint",
]
