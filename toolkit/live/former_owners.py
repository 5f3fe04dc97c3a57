"""
Wait for members that had partitions which are held now, until they cannot be reading them.

A member that was removed, or fell out of its group, hears of it with its next heartbeat and reads
until then, also if it hangs in between. A coordinator tells nothing about a member that is not in
the group. So partitions count as held when as many members with the client id and host of each
former owner are in the group as before, or when the session of one that is missing has expired.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from toolkit.kafka_io.membership.classic import DescribedClassicMember
from toolkit.kafka_io.membership.consumer import DescribedConsumerMember

GroupMember = DescribedClassicMember | DescribedConsumerMember


class FormerOwners:
    """How many members there were of each client id and host that an owner has."""

    def __init__(self) -> None:
        self._before: Counter[tuple[str, str]] = Counter()

    def add(self, members: Iterable[GroupMember], owners: Collection[str]) -> None:
        """Remember a group before a capture; `owners` are the ids of members that own something."""
        members = list(members)
        places = {_place(one) for one in members if one.member_id in owners}
        self._before |= Counter(_place(one) for one in members if _place(one) in places)

    def are_missing(self, members: Iterable[GroupMember]) -> bool:
        """Whether one of them, or of those that look the same, is not in the group now."""
        return bool(self._before - Counter(map(_place, members)))


def _place(member: GroupMember) -> tuple[str, str]:
    return member.client_id, member.host
