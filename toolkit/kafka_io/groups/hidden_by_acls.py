"""What ACLs hide: brokers leave out groups and topics that the user may not describe."""

from __future__ import annotations

from uuid import uuid4

from kafka.protocol.metadata import MetadataRequest

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.model import Problem, Unread

DESCRIBE = 8  # AclOperation.DESCRIBE, the number of its bit
# Later versions do not report it for the cluster (KIP-700); Apache Kafka 4 still has these.
OLDEST, NEWEST = 8, 9

GROUPS_HIDDEN = Problem(
    Unread.GROUPS,
    "those that you may not describe are left out; the ACL Describe on Cluster is missing",
)
TOPICS_HIDDEN = Problem(
    Unread.HIDDEN_COMMITS,
    "topics that you may not describe are left out; the ACL Describe on Topic:* is missing",
)


def find_hidden(connection: Connection) -> tuple[Problem, ...]:
    """
    Return a problem each where groups, and committed offsets, may be hidden from this user.

    A broker reports whether the user may describe the cluster, which shows all groups (KIP-430).
    For topics, the request names one that does not exist: only a user that may describe every topic
    gets that answer. An ACL that denies single topics is not found that way. Raises
    ClusterUnreachable.
    """
    probe = MetadataRequest.MetadataRequestTopic(name=f"offsetbook-{uuid4()}")
    request = MetadataRequest(
        topics=[probe],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        min_version=OLDEST,
        max_version=NEWEST,
    )
    try:
        response = connection.send(request)
    except BrokerRefused:  # it does not support these versions
        return ()
    allowed: set[int] | None = response.authorized_operations  # None: not reported
    denied = {topic.error_code for topic in response.topics}
    return (
        *([] if allowed is None or DESCRIBE in allowed else [GROUPS_HIDDEN]),
        *([TOPICS_HIDDEN] if ErrorCode.TOPIC_AUTHORIZATION_FAILED in denied else []),
    )
