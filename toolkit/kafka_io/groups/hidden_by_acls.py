"""What ACLs hide: brokers leave out groups and topics that we may not describe, without a word."""

from __future__ import annotations

from uuid import uuid4

from kafka.protocol.metadata import MetadataRequest

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.model import HIDDEN_COMMITS, Problem

DESCRIBE = 8  # AclOperation.DESCRIBE, the number of its bit
# Later versions tell nothing about the cluster (KIP-700); Apache Kafka 4 still knows these.
OLDEST, NEWEST = 8, 9

GROUPS_HIDDEN = Problem(
    "groups",
    "those that you may not describe are left out; the ACL Describe on Cluster is missing",
    hides_groups=True,
)
TOPICS_HIDDEN = Problem(
    HIDDEN_COMMITS,
    "topics that you may not describe are left out; the ACL Describe on Topic:* is missing",
)


def find_hidden(connection: Connection) -> tuple[Problem, ...]:
    """
    Return a problem each where groups, and committed offsets, may be hidden from us.

    A broker tells whether we may describe the cluster, which shows all groups (KIP-430). For topics
    it is asked about one that does not exist: only who may describe any topic is told so. A rule
    that denies single topics is not found that way. Raises ClusterUnreachable.
    """
    asked = MetadataRequest.MetadataRequestTopic(name=f"offsetbook-{uuid4()}")
    request = MetadataRequest(
        topics=[asked],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        min_version=OLDEST,
        max_version=NEWEST,
    )
    try:
        response = connection.send(request)
    except BrokerRefused:  # it does not know these versions, and so tells nothing
        return ()
    allowed: set[int] | None = response.authorized_operations  # None: the broker does not tell
    denied = {topic.error_code for topic in response.topics}
    return (
        *([] if allowed is None or DESCRIBE in allowed else [GROUPS_HIDDEN]),
        *([TOPICS_HIDDEN] if ErrorCode.TOPIC_AUTHORIZATION_FAILED in denied else []),
    )
