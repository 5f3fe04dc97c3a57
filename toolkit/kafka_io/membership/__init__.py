"""
What a member of a group says to its coordinator, and what it hears.

Each request is a small frozen record with two functions: `build` makes the protocol message and
`read` turns the broker's answer into a record of ours. `GroupChannel` sends them.
"""

from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    ClassicMember,
    DescribeClassic,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Left,
    Sync,
    Synced,
)
from toolkit.kafka_io.membership.consumer import (
    Beat,
    Beaten,
    ConsumerFacts,
    ConsumerMember,
    DescribeConsumer,
)
from toolkit.kafka_io.membership.facts import FetchCommits, Topic, TopicFacts
from toolkit.kafka_io.membership.request import Failed, Request

__all__ = [
    "Beat",
    "Beaten",
    "ClassicFacts",
    "ClassicMember",
    "ConsumerFacts",
    "ConsumerMember",
    "DescribeClassic",
    "DescribeConsumer",
    "Failed",
    "FetchCommits",
    "GroupChannel",
    "Heartbeat",
    "Join",
    "Joined",
    "Leave",
    "Left",
    "Request",
    "Sync",
    "Synced",
    "Topic",
    "TopicFacts",
]
