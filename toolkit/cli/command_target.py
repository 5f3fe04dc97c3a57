"""What a command is about, what a journey planned for it, and the approval that it was given."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from toolkit.journeys.change.decision import Decision
    from toolkit.journeys.change.planned_change import PlannedChange


@dataclass(frozen=True)
class CommandTarget:
    """Which cluster and groups a command is about, and how it answers."""

    fleet: Path | None
    cluster: str | None
    groups: tuple[str, ...]
    output: str
    quiet: bool


@dataclass(frozen=True)
class CommandPlan:
    """What a journey planned, and what is the command's own: how it is applied, past what."""

    change: PlannedChange
    # Applies it, writes the outcome and returns the exit code; None: as any other plan.
    carry_out: Callable[[Decision, CommandTarget], int] | None = None
    overrides: tuple[str, ...] = ()  # rules that its own options override


@dataclass(frozen=True)
class ApprovalOptions:
    """How a command was told to go on: not at all, by a fingerprint, or by whoever is asked."""

    dry_run: bool
    approve: str | None
    reason: str
    overrides: tuple[str, ...]

    OPTIONS: ClassVar = ("dry_run", "approve", "reason", "overrides")

    @property
    def audit_reason(self) -> str:
        """The reason for the audit log: --reason, else what is set for all commands at once."""
        return self.reason or os.environ.get("OFFSETBOOK_REASON", "")
