"""
Hold partitions of a classic group that another member of ours leads, for another operator.

A group has one leader. Who comes second is a member that wants nothing but what its note says. The
leader leaves that unassigned as well, and returns the note in what it assigns, where everybody can
read it. Our members stand first in the coordinator's table, so when the leader leaves or dies the
next one of ours leads, and goes on with what is wanted by those that are left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from toolkit.errors import HoldLost, NotCaptured
from toolkit.kafka_io.groups.hold_notes import DecodedNote, read_note, write_note
from toolkit.kafka_io.groups.subscriptions import user_data_from_bytes
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    DescribeClassic,
    Join,
    JoinResult,
    Leave,
    SyncResult,
)
from toolkit.kafka_io.membership.protocol_bytes import (
    assignment_with_note,
    note_in_subscription,
    protocol_named,
    read_subscription,
)
from toolkit.live.choose_capture import count_partitions, shares_of, topics_of
from toolkit.live.classic_capture import check_capturable
from toolkit.live.classic_member import SentinelMember, draw_id
from toolkit.live.leader_hold import LeaderHold
from toolkit.live.recipe_steps import RecipeGenerator
from toolkit.live.rival_captures import holders, refuse_what_others_hold, until_at_rest
from toolkit.model import HOLDER_CLIENT_ID, GroupState, HoldNote, TopicPartition
from toolkit.model.groups import SESSION_TIMEOUT_S
from toolkit.planning.holds.assignment import Shares, Subscriber, assigns_otherwise


class SharedHold(LeaderHold):
    """Partitions of a classic group in which members of ours may hold others."""

    def __init__(self, *, note: HoldNote, session_timeout_s: float = SESSION_TIMEOUT_S) -> None:
        """Hold nothing yet; a hold survives the process behind it for `session_timeout_s`."""
        super().__init__(note=note, session_timeout_s=session_timeout_s)
        self._member: SentinelMember | None = None
        self._shares: Shares = {}  # with what members would have of what is held
        self._keeps_shares = False  # the group's leader assigned otherwise than Kafka's assignor
        self._follows = False  # another member of ours leads, as far as known
        self._granted: frozenset[TopicPartition] = frozenset()  # by that one
        self._others: Shares = {}  # what other members of ours hold

    def keep(self) -> RecipeGenerator[None]:
        """Stay a member; raises HoldLost also if the leader does not hold what is held any more."""
        yield from super().keep()
        if self._follows and self.held - self._granted:
            yield from self._leave("the hold that leads the group does not hold it any more")

    @property
    def _paused(self) -> frozenset[TopicPartition]:
        """All that members of ours hold."""
        return self.held.union(*self._others.values())

    def _leave(self, why: str) -> RecipeGenerator[None]:
        member_id = self._joined().member_id
        self._forget_member()
        yield Leave((member_id,))
        raise HoldLost(why)

    def _joined(self) -> SentinelMember:
        if self._member is None:
            raise HoldLost("nothing is paused any more")
        return self._member

    def _forget_member(self) -> None:
        self._member = None

    def _join(self) -> Join:
        member = self._joined()
        return member.wish(self._written()) if self._follows else member.join()

    def _written(self) -> str:
        return write_note(replace(self.note, survives_s=self.survives_s), self.held)

    def _begin_to_follow(self, ours: list[str]) -> RecipeGenerator[ClassicFacts]:
        """Get an id for a member beside the leader, and return the group as it is at rest."""
        group = yield from until_at_rest()
        check_capturable(group)
        protocol = protocol_named(group.protocol)
        member = SentinelMember(protocol, round(self.survives_s * 1000))
        member.member_id = yield from draw_id(
            SentinelMember(protocol), ours, len(group.members) + 1
        )
        self._member, self._follows = member, True
        counts = yield from count_partitions(topics_of(group), {})
        self._learn_shares(group, counts)
        return group

    def _learn_shares(self, group: ClassicFacts, counts: Mapping[str, int]) -> None:
        """Note what members have, and whether they have it by a rule that ours does not know."""
        self._shares, self._others = shares_of(group), _held_by_others(group, "")
        members = (
            Subscriber(one.member_id, said.topics, instance_id=one.instance_id or "")
            for one in group.members
            if not is_sentinel(one.member_id) and (said := read_subscription(one.subscription))
        )
        self._keeps_shares = assigns_otherwise(
            members, counts, self._shares, paused=self._paused, assignor=group.protocol
        )

    def _check_granted(self) -> RecipeGenerator[None]:
        """Raise NotCaptured unless the leader holds all that is wanted, and ours leads after it."""
        if not self._follows:
            return
        if missing := self.held - self._granted:
            yield from refuse_what_others_hold(missing, self._joined().member_id)
            raise NotCaptured(
                "the hold that leads the group did not take these partitions as well",
                hint="pause these partitions from there, or resume that pause first",
            )
        group: ClassicFacts = yield DescribeClassic()
        listed = [one.member_id for one in group.members]  # in the order of that table
        if not all(map(is_sentinel, listed[: listed.index(self._joined().member_id)])):
            raise NotCaptured(
                "the group is held already, and another member would lead it after that hold",
                hint="pause these partitions from there, or resume that pause first",
            )

    def _follow(self, joined: JoinResult) -> RecipeGenerator[int]:
        """Take what the leader says, and return the broker's code; leave if it is not ours."""
        if not (self._follows and is_sentinel(joined.leader)):  # who may be giving us a share
            yield from self._leave("another member is the group leader, and assigns all partitions")
        member = self._joined()
        member.generation = joined.generation
        member.protocol = protocol_named(joined.protocol)
        synced: SyncResult = yield member.sync({})
        if synced.error:
            return int(synced.error)
        self._granted = frozenset(read_note(user_data_from_bytes(synced.assignment)).paused)
        group: ClassicFacts = yield DescribeClassic()
        is_told = group.state == GroupState.STABLE  # or the next rebalance has begun
        if is_told:
            self._shares, self._others = shares_of(group), _held_by_others(group, member.member_id)
        if member.protocol.cooperative:
            self._unreleased = self.held & _owned(group) if is_told else self.held
        return 0

    def _share_out(self, joined: JoinResult) -> dict[str, bytes]:
        """Return what the leader assigns to members of ours; others keep what they had first."""
        mine = self._joined().member_id
        wishes = {
            one: read_note(note_in_subscription(data))
            for one, data in joined.members.items()
            if is_sentinel(one) and one != mine
        }
        self._others = granted(wishes, self._others, self.held)
        notes = {one: write_note(wishes[one].note, held) for one, held in self._others.items()}
        notes[mine] = self._written()
        return {one: assignment_with_note(note) for one, note in notes.items()}


def is_sentinel(member_id: str) -> bool:
    """Return whether a member is offsetbook's: an id begins with what the client is called."""
    return member_id.startswith(f"{HOLDER_CLIENT_ID}-")


def granted(
    wishes: Mapping[str, DecodedNote], before: Shares, taken: Collection[TopicPartition]
) -> Shares:
    """
    Return what each member gets of what it wants and nobody has taken.

    Who had a partition before keeps it; of others that want it the one with the lowest id gets it.
    """
    left = {one: frozenset(wish.paused) for one, wish in sorted(wishes.items())}
    found: dict[str, frozenset[TopicPartition]] = {}
    gone = frozenset(taken)
    for had in (before, left):
        for one, wanted in left.items():
            new = (wanted & had.get(one, frozenset())) - gone
            found[one] = found.get(one, frozenset()) | new
            gone |= new
    return found


def _owned(group: ClassicFacts) -> frozenset[TopicPartition]:
    said = (read_subscription(one.subscription) for one in group.members)
    return frozenset().union(*(one.owned for one in said if one))


def _held_by_others(group: ClassicFacts, mine: str) -> Shares:
    return {
        one.member_id: frozenset(read_note(user_data_from_bytes(one.assignment)).paused)
        for one in holders(group)
        if one.member_id != mine
    }
