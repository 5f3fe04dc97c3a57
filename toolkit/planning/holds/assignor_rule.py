"""The rule about groups whose own assignor assigns otherwise than a hold would."""

from __future__ import annotations

from collections.abc import Iterator

from toolkit.model import GroupType
from toolkit.plan import Finding
from toolkit.planning.holds.assignment import ASSIGNORS, Subscriber, assigns_otherwise
from toolkit.planning.holds.hold_context import HoldContext
from toolkit.planning.selection.plan_parts import block, note

RANGE = "range"


def assignor_differs(case: HoldContext) -> Iterator[Finding]:
    """
    Report a group whose own assignor assigns otherwise than the hold, as by rack (KIP-881).

    Block it where topics may be read together by partition number, as with range.
    """
    group, known = case.group, case.index.partitions
    if group.type is not GroupType.CLASSIC or group.assignor not in ASSIGNORS or group.paused:
        return
    topics = group.subscribed_topics
    counts = {topic: len(known[topic]) for topic in topics if topic in known}
    if group.assignor != RANGE and counts.keys() < topics:
        return  # what one topic adds moves the partitions of another
    members = [
        Subscriber(m.member_id, m.subscription.topics, instance_id=m.instance_id or "")
        for m in group.readers
    ]
    shares = {m.member_id: frozenset(m.assignment) for m in group.readers}
    if not assigns_otherwise(members, counts, shares, assignor=group.assignor):
        return
    why = (
        f"the group's {group.assignor} assignor assigns partitions otherwise than Kafka's, for "
        "example by rack; during the pause members keep what they have, and one that joins is "
        "given partitions by number only"
    )
    if group.assignor == RANGE and len(topics) > 1:
        why += ": equal partition numbers of two topics may then be read by two members"
        yield block("assignor-differs", why, group.group_id)
    else:
        yield note("assignor-differs", why, group.group_id)
