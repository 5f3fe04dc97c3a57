"""Load the sightings that the limits of a standing approval need."""

from __future__ import annotations

from pathlib import Path

from toolkit.plan.approvals import Limits
from toolkit.planning.guardrails.check_context import EarlierSightings
from toolkit.storage.sightings import empty_groups, unsubscribed_topics


def seen_before(cluster_id: str, limits: Limits | None, state: Path) -> EarlierSightings:
    """Return the sightings that limits need; raises StateFileError."""
    if limits is None:
        return EarlierSightings()
    by_age = limits.empty_for_days is not None
    by_topic = (limits.unsubscribed_for_days, limits.unsubscribed_in_runs) != (None, None)
    return EarlierSightings(
        empty=empty_groups.empty_since(state, cluster_id) if by_age else {},
        unsubscribed=unsubscribed_topics.since(state, cluster_id) if by_topic else {},
    )
