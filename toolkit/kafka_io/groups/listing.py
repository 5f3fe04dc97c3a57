"""
List the groups that exist, with ListGroups to every broker, and say what ACLs may hide.

Brokers leave out groups and topics that the user may not describe.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from uuid import uuid4

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.metadata import MetadataRequest

from toolkit.errors import BrokerRefused, ToolkitError
from toolkit.kafka_io.client.connection import Connection, TaggedRequest
from toolkit.kafka_io.client.coordinators import RETRY_FOR_S, RETRY_PAUSE_S
from toolkit.kafka_io.client.error_codes import ErrorCode, is_worth_retrying, reason
from toolkit.kafka_io.client.leaders import TOPICS_PER_REQUEST, describe_topics, keep_described
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC
from toolkit.model import Group, GroupState, GroupType, Problem, Unread

DESCRIBE = 8  # AclOperation.DESCRIBE, the number of its bit
# Later versions do not report it for the cluster (KIP-700); Apache Kafka 4 still has these.
OLDEST, NEWEST = 8, 10
GROUPS_HIDDEN = Problem(
    Unread.GROUPS,
    "those that you may not describe are left out; the ACL Describe on Cluster is missing",
)
TOPICS_HIDDEN = Problem(
    Unread.HIDDEN_COMMITS,
    "topics that you may not describe are left out; the ACL Describe on Topic:* is missing",
)


def list_groups(connection: Connection) -> tuple[list[Group], list[Problem]]:
    """
    Return every group with its type and state but without members, sorted by name.

    A live group is not described yet; an Empty one has no members to describe.

    A broker lists the groups that it coordinates and that this user may describe. One that does not
    answer is a problem if it coordinates any, because its groups are missing from the list; so is a
    partition of the offsets topic without a leader, because its groups have no coordinator. The
    coordinator of each listed group is the broker that lists it.
    """
    groups: dict[str, Group] = {}
    # Described before: a leader that is lost meanwhile gives no answer. The response also says
    # which brokers there are now.
    (offsets_topic,) = describe_topics(connection, [OFFSETS_TOPIC])
    leaders = {p.partition_index: p.leader_id for p in offsets_topic.partitions}
    problems = [
        Problem(
            Unread.GROUPS,
            "no broker coordinates them: no leader",
            topic=OFFSETS_TOPIC,
            partition=number,
        )
        for number, leader in sorted(leaders.items())
        if leader < 0
    ]
    waiting = sorted({*connection.broker_ids, *(one for one in leaders.values() if one >= 0)})
    give_up_at = time.monotonic() + RETRY_FOR_S
    silent: dict[int, ToolkitError] = {}
    while waiting:
        again = []
        asks = {node_id: [TaggedRequest(None, ListGroupsRequest())] for node_id in waiting}
        for node_id, _, response, _ in connection.send_each(asks):
            if isinstance(response, ToolkitError):
                silent[node_id] = response
                continue
            # A coordinator that is still loading lists what it has, with an error.
            groups.update((g.group_id, _listed(g, node_id)) for g in response.groups)
            connection.coordinators.update((g.group_id, node_id) for g in response.groups)
            if is_worth_retrying(response.error_code) and time.monotonic() < give_up_at:
                again.append(node_id)
            elif response.error_code != ErrorCode.NONE:
                problems.append(_unlisted(node_id, reason(response.error_code, "Describe")))
        waiting = again
        time.sleep(RETRY_PAUSE_S if waiting else 0)
    problems += _hidden_by(connection, silent, leaders)
    return sorted(groups.values(), key=lambda group: group.group_id), problems


def _hidden_by(
    connection: Connection, silent: Mapping[int, ToolkitError], leaders: Mapping[int, int]
) -> list[Problem]:
    """
    Return a problem for each silent broker that may coordinate groups.

    One that leads no partition of the offsets topic, neither before it was asked nor now,
    coordinates none. Where the leaders of either time are not known, any may.
    """
    now: set[int] = set()
    if silent and leaders:
        with suppress(ToolkitError):  # what the others listed stays
            (topic,) = describe_topics(connection, [OFFSETS_TOPIC], refresh=True)
            now = {partition.leader_id for partition in topic.partitions}
    return [
        _unlisted(node_id, str(error))
        for node_id, error in silent.items()
        if not now or node_id in now.union(leaders.values())
    ]


def _unlisted(node_id: int, why: str) -> Problem:
    return Problem(Unread.GROUPS, f"those coordinated by broker {node_id}: {why}")


def _listed(entry: object, node_id: int) -> Group:
    protocol_type = getattr(entry, "protocol_type", "") or None
    state = group_state(getattr(entry, "group_state", ""))
    return Group(
        group_id=entry.group_id,  # type: ignore[attr-defined] # generated at run time from a schema
        type=group_type(getattr(entry, "group_type", ""), protocol_type),
        state=state,
        protocol_type=protocol_type,
        coordinator_id=node_id,
        described=state in {GroupState.EMPTY, GroupState.DEAD},
    )


def group_type(reported: str | None, protocol_type: str | None) -> GroupType:
    """
    Return the type of a group from the answer of ListGroups.

    A classic group without a protocol type never had members: only assign() or an admin client
    commits to it, and its offsets expire by another clock, so it is a type of its own here.
    """
    try:
        found = GroupType((reported or "classic").lower())
    except ValueError:
        return GroupType.UNKNOWN
    return GroupType.SIMPLE if found is GroupType.CLASSIC and not protocol_type else found


def group_state(reported: str | None) -> GroupState:
    """Return a reported state; a state that this version does not know is UNKNOWN."""
    try:
        return GroupState(reported or "Unknown")
    except ValueError:
        return GroupState.UNKNOWN


def find_hidden(connection: Connection, topics: Sequence[str] = ()) -> tuple[Problem, ...]:
    """
    Return a problem each where groups, and committed offsets, may be hidden from this user.

    A broker reports whether the user may describe the cluster, which shows all groups (KIP-430).
    For topics, the request names one that does not exist: only a user that may describe every topic
    gets that answer. An ACL that denies single topics is not found that way. The request describes
    some of the `topics` on the way, for `described_once`. Raises ClusterUnreachable.
    """
    probe = f"offsetbook-{uuid4()}"
    named = [MetadataRequest.MetadataRequestTopic(name=n) for n in (probe, *topics)]
    request = MetadataRequest(
        topics=named[:TOPICS_PER_REQUEST],
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
    keep_described(connection, response.topics)
    denied = {topic.error_code for topic in response.topics if topic.name == probe}
    return (
        *([] if allowed is None or DESCRIBE in allowed else [GROUPS_HIDDEN]),
        *([TOPICS_HIDDEN] if ErrorCode.TOPIC_AUTHORIZATION_FAILED in denied else []),
    )
