"""
Find committed offsets of an earlier topic of the same name.

Brokers delete the committed offsets of a deleted topic, but not of groups whose coordinator is down
meanwhile (observed with Kafka 3.9.1 and 4.3.1). Kafka 4.1 and newer write the topic id (KIP-516)
into each commit, and it is compared with the current id of the topic; older versions have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.leaders import describe_topics, topic_id
from toolkit.model import Commit, Problem, Unread
from toolkit.model.commit_columns import columns_of
from toolkit.model.offsets import is_another_topic

WHY = (
    "committed before the topic was deleted and re-created: "
    "the offset refers to records that no longer exist"
)


def commits_of_earlier_topics(connection: Connection, commits: Sequence[Commit]) -> list[Problem]:
    """
    Return a problem for each committed offset of a topic that was re-created since.

    Its lag looks like any other and means nothing. Raises ClusterUnreachable and BrokerRefused.
    """
    columns = columns_of(commits)
    if not columns.has_topic_ids:
        return []
    now = read_topic_ids(connection, (block.topic for block in columns.blocks))
    return [
        Problem(Unread.LAG, WHY, group_id, topic, columns.partitions[place])
        for group_id, topic, places in columns.blocks
        for place in places
        if is_another_topic(columns.topic_id(place), now.get(topic))
    ]


def read_topic_ids(connection: Connection, topics: Iterable[str]) -> dict[str, str]:
    """Return the ids that topics have now; raises ClusterUnreachable and BrokerRefused."""
    return {
        topic.name: topic_id(topic) for topic in describe_topics(connection, sorted(set(topics)))
    }
