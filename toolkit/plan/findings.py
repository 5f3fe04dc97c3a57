"""Findings about a plan."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Severity of a finding."""

    BLOCK = "block"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a plan: rule, severity, reason and subject."""

    rule: str
    severity: Severity
    why: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def blocks(self) -> bool:
        """Whether it blocks the plan."""
        return self.severity is Severity.BLOCK
