"""
Reset the retention timer of an empty classic group by joining and leaving it.

Such a group's offsets all expire a fixed time after it became Empty, whenever they were committed,
and a commit from outside does not change that. Becoming Empty once more does. `toolkit.operate` is
the only caller.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer.group import JoinGroupRequest, LeaveGroupRequest

from toolkit.errors import Blocked, BrokerRefused
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.coordinators import RETRY_FOR_S, RETRY_PAUSE_S, find_coordinators
from toolkit.kafka_io.client.error_codes import ErrorCode, is_worth_retrying, reason
from toolkit.kafka_io.groups.listing import group_state
from toolkit.kafka_io.wire.fields import int16, int64, optional_bytes, string, strings
from toolkit.model import Group, GroupState, GroupType
from toolkit.model.groups import STREAMS_PROTOCOL
from toolkit.model.names import shown_name
from toolkit.model.plurals import counted

# After this the coordinator removes offsetbook's member if it could not leave; no broker by default
# takes less than 6 s.
SESSION_TIMEOUT_MS = 10_000
MEMBERS_VERSION = 3  # of LeaveGroup: before, its answer was of another shape

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


def reset_classic_retention(connection: Connection, group: Group) -> None:
    """
    Join and leave an idle classic group, which resets its retention timer.

    It takes as long as brokers delay a first rebalance: 3 s by default
    (`group.initial.rebalance.delay.ms`). Raises Blocked where the group is of another kind, is
    gone, or has another member; then offsetbook's member leaves, and the group is as its members
    make it. Raises BrokerRefused if the coordinator refuses a request.
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
    member = _RejoiningMember(connection, group)
    member.check_alone()
    try:
        member.join()
    finally:
        member.leave()
    if member.company:
        raise Blocked(
            f"{_cannot(group)}: another member joined",
            hint=(
                "do nothing: the group is live now, and offsets of subscribed topics do not expire"
            ),
        )


def _cannot(group: Group) -> str:
    return f"cannot reset retention of group {shown_name(group.group_id)}"


class _RejoiningMember:
    """A member of offsetbook, at the coordinator of one group."""

    def __init__(self, connection: Connection, group: Group) -> None:
        self._connection = connection
        self._group = group
        self._id = ""
        self.company = False  # whether another member was seen in the group

    def check_alone(self) -> None:
        """Raise Blocked unless the group is there and Empty."""
        request = DescribeGroupsRequest(groups=[self._group.group_id])
        (found,) = self._ask(request, lambda answer: answer.groups[0].error_code).groups
        state = group_state(found.group_state)
        if state is GroupState.EMPTY and found.protocol_type == self._group.protocol_type:
            return
        raise Blocked(
            f"{_cannot(self._group)}: it is {state} and has "
            f"{counted(len(found.members), 'member')}",
            hint="make a new plan: the group has changed",
        )

    def join(self) -> None:
        """Join, with the id that the coordinator chooses at the first attempt."""
        joined = self._join()
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._id = joined.member_id
            self.check_alone()  # once more, now that nothing but the join itself is left to do
            joined = self._join()
        self._refuse(joined.error_code)
        self._id = joined.member_id
        self.company = joined.leader != self._id or len(joined.members) > 1

    def _join(self) -> Any:
        protocol_type = self._group.protocol_type or ""
        protocols = [
            JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name, metadata in PROTOCOLS[protocol_type].items()
        ]
        request = JoinGroupRequest(
            group_id=self._group.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            member_id=self._id,
            protocol_type=protocol_type,
            protocols=protocols,
        )
        return self._ask(request, lambda answer: answer.error_code)

    def leave(self) -> None:
        """Leave, if the join succeeded; if that fails, the session timeout removes the member."""
        if not self._id:
            return
        request = LeaveGroupRequest(
            group_id=self._group.group_id,
            members=[LeaveGroupRequest.MemberIdentity(member_id=self._id)],
            min_version=MEMBERS_VERSION,
        )
        answer = self._ask(request, lambda answer: answer.error_code)
        self._refuse(answer.error_code or answer.members[0].error_code)

    def _ask(self, request: Any, code_of: Any) -> Any:
        """Ask the coordinator, and again for a while where it has moved or is loading."""
        give_up_at = time.monotonic() + RETRY_FOR_S
        group_ids, refresh = [self._group.group_id], False
        while True:
            (found,) = find_coordinators(self._connection, group_ids, refresh=refresh)
            refresh = True
            code = found.error_code
            if code == ErrorCode.NONE:
                answer = self._connection.send(request, to=found.node_id)
                code = code_of(answer)
                if not is_worth_retrying(code):
                    return answer
            if not is_worth_retrying(code) or time.monotonic() > give_up_at:
                self._refuse(code)
            time.sleep(RETRY_PAUSE_S)

    def _refuse(self, code: int) -> None:
        if code != ErrorCode.NONE:
            raise BrokerRefused(
                f"resetting retention of group {shown_name(self._group.group_id)}: "
                f"{reason(code, 'Read')}"
            )
