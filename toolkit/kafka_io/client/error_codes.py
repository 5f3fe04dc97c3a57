"""A broker's error codes: those with a reaction, by Kafka's names, and all of them as text."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal

import kafka.errors


class ErrorCode(IntEnum):
    """The error codes on which this package acts, as `org.apache.kafka.common.protocol.Errors`."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    ILLEGAL_GENERATION = 22
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_REQUEST = 42
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    GROUP_ID_NOT_FOUND = 69
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    UNSTABLE_OFFSET_COMMIT = 88
    FENCED_MEMBER_EPOCH = 110
    STALE_MEMBER_EPOCH = 113


ASK_AGAIN = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

# A member of a newer protocol that the coordinator does not have, or not as it says it is.
MEMBER_GONE = frozenset(
    {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND}
)

# A coordinator may have written its record before it answers with one of these: it waits only for a
# while until the record is on enough replicas, and renames the errors of the log it writes to.
MAY_TAKE_EFFECT = frozenset(
    {
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    }
)

# A partition has another leader, or one that does not know its log end yet, or was deleted.
LEADER_MOVED = frozenset(
    {
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.OFFSET_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


# What a request needs to be allowed on a group, topic or cluster, as `kafka-acls.sh` calls it.
Operation = Literal["Describe", "Read", "Delete", "DescribeConfigs", "AlterConfigs"]
# The texts of brokers name the recipient of a code rather than what to do.
NOT_AUTHORIZED: dict[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "the ACL {} on the topic is missing",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "the ACL {} on the group is missing",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "the ACL {} on the cluster is missing",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: (
        "the ACL Write on the transactional id is missing"
    ),
}

# Codes that Kafka has had since 4.0 and the client does not know.
NEWER_NAMES: dict[int, str] = {
    128: "INVALID_REGULAR_EXPRESSION",
    129: "REBOOTSTRAP_REQUIRED",
    130: "STREAMS_INVALID_TOPOLOGY",
    131: "STREAMS_INVALID_TOPOLOGY_EPOCH",
    132: "STREAMS_TOPOLOGY_FENCED",
    133: "SHARE_SESSION_LIMIT_REACHED",
    134: "GROUP_DELETION_FAILED",
    135: "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
    136: "CONTROLLER_ID_NOT_REGISTERED",
}


def reason(code: int, needs: Operation, message: str | None = None) -> str:
    """
    What an error code means: the broker's own words where it sent any, and always the name.

    `needs` is the ACL that the request needs on its subject, which brokers do not report.
    """
    if newer := NEWER_NAMES.get(code):
        name, known_words = newer, newer.lower().replace("_", " ")
    else:
        error = kafka.errors.for_code(code)
        name, known_words = error.message, error.description
    acl = NOT_AUTHORIZED.get(code, "").format(needs)
    words = acl or message or known_words or "unknown error"
    return f"{words.rstrip('.')} ({name}, code {int(code)})"


def is_worth_retrying(code: int) -> bool:
    """Whether the same request may succeed in a moment, as when the coordinator moved or loads."""
    return bool(kafka.errors.for_code(code).retriable)
