"""What the pause notebook asks for: to pause or to resume, or first to choose on a board."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import UsageError
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.journeys.pause import pause
from toolkit.journeys.resume import resume
from toolkit.report.display import is_headless

PAUSE, RESUME = "pause", "resume"


def pause_or_resume(
    access: ClusterAccess,
    /,
    action: str,
    group: str,
    topics: Sequence[str] = (),
    **terms: str,
) -> PlannedChange:
    """
    Plan what an `action` asks for: "pause" with the `terms` of `pause`, or "resume".

    A pause without topics plans nothing where somebody can still choose them on a board; a headless
    run refuses it. Raises UsageError and ClusterUnreachable.
    """
    if action not in {PAUSE, RESUME}:
        raise UsageError(f"{action!r} is no action", hint=f"one of: {PAUSE}, {RESUME}")
    if action == RESUME:
        return resume(access, group, topics)
    return pause(access, group, topics if topics or is_headless() else None, **terms)
