"""
What this user may do, as brokers report it (authorized operations, KIP-430); nothing is tried.

Of transactional ids, brokers report no operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from uuid import uuid4

from kafka.protocol.admin import DescribeClusterRequest, DescribeGroupsRequest
from kafka.protocol.metadata import MetadataRequest

from toolkit.errors import BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.coordinators import GroupEntry, ask_coordinators
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.model import Problem, Unread

MAX_NAMES = 500  # groups, and topics: a broker evaluates its ACLs for each


class AclOperation(IntEnum):
    """Operations of ACLs, by their numbers in the protocol."""

    READ = 3
    DELETE = 6
    DESCRIBE = 8
    ALTER_CONFIGS = 11


Operations = frozenset[int] | None  # None: not reported


@dataclass(frozen=True, slots=True)
class Permissions:
    """
    Authorized operations on the cluster, on the offsets topic, and on groups and topics by name.

    `groups` and `topics` are those that this user can see, at most `MAX_NAMES` of each.
    `any_group` and `any_topic` are of an unused name: they hold for every name, unless an
    ACL is for that name. Without an offsets topic, groups are unknown.
    """

    cluster: Operations
    any_group: Operations
    any_topic: Operations
    offsets_topic: Operations
    groups: Mapping[str, Operations]
    topics: Mapping[str, Operations]
    has_offsets_topic: bool


def read_permissions(connection: Connection) -> Permissions:
    """Return what brokers report about this user; raises ClusterUnreachable and BrokerRefused."""
    unused = f"offsetbook-{uuid4()}"
    topics = _topic_operations(connection, [*_topics_to_ask(connection), OFFSETS_TOPIC, unused])
    listed, _ = list_groups(connection)
    names = [group.group_id for group in listed[:MAX_NAMES]]
    exists = bool(names) or _exists(connection, OFFSETS_TOPIC)
    # To look up a coordinator creates the offsets topic, which is for the first consumer to do.
    groups = _group_operations(connection, [*names, unused]) if exists else {}
    return Permissions(
        cluster=_cluster_operations(connection),
        any_group=groups.pop(unused, None),
        any_topic=topics.pop(unused, None),
        offsets_topic=topics.pop(OFFSETS_TOPIC, None),
        groups=groups,
        topics=topics,
        has_offsets_topic=exists,
    )


def _cluster_operations(connection: Connection) -> Operations:
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    try:
        return _frozen(connection.send(request).authorized_operations)
    except BrokerRefused:  # before 2.8
        return None


def _topics_to_ask(connection: Connection) -> list[str]:
    response = connection.send(MetadataRequest(topics=None, allow_auto_topic_creation=False))
    return sorted(topic.name for topic in response.topics if not topic.is_internal)[:MAX_NAMES]


def _topic_operations(connection: Connection, names: Sequence[str]) -> dict[str, Operations]:
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in names],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
        min_version=8,
    )
    found: dict[str, Operations] = {}
    for topic in connection.send(request).topics:
        is_denied = topic.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        found[topic.name] = frozenset() if is_denied else _frozen(topic.authorized_operations)
    return found


def _exists(connection: Connection, topic: str) -> bool:
    named = MetadataRequest.MetadataRequestTopic(name=topic)
    response = connection.send(MetadataRequest(topics=[named], allow_auto_topic_creation=False))
    return {found.error_code for found in response.topics} == {ErrorCode.NONE}


def _group_operations(connection: Connection, names: Sequence[str]) -> dict[str, Operations]:
    """
    Return operations of groups of any type, also of one that does not exist.

    Version 6 knows classic groups only; before, any other is "Dead" and has its operations.
    """

    def build(group_ids: Sequence[str]) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(
            groups=list(group_ids),
            include_authorized_operations=True,
            min_version=3,
            max_version=5,
        )

    found: dict[str, Operations] = {}
    for answer in ask_coordinators(connection, names, what=Unread.PERMISSIONS, build=build):
        if isinstance(answer, Problem):
            is_denied = "GROUP_AUTHORIZATION_FAILED" in answer.why
            found[answer.group_id or ""] = frozenset() if is_denied else None
        elif isinstance(answer, GroupEntry):
            found[answer.entry.group_id] = _frozen(answer.entry.authorized_operations)
    return found


def _frozen(operations: Iterable[int] | None) -> Operations:
    return None if operations is None else frozenset(operations)
