"""
Facts about a cluster, as frozen dataclasses.

Kafka's -1, -2 and "" for "nothing" become `None` or an enum member before they get here, and times
are aware UTC datetimes. Every name (group, topic, client id, metadata) comes from a cluster and is
untrusted: escape it.
"""

from toolkit.model.cluster import Cluster, Policy
from toolkit.model.groups import (
    HOLDER_CLIENT_ID,
    UNPARSED,
    CaptureMode,
    Group,
    GroupState,
    GroupType,
    HoldNote,
    Member,
    Subscription,
    select_groups,
)
from toolkit.model.names import is_pattern
from toolkit.model.offsets import Commit, EpochEnd, LogOffsets, TimedOffset, TopicPartition
from toolkit.model.snapshot import Problem, Snapshot, Unread

__all__ = [
    "HOLDER_CLIENT_ID",
    "UNPARSED",
    "CaptureMode",
    "Cluster",
    "Commit",
    "EpochEnd",
    "Group",
    "GroupState",
    "GroupType",
    "HoldNote",
    "LogOffsets",
    "Member",
    "Policy",
    "Problem",
    "Snapshot",
    "Subscription",
    "TimedOffset",
    "TopicPartition",
    "Unread",
    "is_pattern",
    "select_groups",
]
