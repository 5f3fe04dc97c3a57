"""
What a cluster says about itself: its brokers' releases, its clock, and what this user may do.

No broker reports its release. Since 3.3 a KRaft broker reports the `metadata.version` levels that
it supports (KIP-584), and each release so far has added a level. Patch releases add none.

The leader of the metadata quorum reports the current time as its own `LastCaughtUpTimestamp`
(DescribeQuorum version 1, KIP-836). It does so between the request and the response, so the
difference is known to within the round trip. Other brokers do not report their time.

Permissions are the authorized operations of KIP-430; nothing is tried. Of transactional ids,
brokers report no operations.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import IntEnum
from typing import NamedTuple
from uuid import uuid4

from kafka.protocol.admin import (
    DescribeClusterRequest,
    DescribeGroupsRequest,
    DescribeQuorumRequest,
)
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest

from toolkit.errors import BrokerRefused, ToolkitError
from toolkit.kafka_io.client.connection import Connection, TaggedRequest
from toolkit.kafka_io.client.coordinators import GroupEntry, ask_coordinators
from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.client.leaders import describe_topics
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.model import Problem, Unread

FEATURE = "metadata.version"
# The last level of each release, as printed by `kafka-features.sh version-mapping`; of 4.4, the
# highest that a 4.4.0 broker reports.
RELEASES = {
    7: "3.3",
    8: "3.4",
    11: "3.5",
    14: "3.6",
    19: "3.7",
    20: "3.8",
    21: "3.9",
    25: "4.0",
    27: "4.1",
    29: "4.2",
    30: "4.3",
    33: "4.4",
}
NEWEST = max(RELEASES)

QUORUM_TOPIC = "__cluster_metadata"
LARGEST_DIFFERENCE = timedelta(seconds=5)
MILLISECOND = timedelta(milliseconds=1)  # the unit in which the time is reported
MAX_NAMES = 500  # groups, and topics: a broker evaluates its ACLs for each
Operations = frozenset[int] | None  # None: not reported


@dataclass(frozen=True, slots=True)
class BrokerVersion:
    """
    The highest `metadata.version` that a broker supports, and the one that its cluster uses.

    Either is None where the broker does not report it; `error` is why it did not answer.
    """

    node_id: int
    supported: int | None = None
    in_use: int | None = None
    error: ToolkitError | None = None

    @property
    def release(self) -> str:
        """The release, such as "4.3" or "4.4 or newer"; "" where it cannot be known."""
        return release_of(self.supported) if self.supported is not None else ""


def release_of(level: int) -> str:
    """Return the release whose highest `metadata.version` is `level`; "" before 3.3."""
    if level > NEWEST:
        return f"newer than {RELEASES[NEWEST]}"
    if level == NEWEST:  # the next release may have added none
        return f"{RELEASES[level]} or newer"
    if level < min(RELEASES):
        return ""
    return RELEASES[min(last for last in RELEASES if last >= level)]


def read_broker_versions(connection: Connection) -> list[BrokerVersion]:
    """Return one entry for each broker of the cluster, in the order of their ids."""
    request = ApiVersionsRequest(
        client_software_name="offsetbook", client_software_version="0", min_version=3
    )
    asks = {node_id: [TaggedRequest(None, request)] for node_id in connection.broker_ids}
    found = []
    for node_id, _, response, _ in connection.send_each(asks):
        if isinstance(response, ToolkitError):
            found.append(BrokerVersion(node_id, error=response))
            continue
        supported = {one.name: one.max_version for one in response.supported_features}
        in_use = {one.name: one.max_version_level for one in response.finalized_features}
        found.append(BrokerVersion(node_id, supported.get(FEATURE), in_use.get(FEATURE)))
    return sorted(found, key=lambda version: version.node_id)


class ClockDifference(NamedTuple):
    """How far a controller's clock is ahead of this machine's: `ahead` plus or minus `error`."""

    controller_id: int
    ahead: timedelta
    error: timedelta

    @property
    def is_large(self) -> bool:
        """Whether ages, time lag and expiry, which compare the two, are wrong by it."""
        return abs(self.ahead) > LARGEST_DIFFERENCE + self.error


def read_clock_difference(connection: Connection) -> ClockDifference:
    """
    Return the difference between the clocks of the active controller and of this machine.

    Raises ClusterUnreachable, and BrokerRefused where the cluster does not report it: without
    KRaft, and without the ACL Describe on Cluster.
    """
    topic_data = DescribeQuorumRequest.TopicData
    partition = topic_data.PartitionData(partition_index=0)
    request = DescribeQuorumRequest(
        topics=[topic_data(topic_name=QUORUM_TOPIC, partitions=[partition])], min_version=1
    )
    started, sent_at = time.monotonic(), datetime.now(UTC)
    response = connection.send(request)
    round_trip = timedelta(seconds=time.monotonic() - started)
    for quorum in (partition for topic in response.topics for partition in topic.partitions):
        if quorum.error_code != ErrorCode.NONE:
            raise BrokerRefused(f"DescribeQuorum: {reason(quorum.error_code, 'Describe')}")
        for voter in quorum.current_voters:
            if voter.replica_id == quorum.leader_id and voter.last_caught_up_timestamp > 0:
                controller_time = datetime.fromtimestamp(voter.last_caught_up_timestamp / 1000, UTC)
                return ClockDifference(
                    voter.replica_id,
                    controller_time - sent_at - round_trip / 2,
                    round_trip / 2 + MILLISECOND,
                )
    if response.error_code != ErrorCode.NONE:
        raise BrokerRefused(f"DescribeQuorum: {reason(response.error_code, 'Describe')}")
    raise BrokerRefused("DescribeQuorum: the controller does not report its time")


class AclOperation(IntEnum):
    """Operations of ACLs, by their numbers in the protocol."""

    READ = 3
    DELETE = 6
    DESCRIBE = 8
    ALTER_CONFIGS = 11


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
    (offsets_topic,) = describe_topics(connection, [OFFSETS_TOPIC])
    exists = bool(names) or offsets_topic.error_code == ErrorCode.NONE
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
