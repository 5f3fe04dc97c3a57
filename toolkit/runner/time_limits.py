"""How long a run may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long a step and a whole run may take, and how long what is interrupted may clean up."""

    step_s: float | None = None
    run_s: float | None = None
    grace_s: float = 300.0
