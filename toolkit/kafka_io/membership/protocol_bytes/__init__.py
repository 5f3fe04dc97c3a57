"""
Subscription and assignment bytes of the classic protocol, compatible with the clients.

The broker carries these bytes from member to member and looks into none of them. A leader that
sends others than the members' own client would send may break an application for good.
"""

from toolkit.kafka_io.membership.protocol_bytes.protocols import (
    PROTOCOLS,
    ClassicProtocol,
    assignment_with_note,
    note_in_subscription,
    protocol_named,
)
from toolkit.kafka_io.membership.protocol_bytes.subscription import (
    MemberSubscription,
    read_subscription,
)

__all__ = [
    "PROTOCOLS",
    "ClassicProtocol",
    "MemberSubscription",
    "assignment_with_note",
    "note_in_subscription",
    "protocol_named",
    "read_subscription",
]
