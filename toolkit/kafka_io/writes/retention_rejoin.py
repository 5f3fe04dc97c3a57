"""
Reset the retention timer of an empty classic group by joining and leaving it.

Such a group's offsets all expire a fixed time after it became Empty, whenever they were committed,
and a commit from outside does not change that. Becoming Empty once more does. `toolkit.operate` is
the only caller.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from toolkit.errors import Blocked, BrokerRefused, ClusterUnreachable, ToolkitError
from toolkit.kafka_io.client.error_codes import ErrorCode, reason
from toolkit.kafka_io.groups.listing import group_state
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import DescribeClassic, Join, JoinResult, Leave
from toolkit.kafka_io.wire.fields import int16, int64, optional_bytes, string, strings
from toolkit.model import Cluster, Group, GroupState, GroupType
from toolkit.model.groups import STREAMS_PROTOCOL
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted

# After this the coordinator removes offsetbook's member if it could not leave; no broker by default
# takes less than 6 s.
SESSION_TIMEOUT_MS = 10_000
# Brokers delay a first rebalance by 3 s by default (`group.initial.rebalance.delay.ms`), and some
# clusters by a minute.
GIVE_UP_AFTER_S = 120.0
REASON = "offsetbook resets the retention timer of this group"  # brokers write it into their log

_NO_TOPICS = int16(0) + strings(()) + optional_bytes(None)  # version 0, no user data
_WORKER = string("http://offsetbook.invalid/") + int64(-1)  # its address, no config
_NO_TASKS = optional_bytes(None)

# A client that starts while we are in the group is refused for good unless we have a protocol in
# common, so we offer those of all that are known. Names by protocol type, with join metadata.
PROTOCOLS: Mapping[str, Mapping[str, bytes]] = {
    "consumer": dict.fromkeys(
        (
            *("range", "roundrobin", "sticky", "cooperative-sticky"),  # Java, librdkafka, Go
            STREAMS_PROTOCOL,
            "RoundRobinAssigner",  # KafkaJS
            "rack-affinity",  # kafka-go
            "roundrobin_v2",  # brod
        ),
        _NO_TOPICS,
    ),
    "connect": {
        "default": int16(0) + _WORKER,
        "compatible": int16(1) + _WORKER + _NO_TASKS,
        "sessioned": int16(2) + _WORKER + _NO_TASKS,
    },
}


def reset_classic_retention(cluster: Cluster, group: Group) -> None:
    """
    Join and leave an idle classic group, which resets its retention timer.

    It takes as long as brokers delay a first rebalance. Raises Blocked where the group is of
    another kind or has another member; then offsetbook's member leaves, and the group is as its
    members make it. Raises BrokerRefused if the coordinator refuses a request, as where the group
    is gone, and ClusterUnreachable.
    """
    if group.type is not GroupType.CLASSIC:
        raise Blocked(
            f"{_cannot(group)} by joining: it is not a classic group",
            hint="commit its offsets again instead",
        )
    if group.protocol_type not in PROTOCOLS:
        raise Blocked(
            f"{_cannot(group)}: joining a group of protocol type "
            f"{group.protocol_type!r} could disturb its members",
            hint="start one of its own members briefly",
        )
    give_up_at = time.monotonic() + GIVE_UP_AFTER_S

    def check() -> None:
        if time.monotonic() > give_up_at:
            raise ClusterUnreachable(f"{_cannot(group)}: no answer within {GIVE_UP_AFTER_S:g} s")

    name = group.group_id
    with GroupChannel(cluster, name, client_id=None, check=check) as channel:
        joined = _join_and_leave(channel, group)
    if not joined.leads or len(joined.members) > 1:
        raise Blocked(
            f"{_cannot(group)}: another member joined",
            hint=(
                "do nothing: the group is live now, and offsets of subscribed topics do not expire"
            ),
        )


def _cannot(group: Group) -> str:
    return f"cannot reset retention of group {shown_name(group.group_id)}"


def _join_and_leave(channel: GroupChannel, group: Group) -> JoinResult:
    """Join, with the id that the coordinator chooses at the first attempt, and leave."""
    protocol_type = group.protocol_type or ""
    offers = tuple(PROTOCOLS[protocol_type].items())
    join = Join("", offers, SESSION_TIMEOUT_MS, SESSION_TIMEOUT_MS, protocol_type, REASON)
    _check_alone(channel, group)
    joined = channel.ask(join)
    leave = Leave((joined.member_id,), REASON)
    try:
        if joined.error == ErrorCode.MEMBER_ID_REQUIRED:
            _check_alone(channel, group)  # once more: nothing but the join itself is left to do
            joined = channel.ask(replace(join, member_id=joined.member_id))
        _refuse(group, joined.error)
    except BaseException:
        with suppress(ToolkitError):  # else the session timeout removes the member
            if joined.member_id:
                channel.ask(leave)
        raise
    _refuse(group, channel.ask(leave).error_of(joined.member_id))
    return joined


def _check_alone(channel: GroupChannel, group: Group) -> None:
    """Raise Blocked unless the group is Empty."""
    found = channel.ask(DescribeClassic())
    if found.error != ErrorCode.NONE:
        raise BrokerRefused(f"{_cannot(group)}: {found.why}")
    state = group_state(found.state)
    if state is not GroupState.EMPTY or found.protocol_type != group.protocol_type:
        raise Blocked(
            f"{_cannot(group)}: it is {state} and has {counted(len(found.members), 'member')}",
            hint="make a new plan: the group has changed",
        )


def _refuse(group: Group, code: int) -> None:
    if code != ErrorCode.NONE:
        raise BrokerRefused(f"{_cannot(group)}: {reason(code, 'Read')}")
