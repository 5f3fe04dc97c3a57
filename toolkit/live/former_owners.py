"""
Wait until former owners of held partitions cannot be reading them any more.

A member that was removed, or fell out of its group, notices that with its next heartbeat and reads
until then, also if it hangs in between. Coordinators show nothing about members that are not in
the group. So partitions count as held when the group has as many members with the client id and
host of each former owner as before, or when the session of a missing one has expired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from toolkit.kafka_io.membership.classic import DescribedClassicMember
from toolkit.kafka_io.membership.consumer import DescribedConsumerMember

GroupMember = DescribedClassicMember | DescribedConsumerMember


class FormerOwners:
    """The number of members for each client id and host of an owner."""

    def __init__(self) -> None:
        self._before: Counter[tuple[str, str]] = Counter()

    def add(self, members: Iterable[GroupMember], owners: Collection[str]) -> None:
        """Remember a group before a capture; `owners` are the member ids of partition owners."""
        members = list(members)
        places = {_place(one) for one in members if one.member_id in owners}
        self._before |= Counter(_place(one) for one in members if _place(one) in places)

    def are_missing(self, members: Iterable[GroupMember]) -> bool:
        """Whether the group has fewer members of one of these client ids and hosts now."""
        return bool(self._before - Counter(map(_place, members)))


def _place(member: GroupMember) -> tuple[str, str]:
    return member.client_id, member.host
