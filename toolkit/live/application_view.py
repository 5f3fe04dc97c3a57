"""What a hold of a Kafka Streams application (KIP-1071) looks at: its group, and one setting."""

from __future__ import annotations

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.membership.group_config import (
    STREAMS_DELAY_MS,
    ConfigFound,
    FetchGroupConfig,
)
from toolkit.kafka_io.membership.streams import DescribeStreams, StreamsFacts
from toolkit.live.recipe_steps import RecipeGenerator
from toolkit.model import HOLDER_CLIENT_ID


def described() -> RecipeGenerator[StreamsFacts]:
    """Return the group; raises BrokerRefused where it, or its topology, is not known."""
    group: StreamsFacts = yield DescribeStreams()
    if group.error:
        raise BrokerRefused(f"the group cannot be described: {group.why}")
    if group.topology is None:
        raise BrokerRefused("the topology of the group is not initialised")
    return group


def delay_setting() -> RecipeGenerator[ConfigFound]:
    """Return the delay in force, if the cluster has it, and the group's own, if it is set."""
    found: ConfigFound = yield FetchGroupConfig((STREAMS_DELAY_MS,))
    if found.error:
        raise BrokerRefused(f"{STREAMS_DELAY_MS} of the group cannot be read: {found.why}")
    return found


def holders(group: StreamsFacts) -> set[str]:
    """Return the ids of offsetbook's members."""
    return {one.member_id for one in group.members if one.client_id == HOLDER_CLIENT_ID}


def is_read(group: StreamsFacts) -> bool:
    """Return whether a member of the application has a task."""
    return any(one.reads for one in group.members if one.client_id != HOLDER_CLIENT_ID)
