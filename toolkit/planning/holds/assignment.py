"""
Assign partitions to the members of a classic group, except paused ones.

This is the task of the group leader. A group's own assignor decides over all partitions, and what
is paused is cut out of the result: so what the members may rely on stays true. With `range` equal
partition numbers of topics with equally many partitions have the same owner (co-partitioning), and
a pause moves nothing else. Members then differ by as much as is paused.

`range` and `roundrobin` follow the rules of Kafka's assignors. For the sticky assignors, each of
these rules is tested as a property:

- Every partition that is not paused has exactly one owner, which subscribes to its topic; without a
  subscriber it has none. A paused partition has no owner.
- The assignment is balanced: no member keeps a partition while another subscriber of its topic has
  two partitions fewer. A paused partition counts for the member that would have it. Members with
  different subscriptions may differ by more, if the smaller one cannot take over any partition of
  the larger one.
- As few partitions as possible move: a partition changes its owner only if it has no owner, its
  owner may no longer own it, or the balance requires it.
- The same facts give the same assignment, in any order.

Racks (KIP-881) are ignored: a group whose own leader assigns by them keeps what its members have,
as with a sticky assignor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import cycle

from toolkit.model import TopicPartition

Shares = Mapping[str, frozenset[TopicPartition]]


@dataclass(frozen=True, slots=True)
class Subscriber:
    """A member of the group: its subscription, and the partitions it claims to own."""

    member_id: str
    topics: frozenset[str]
    owned: frozenset[TopicPartition] = frozenset()
    generation: int = -1  # of its claim: the newer of two claims counts
    had: frozenset[TopicPartition] = frozenset()  # before it revoked all, or was removed
    paused: frozenset[TopicPartition] = frozenset()  # the paused partitions that it would own
    instance_id: str = ""  # of a static member
    former_id: str = ""  # under which it was known before it was removed and came back

    @property
    def place(self) -> tuple[bool, str]:
        """Its sort key among the members: static ones first, as in Kafka's assignors."""
        if self.instance_id:
            return False, self.instance_id
        return True, self.former_id or self.member_id


@dataclass(frozen=True, slots=True)
class CutAssignment:
    """
    The assignment, by member id; `whole` is that over all partitions, with the paused ones.

    `withheld` partitions are not assigned until their current owners have revoked them. They revoke
    them on this assignment and then rejoin: a second assignment follows.
    """

    shares: Shares
    whole: Shares
    withheld: frozenset[TopicPartition] = frozenset()


def assign(
    members: Iterable[Subscriber],
    counts: Mapping[str, int],
    *,
    paused: AbstractSet[TopicPartition] = frozenset(),
    assignor: str = "",
    cooperative: bool = False,
) -> CutAssignment:
    """
    Return the assignment for members, partition counts of topics, and paused partitions.

    `assignor` is the name of the group's own; what is neither range nor round robin is sticky.

    `cooperative` members keep consuming what they own during a rebalance, so no member is assigned
    what another member still owns. Eager members have revoked everything.
    """
    whole = ASSIGNORS.get(assignor, _sticky)([*members], counts, paused)
    members = sorted(members, key=lambda member: member.member_id)
    cut = {member_id: share - paused for member_id, share in whole.items()}
    withheld = _still_owned_by_others(members, cut) if cooperative else frozenset()
    return CutAssignment(
        {member_id: frozenset(share - withheld) for member_id, share in cut.items()},
        {member_id: frozenset(share) for member_id, share in whole.items()},
        withheld,
    )


def assigns_otherwise(
    members: Iterable[Subscriber],
    counts: Mapping[str, int],
    shares: Shares,
    *,
    paused: AbstractSet[TopicPartition] = frozenset(),
    assignor: str,
) -> bool:
    """
    Return whether members have other shares of these topics than Kafka's assignor gives them.

    Kafka's assignors do so where racks matter (KIP-881). Sticky ones may give anything.
    """
    if assignor not in ASSIGNORS:
        return False
    found = assign(members, counts, paused=paused, assignor=assignor).shares
    return any(
        share != {place for place in shares.get(member_id, ()) if place.topic in counts}
        for member_id, share in found.items()
    )


def _range(
    members: list[Subscriber], counts: Mapping[str, int], _paused: AbstractSet[TopicPartition]
) -> dict[str, set[TopicPartition]]:
    """Give each subscriber of a topic a range of its partitions, the first ones one more."""
    shares: dict[str, set[TopicPartition]] = {member.member_id: set() for member in members}
    for topic, count in counts.items():
        readers = sorted((m for m in members if topic in m.topics), key=_order)
        quota, larger = divmod(count, len(readers)) if readers else (0, 0)
        start = 0
        for number, reader in enumerate(readers):
            end = start + quota + (number < larger)
            shares[reader.member_id] |= {TopicPartition(topic, n) for n in range(start, end)}
            start = end
    return shares


def _round_robin(
    members: list[Subscriber], counts: Mapping[str, int], _paused: AbstractSet[TopicPartition]
) -> dict[str, set[TopicPartition]]:
    """Give partition after partition to one subscriber after another."""
    shares: dict[str, set[TopicPartition]] = {member.member_id: set() for member in members}
    turn = cycle(sorted(members, key=_order))
    subscribed = {topic for member in members for topic in member.topics}
    for topic in sorted(subscribed & counts.keys()):
        for number in range(counts[topic]):
            reader = next(one for one in turn if topic in one.topics)
            shares[reader.member_id].add(TopicPartition(topic, number))
    return shares


def _order(member: Subscriber) -> tuple[bool, str, str]:
    return (*member.place, member.member_id)


def _sticky(
    members: list[Subscriber], counts: Mapping[str, int], paused: AbstractSet[TopicPartition]
) -> dict[str, set[TopicPartition]]:
    """Let members keep their partitions, assign the rest, and balance."""
    ordered = sorted(members, key=lambda member: member.member_id)
    shares = _retained(ordered, counts, paused)
    _give_away(ordered, shares, _unowned(shares, counts, paused))
    _balance(ordered, shares, paused)
    return shares


# `RoundRobinAssigner` is kafkajs's name for round robin.
ASSIGNORS = {"range": _range, "roundrobin": _round_robin, "RoundRobinAssigner": _round_robin}


def _retained(
    members: list[Subscriber], counts: Mapping[str, int], paused: AbstractSet[TopicPartition]
) -> dict[str, set[TopicPartition]]:
    shares: dict[str, set[TopicPartition]] = {member.member_id: set() for member in members}
    taken: set[TopicPartition] = set()
    by_claim = sorted(members, key=lambda member: -member.generation)
    owned = [(member, (member.owned - paused) | (member.paused & paused)) for member in by_claim]
    for member, places in [*owned, *((member, member.had - paused) for member in members)]:
        for partition in places - taken:
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
    """Assign each partition to the subscriber of its topic with the fewest partitions."""
    readers = _readers(members)
    for partition in partitions:
        if subscribers := readers.get(partition.topic):
            shares[_least(subscribers, shares)].add(partition)


def _balance(
    members: list[Subscriber],
    shares: dict[str, set[TopicPartition]],
    paused: AbstractSet[TopicPartition],
) -> None:
    """Move partitions, one at a time, to members with at least two fewer."""
    owned = {member.member_id: member.owned | member.had for member in members}
    readers = _readers(members)
    while move := _move(readers, shares):
        giver, taker = move
        movable = (one for one in shares[giver] if taker in readers[one.topic])
        # Paused ones are moved last, as their owner does not consume them. Before that,
        # partitions that the giver did not own before are moved first: no owner changes.
        partition = min(movable, key=lambda one: (one in paused, one in owned[giver], one))
        shares[giver].remove(partition)
        shares[taker].add(partition)


def _move(
    readers: Mapping[str, list[str]], shares: Mapping[str, set[TopicPartition]]
) -> tuple[str, str] | None:
    """Return which member gives a partition to which, largest first; None if balanced."""
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
    topics = {topic for member in members for topic in member.topics}
    return {topic: [m.member_id for m in members if topic in m.topics] for topic in topics}


def _least(member_ids: Iterable[str], shares: Mapping[str, set[TopicPartition]]) -> str:
    return min(member_ids, key=lambda one: (len(shares[one]), one))
