"""
The assignments of a classic group that a member of offsetbook leads.

A group has one leader. The sentinel of a second operator subscribes to no topic and names the
partitions that it is to hold in its note. The leader leaves these unassigned as well, and returns
the note in the assignment of that sentinel, where every description shows it. Sentinels are first
in the coordinator's table, so when the leader leaves or dies the next sentinel leads, and holds
what the remaining notes name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from toolkit.kafka_io.groups.hold_notes import DecodedNote, read_note, write_note
from toolkit.kafka_io.groups.subscriptions import user_data_from_bytes
from toolkit.kafka_io.membership.classic import ClassicFacts, JoinResult
from toolkit.kafka_io.membership.protocol_bytes import (
    assignment_with_note,
    note_in_subscription,
    read_subscription,
)
from toolkit.live.choose_capture import count_partitions, shares_of
from toolkit.live.classic_member import SentinelMember, ids_before
from toolkit.live.recipe_steps import RecipeChannel
from toolkit.live.rival_captures import holders
from toolkit.model import HOLDER_CLIENT_ID, TopicPartition
from toolkit.planning.holds.assignment import Shares, Subscriber, assign, assigns_otherwise


class Assignments(NamedTuple):
    """
    The assignment of each member, by member id.

    `unreleased` are partitions to hold that a member still owns; `is_partial`: some partitions are
    withheld until their owners have revoked them.
    """

    assignments: dict[str, bytes]
    unreleased: frozenset[TopicPartition]
    is_partial: bool


@dataclass(slots=True)
class ClassicAssignment:
    """
    The partitions of the members of a classic group, as last seen or assigned.

    `shares` are those of the application's members, including held ones that they would have;
    `held_by_others` are those of other sentinels. `keeps_shares`: the group's own leader did not
    assign as Kafka's assignor of that name does. `former_ids` are those of members that were
    removed and rejoined.
    """

    shares: Shares = field(default_factory=dict)
    held_by_others: Shares = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    keeps_shares: bool = False
    former_ids: dict[str, str] = field(default_factory=dict)

    def paused(self, held: frozenset[TopicPartition]) -> frozenset[TopicPartition]:
        """Return what all sentinels hold; `held` by this one."""
        return held.union(*self.held_by_others.values())

    def owners(self, partitions: Collection[TopicPartition]) -> set[str]:
        """Return the ids of the members that have any of some partitions."""
        return {one for one, share in self.shares.items() if not share.isdisjoint(partitions)}

    def read(self, group: ClassicFacts, member_id: str) -> None:
        """Read the assignments of a Stable group; `member_id` is this hold's own sentinel."""
        self.shares = shares_of(group)
        self.held_by_others = {
            one.member_id: frozenset(read_note(user_data_from_bytes(one.assignment)).paused)
            for one in holders(group)
            if one.member_id != member_id
        }

    def compare(
        self, group: ClassicFacts, counts: Mapping[str, int], held: frozenset[TopicPartition]
    ) -> None:
        """Note whether the assignment differs from that of Kafka's assignor."""
        members = (
            Subscriber(one.member_id, found.topics, instance_id=one.instance_id or "")
            for one in group.members
            if not is_sentinel(one.member_id) and (found := read_subscription(one.subscription))
        )
        self.keeps_shares = assigns_otherwise(
            members, counts, self.shares, paused=self.paused(held), assignor=group.protocol
        )

    def has_grown(self, channel: RecipeChannel) -> bool:
        """Return whether a topic has more partitions than when they were last assigned."""
        return self.counts != count_partitions(channel, self.counts, self.counts)

    def assign(
        self,
        channel: RecipeChannel,
        joined: JoinResult,
        leader: SentinelMember,
        held: frozenset[TopicPartition],
        note: str,
    ) -> Assignments:
        """
        Compute the assignments of all members, without the held partitions.

        From then on the leader subscribes to the topics of the others. Raises NotCaptured if the
        partition count of a topic is not known.
        """
        notes = {**self._grant(joined, leader.member_id, held), leader.member_id: note}
        paused = self.paused(held)
        subscribers = list(self._subscribers(joined, paused))
        leader.topics = frozenset().union(*(one.topics for one in subscribers)) or leader.topics
        self.counts = count_partitions(channel, leader.topics, self.counts)
        cooperative = leader.protocol.cooperative
        found = assign(
            subscribers,
            self.counts,
            paused=paused,
            assignor="" if self.keeps_shares else leader.protocol.name,
            cooperative=cooperative,
        )
        self.shares = found.whole
        owned = frozenset().union(*(one.owned for one in subscribers))
        assignments = {
            one: leader.protocol.assignment(share, generation=leader.generation)
            for one, share in found.shares.items()
        }
        return Assignments(
            assignments | {one: assignment_with_note(text) for one, text in notes.items()},
            unreleased=paused & owned if cooperative else frozenset(),
            is_partial=bool(found.withheld),
        )

    def _grant(
        self, joined: JoinResult, leader_id: str, held: frozenset[TopicPartition]
    ) -> dict[str, str]:
        """Decide what other sentinels hold, and return the note of each."""
        wishes = {
            one: read_note(note_in_subscription(data))
            for one, data in joined.members.items()
            if is_sentinel(one) and one != leader_id
        }
        self.held_by_others = granted(wishes, self.held_by_others, held)
        return {
            one: write_note(wishes[one].note, share) for one, share in self.held_by_others.items()
        }

    def _subscribers(
        self, joined: JoinResult, paused: frozenset[TopicPartition]
    ) -> Iterable[Subscriber]:
        """
        Yield the application's members with the partitions that they own or owned last.

        A member that was removed rejoins under another id, and keeps its rank among the others.
        """
        members = {one: data for one, data in joined.members.items() if not is_sentinel(one)}
        before = ids_before(self.shares, members)
        self.former_ids = {one: self.former_ids.get(id_, id_) for one, id_ in before.items()}
        for member_id, data in members.items():
            subscribed = read_subscription(data)
            if subscribed is None:
                # Nothing is assigned to it; no leader could read its subscription.
                yield Subscriber(member_id, frozenset())
                continue
            had = self.shares.get(before.get(member_id, ""), frozenset())
            yield Subscriber(
                member_id,
                subscribed.topics,
                subscribed.owned,
                subscribed.generation,
                had=frozenset() if subscribed.owned else had,
                paused=had & paused,
                instance_id=joined.instances.get(member_id, ""),
                former_id=self.former_ids.get(member_id, ""),
            )

    def state(self) -> dict[str, Any]:
        """Return the state from which another process can continue, for JSON."""
        return {
            "counts": dict(self.counts),
            "shares": {one: sorted(share) for one, share in self.shares.items()},
            "former_ids": self.former_ids,
            "keeps_shares": self.keeps_shares,
            "others": {one: sorted(share) for one, share in self.held_by_others.items()},
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        return cls(
            {one: as_partitions(share) for one, share in state["shares"].items()},
            {one: as_partitions(share) for one, share in state.get("others", {}).items()},
            dict(state["counts"]),
            state.get("keeps_shares", False),
            dict(state["former_ids"]),
        )


def as_partitions(pairs: Iterable[tuple[str, int]]) -> frozenset[TopicPartition]:
    """Return partitions from pairs of topic and partition number."""
    return frozenset(TopicPartition(topic, number) for topic, number in pairs)


def is_sentinel(member_id: str) -> bool:
    """Return whether a member is offsetbook's: member ids begin with the client id."""
    return member_id.startswith(f"{HOLDER_CLIENT_ID}-")


def granted(
    wishes: Mapping[str, DecodedNote], before: Shares, taken: Collection[TopicPartition]
) -> Shares:
    """
    Return the partitions of each sentinel: those in its note that no other hold has.

    A sentinel keeps what it held before; otherwise the one with the lowest id gets a partition.
    """
    named = {one: frozenset(wish.paused) for one, wish in sorted(wishes.items())}
    found: dict[str, frozenset[TopicPartition]] = {}
    gone = frozenset(taken)
    for had in (before, named):
        for one, partitions in named.items():
            new = (partitions & had.get(one, frozenset())) - gone
            found[one] = found.get(one, frozenset()) | new
            gone |= new
    return found
