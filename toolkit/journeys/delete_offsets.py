"""What readings found left behind, kept so that later ones know since when."""

from __future__ import annotations

from pathlib import Path

from toolkit.model import Snapshot
from toolkit.model.sightings import Sighting
from toolkit.planning.unsubscribed.unsubscribed_offsets import left_behind
from toolkit.storage.sightings import unsubscribed_topics


def record_unsubscribed(state: Path, snapshot: Snapshot) -> dict[tuple[str, str], Sighting]:
    """
    Keep what a reading found left behind in the state folder, and return what is known so far.

    The answer has the series of each group and topic. A group that the reading does not judge, see
    `left_behind`, keeps its series as it was. Raises RecordFailed where nothing can be kept.
    """
    unsubscribed_topics.record(state, snapshot, left_behind(snapshot))
    return unsubscribed_topics.since(state, snapshot.cluster_id)
