"""
Facts about a cluster, as frozen dataclasses.

Kafka's -1, -2 and "" for "nothing" become `None` or an enum member before they get here, and times
are aware UTC datetimes. Every name (group, topic, client id, metadata) comes from a cluster and is
untrusted: escape it.
"""

from toolkit.model.cluster import Cluster as Cluster
from toolkit.model.cluster import Policy as Policy
from toolkit.model.groups import HOLDER_CLIENT_ID as HOLDER_CLIENT_ID
from toolkit.model.groups import UNPARSED as UNPARSED
from toolkit.model.groups import CaptureMode as CaptureMode
from toolkit.model.groups import Group as Group
from toolkit.model.groups import GroupState as GroupState
from toolkit.model.groups import GroupType as GroupType
from toolkit.model.groups import HoldNote as HoldNote
from toolkit.model.groups import Member as Member
from toolkit.model.groups import Subscription as Subscription
from toolkit.model.groups import select_groups as select_groups
from toolkit.model.names import is_pattern as is_pattern
from toolkit.model.offsets import Commit as Commit
from toolkit.model.offsets import EpochEnd as EpochEnd
from toolkit.model.offsets import LogOffsets as LogOffsets
from toolkit.model.offsets import TimedOffset as TimedOffset
from toolkit.model.offsets import TopicPartition as TopicPartition
from toolkit.model.snapshot import Problem as Problem
from toolkit.model.snapshot import Snapshot as Snapshot
from toolkit.model.snapshot import Unread as Unread
