"""Consent to a plan."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Self

from toolkit.errors import UsageError
from toolkit.plan import Plan
from toolkit.planning.guardrails import WATCH


@dataclass(frozen=True, slots=True)
class Approval:
    """
    Consent to exactly one plan: its fingerprint, why, and past which rules.

    `watch` is how far apart two looks at an idle group must be that committed lately: a consumer
    without a membership (assign()) is noticed only by what it commits in between. `limits` are
    those of `Policy` by name; they can only be stricter than the cluster's.
    """

    fingerprint: str
    reason: str
    overrides: Collection[str] = ()
    watch: timedelta = WATCH
    limits: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def standing(
        cls, plan: Plan, *, reason: str, limits: Mapping[str, int], overrides: Collection[str] = ()
    ) -> Self:
        """
        Return consent to whatever plan there is, as long as it stays within limits.

        For what runs unattended. Raises UsageError where groups or partitions are not limited.
        """
        if missing := {"max_groups", "max_partitions"} - limits.keys():
            raise UsageError(
                f"a standing approval needs a limit for {', '.join(sorted(missing))}",
                hint="give limits, or approve a plan by its fingerprint",
            )
        return cls(plan.fingerprint, reason, overrides, limits=limits)
