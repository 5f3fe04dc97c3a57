"""
Share partitions out among the members of a classic group, all but those that are paused.

This is what a leader of the group does. The rules, each of them a property that is tested:

- Every partition that is not paused has exactly one owner, who subscribes to its topic; where
  nobody does it has none. A paused partition has no owner.
- Shares are balanced: nobody keeps a partition while another subscriber of its topic has two
  partitions less. So members who subscribe to the same topics differ by one at most. Those who
  subscribe to different topics may differ by more, where the smaller one could not take anything
  from the larger one.
- As little as possible moves: a partition changes its owner only where it has to, because it has
  no owner now, its owner may not have it any more, or the balance asks for it.
- The same facts give the same shares, in whatever order they come.

Racks are ignored: who is near to a replica plays no part. Nor do partitions of the same number in
different topics stay together, as they would with `range`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from toolkit.model import TopicPartition

Shares = Mapping[str, frozenset[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member of the group: what it wants to read, and what it says it owns, or had last."""

    member_id: str
    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1  # of what it says it owns: the newer of two claims counts


@dataclass(frozen=True, slots=True)
class CutAssignment:
    """
    What each member is given, by member id.

    `withheld` is kept from its new owners until the present ones have let go of it. They do so
    when they hear of this assignment, and then join again: a second one is due.
    """

    shares: Shares
    withheld: frozenset[TopicPartition] = frozenset()


def assign(
    members: Iterable[Subscriber],
    counts: Mapping[str, int],
    *,
    paused: AbstractSet[TopicPartition] = frozenset(),
    cooperative: bool = False,
) -> CutAssignment:
    """
    Return the assignment for members, topics with so many partitions, and what is paused.

    Where members are `cooperative` they go on reading what they own while the group assigns, so
    nobody is given what another member still owns. Eager ones have let go of everything.
    """
    ordered = sorted(members, key=lambda member: member.member_id)
    shares = _kept(ordered, counts, paused)
    _give_away(ordered, shares, _unowned(shares, counts, paused))
    _balance(ordered, shares)
    withheld = _still_owned_by_others(ordered, shares) if cooperative else frozenset()
    return CutAssignment(
        {member_id: frozenset(share - withheld) for member_id, share in shares.items()}, withheld
    )


def _kept(
    members: list[Subscriber], counts: Mapping[str, int], paused: AbstractSet[TopicPartition]
) -> dict[str, set[TopicPartition]]:
    """Return what members have that they may keep."""
    shares: dict[str, set[TopicPartition]] = {member.member_id: set() for member in members}
    taken: set[TopicPartition] = set()
    for member in sorted(members, key=lambda member: -member.generation):
        for partition in member.owned - taken - paused:
            topic, number = partition
            if topic in member.topics and 0 <= number < counts.get(topic, 0):
                shares[member.member_id].add(partition)
                taken.add(partition)
    return shares


def _unowned(
    shares: Mapping[str, set[TopicPartition]],
    counts: Mapping[str, int],
    paused: AbstractSet[TopicPartition],
) -> list[TopicPartition]:
    taken = set().union(*shares.values())
    everything = (TopicPartition(t, n) for t, count in sorted(counts.items()) for n in range(count))
    return [one for one in everything if one not in taken and one not in paused]


def _give_away(
    members: list[Subscriber],
    shares: dict[str, set[TopicPartition]],
    partitions: Iterable[TopicPartition],
) -> None:
    """Give each partition to the subscriber of its topic that has least."""
    readers = _readers(members)
    for partition in partitions:
        if subscribers := readers.get(partition.topic):
            shares[_least(subscribers, shares)].add(partition)


def _balance(members: list[Subscriber], shares: dict[str, set[TopicPartition]]) -> None:
    """Move one partition after another to whoever has at least two less, while there are any."""
    owned = {member.member_id: member.owned for member in members}
    readers = _readers(members)
    while move := _move(readers, shares):
        giver, taker = move
        movable = (one for one in shares[giver] if taker in readers[one.topic])
        # What the giver did not own before is given away first: that moves nothing.
        partition = min(movable, key=lambda one: (one in owned[giver], one))
        shares[giver].remove(partition)
        shares[taker].add(partition)


def _move(
    readers: Mapping[str, list[str]], shares: Mapping[str, set[TopicPartition]]
) -> tuple[str, str] | None:
    """Return who gives a partition to whom, the largest first; None where all is balanced."""
    for giver in sorted(shares, key=lambda one: (-len(shares[one]), one)):
        topics = {partition.topic for partition in shares[giver]}
        takers = {reader for topic in topics for reader in readers[topic]}
        if takers and len(shares[giver]) >= len(shares[taker := _least(takers, shares)]) + 2:
            return giver, taker
    return None


def _still_owned_by_others(
    members: list[Subscriber], shares: Mapping[str, set[TopicPartition]]
) -> frozenset[TopicPartition]:
    return frozenset(
        partition
        for member in members
        for partition in member.owned
        if any(partition in share for one, share in shares.items() if one != member.member_id)
    )


def _readers(members: list[Subscriber]) -> dict[str, list[str]]:
    """Return who subscribes to each topic."""
    topics = {topic for member in members for topic in member.topics}
    return {topic: [m.member_id for m in members if topic in m.topics] for topic in topics}


def _least(member_ids: Iterable[str], shares: Mapping[str, set[TopicPartition]]) -> str:
    return min(member_ids, key=lambda one: (len(shares[one]), one))
