"""What is wrong with a plan, or worth knowing about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """Whether a finding stops a plan."""

    BLOCK = "block"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know about a plan: by which rule, how grave, why, and about what."""

    rule: str
    severity: Severity
    why: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None

    @property
    def blocks(self) -> bool:
        """Whether it stops the plan."""
        return self.severity is Severity.BLOCK
