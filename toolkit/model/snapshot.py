"""The facts about one cluster, and what could not be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from toolkit.model.groups import Group
from toolkit.model.offsets import Commit, LogOffsets, TimedOffset, TopicPartition

UNREAD_OFFSETS_TOPIC = "commit times"  # what a problem is about when that topic was not read
HELD_PARTITIONS = "held partitions"  # what a problem is about when a hold is hidden
NO_SUCH_GROUP = "group"  # what a problem is about when a group was named that does not exist


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that could not be read: what, and why. It takes the place of the missing rows."""

    what: str
    why: str
    group_id: str | None = None
    topic: str | None = None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """
    The facts about one cluster at about one instant.

    Commits are read before log ends, so a lag made from them may be a little too high on a busy
    partition but is never negative because of the reading order.
    """

    cluster: str  # its name in the fleet file
    cluster_id: str
    taken_at: datetime
    groups: tuple[Group, ...]
    commits: tuple[Commit, ...]
    logs: Mapping[TopicPartition, LogOffsets]
    problems: tuple[Problem, ...] = ()
    # Where logs stood at an instant, where that was asked for: None for a partition in which no
    # record is as young as that.
    at: datetime | None = None
    at_time: Mapping[TopicPartition, TimedOffset | None] = field(default_factory=dict)
    # By the name of a topic, what tells it from an earlier one of that name; only plans need it.
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def why_unlisted(self) -> str:
        """Why a group that is not in it may exist all the same; "" where all could be listed."""
        return next(
            (
                f"{problem.what}: {problem.why}"
                for problem in self.problems
                if problem.group_id is None and problem.what.startswith("groups")
            ),
            "",
        )
