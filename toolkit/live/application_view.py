"""What a hold of a Kafka Streams application (KIP-1071) looks at: its group, and one setting."""

from __future__ import annotations

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.membership.group_config import (
    STREAMS_DELAY_MS,
    ConfigFound,
    FetchGroupConfig,
)
from toolkit.kafka_io.membership.streams import DescribeStreams, StreamsFacts
from toolkit.live.recipe_steps import RecipeGenerator, Sleep
from toolkit.model import HOLDER_CLIENT_ID

TOLD_WITHIN_S = 10.0  # after the delay its members hear of their tasks
LOOK_EVERY_S = 0.5


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


def until_resumed(within_s: float) -> RecipeGenerator[str]:
    """Wait until the members have tasks, or there are none; return why that was not seen."""
    now = yield Sleep(0)
    give_up_at = now + within_s
    while now < give_up_at:
        group = yield from described()
        if not group.members or is_read(group):
            return ""
        now = yield Sleep(LOOK_EVERY_S)
    return "resumed, but its members have been assigned no tasks yet"
