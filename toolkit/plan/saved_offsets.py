"""Committed offsets that were saved to a file, and can be put back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.model import Commit, GroupType, TopicPartition
from toolkit.plan import Position


@dataclass(frozen=True, slots=True)
class SavedOffsets:
    """
    Commits of one or more groups at one time, with the ids that their topics had then.

    A CSV file does not say of which cluster, when, and which types and topics. One of three
    columns does not say of which group either: `names_groups` is then False and the commits are of
    group "".
    """

    commits: tuple[Commit, ...]
    cluster: str | None = None
    cluster_id: str | None = None
    taken_at: datetime | None = None
    types: Mapping[str, GroupType] = field(default_factory=dict)
    names_groups: bool = True
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> dict[tuple[str | None, TopicPartition], int | Position]:
        """
        The saved offsets, by group (None: for any group) and partition.

        A position where metadata and leader epoch are known, else the bare offset.
        """
        return {
            (c.group_id if self.names_groups else None, c.topic_partition): (
                c.offset if self.cluster_id is None else Position.of(c)
            )
            for c in self.commits
        }
