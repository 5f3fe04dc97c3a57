"""What the pause notebook asks for: to pause or to resume, or first to choose on a board."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.errors import UsageError
from toolkit.journeys.change.group_choice import one_group
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
    group: str | Sequence[str],
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
    name = one_group(group, f"a {action}")
    if action == RESUME:
        return resume(access, name, topics)
    return pause(access, name, topics if topics or is_headless() else None, **terms)
