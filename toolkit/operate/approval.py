"""Consent to a plan."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from toolkit.errors import UsageError
from toolkit.plan import Plan
from toolkit.planning.guardrails.limits import Limits
from toolkit.planning.guardrails.registry import LIMITING, WATCH


@dataclass(frozen=True, slots=True)
class Approval:
    """
    Consent to exactly one plan: its fingerprint, why, and past which rules.

    `watch` is how far apart two looks at an idle group must be that committed lately: a consumer
    without a membership (assign()) is noticed only by what it commits in between. `limits` make it
    a standing approval; they can only be stricter than what the fleet file allows.
    """

    fingerprint: str
    reason: str
    overrides: Collection[str] = ()
    watch: timedelta = WATCH
    limits: Limits | None = None

    @classmethod
    def standing(
        cls, plan: Plan, *, reason: str, limits: Limits, overrides: Collection[str] = ()
    ) -> Self:
        """
        Return consent to whatever plan there is, as long as it stays within limits.

        For what runs unattended. Raises UsageError where an override would pass over a limit.
        """
        if lifted := sorted(LIMITING & set(overrides)):
            raise UsageError(
                f"a standing approval cannot override {', '.join(lifted)}",
                hint="set the limits to what is meant",
            )
        return cls(plan.fingerprint, reason, overrides, limits=limits)
