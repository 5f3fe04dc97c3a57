"""What earlier looks saw, as far as a standing approval is to be judged by it."""

from __future__ import annotations

from pathlib import Path

from toolkit.planning.guardrails.case import Seen
from toolkit.planning.guardrails.limits import Limits
from toolkit.storage import sightings, unsubscribed_sightings


def seen_before(cluster_id: str, limits: Limits | None, state: Path) -> Seen:
    """Return the sightings that limits ask for; raises RecordFailed where they cannot be read."""
    if limits is None:
        return Seen()
    by_age = limits.empty_for_days is not None
    by_topic = (limits.unsubscribed_for_days, limits.unsubscribed_in_runs) != (None, None)
    return Seen(
        empty=sightings.empty_since(state, cluster_id) if by_age else {},
        unsubscribed=unsubscribed_sightings.since(state, cluster_id) if by_topic else {},
    )
