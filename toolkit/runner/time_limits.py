"""How long a run may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """How long a step and a whole run may take, and how long what is interrupted may clean up."""

    step_s: float | None = None
    run_s: float | None = None
    grace_s: float = 300.0


def in_words(seconds: float | None) -> str:
    """Return a time limit as people say it, such as "30 min"."""
    minutes, rest = divmod(seconds or 0.0, 60)
    return f"{minutes:g} min" if minutes and not rest else f"{seconds or 0:g} s"
