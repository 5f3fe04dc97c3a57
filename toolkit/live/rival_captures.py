"""
Decide on the cluster which of several captures of a classic group goes on.

Operators on two machines share no files, so the group decides. A capture prepares to join, checks
that no other offsetbook member is in the group, joins, and checks again until every capture that
may have missed it is listed: `LOOK_TO_JOIN_S`. Of those, the one with the lowest member id goes on.
One that took longer to join gives way to all others. Each machine measures this with its own clock,
so at most one of several captures goes on, even if the clocks differ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NoReturn

from toolkit.errors import NotCaptured
from toolkit.kafka_io.groups.describe_groups import classic_member
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    DescribeClassic,
    DescribedClassicMember,
)
from toolkit.live.classic_member import OwnIds
from toolkit.live.recipe_steps import AGAIN, RecipeChannel
from toolkit.model import HOLDER_CLIENT_ID, Member, TopicPartition
from toolkit.model.groups import CLASSIC_REBALANCES
from toolkit.planning.selection.member_names import holder_in_words, in_short

LOOK_TO_JOIN_S = 1.0  # member ids and connections exist, so it takes one request
JOINED_WITHIN_S = 10.0
LOOK_EVERY_S = 0.1
AT_REST_WITHIN_S = 10.0  # three heartbeats by default, and a margin
BEING_CAPTURED = "another hold of the group is being captured"
NOTE_WITHIN_S = 30.0  # a capture shows its note once it has succeeded

Look = Callable[[RecipeChannel], ClassicFacts]


def _look(channel: RecipeChannel) -> ClassicFacts:
    return channel.ask(DescribeClassic())


class AnotherCapture(NotCaptured):
    """Another capture of the group goes on; this one has to leave."""


class GaveUp(NotCaptured):
    """Another capture was in the group, and has left."""


class AnotherHold(NotCaptured):
    """The group is held already; `paused` are the partitions that its sentinels hold."""

    does = "has already paused"
    hint = "pause these partitions from there as well, or resume that pause first"

    def __init__(self, members: Iterable[Member]) -> None:
        members = list(members)
        super().__init__(
            "; ".join(
                f"{holder_in_words(one)} {self.does} {in_short(one.holds)}" for one in members
            ),
            hint=self.hint,
        )
        self.paused = frozenset(place for one in members for place in one.holds)


class AnotherAnnounced(AnotherHold):
    """Another hold is about to capture the partitions, which are the `holds` of its members."""

    does = "is just pausing"
    hint = "see in a minute what became of that, and pause these partitions from there as well"


class Contest:
    """One capture, with `own` ids, among others; at `looked_at` no other was in the `group`."""

    def __init__(self, own: OwnIds, looked_at: float, group: ClassicFacts) -> None:
        self.own = own
        self.group = group
        self.looked_at = looked_at
        self._joined_at = math.inf

    @property
    def has_joined(self) -> bool:
        """Whether our member was seen in the group."""
        return self._joined_at < math.inf

    def look(self, member_id: str) -> bool:
        """
        Check once, after a short wait, and return whether our member has outlasted all others.

        Raises AnotherCapture if this capture has to give way, and NotCaptured if its member is not
        in the group.
        """
        channel = self.own.channel
        began = channel.sleep(LOOK_EVERY_S)
        group = channel.ask(DescribeClassic())
        listed = {one.member_id for one in group.members}
        if member_id not in listed:
            if not self.has_joined and began < self.looked_at + JOINED_WITHIN_S:
                return False
            raise not_joined(group)
        if not self.has_joined:
            self._joined_at = channel.now()
        is_late = self._joined_at - self.looked_at >= LOOK_TO_JOIN_S
        others = {one.member_id for one in holders(group)}.difference(self.own.ids)
        if others and (is_late or min(others) < min(listed.intersection(self.own.ids))):
            raise AnotherCapture(BEING_CAPTURED)
        return began >= self._joined_at + LOOK_TO_JOIN_S


def look_for_others(channel: RecipeChannel) -> ClassicFacts:
    """
    Return the group once it does not rebalance; raises NotCaptured if it has another hold.

    A rebalance may be the beginning of a capture. The group is only described, not disturbed.
    """
    return until_at_rest(channel, _without_others)


def until_at_rest(channel: RecipeChannel, look: Look = _look) -> ClassicFacts:
    """Return the group once it does not rebalance, or after a while."""
    give_up_at = channel.now() + AT_REST_WITHIN_S
    while True:
        group = look(channel)
        if group.state not in CLASSIC_REBALANCES or channel.now() >= give_up_at:
            return group
        channel.sleep(LOOK_EVERY_S)


def begin_contest(own: OwnIds) -> Contest:
    """
    Check for other captures once more, when this one is ready to join at once.

    Raises AnotherCapture if there is one. All own ids have to leave before its outcome is awaited:
    its rebalance does not end before that, or 10 s later.
    """
    looked_at = own.channel.now()
    group = _look(own.channel)
    if holders(group):
        raise AnotherCapture(BEING_CAPTURED)
    return Contest(own, looked_at, group)


def _without_others(channel: RecipeChannel) -> ClassicFacts:
    group = _look(channel)
    if holders(group):
        refuse_another_hold(channel)
    return group


def not_joined(group: ClassicFacts) -> NotCaptured:
    """Return the error of a capture whose member could not join."""
    return NotCaptured(
        f"capture failed: the group went to {group.state} before offsetbook could join",
        hint=AGAIN,
    )


def holders(group: ClassicFacts) -> list[DescribedClassicMember]:
    """Return offsetbook's members, which descriptions show in every state of a group."""
    return [one for one in group.members if one.client_id == HOLDER_CLIENT_ID]


def refuse_another_hold(channel: RecipeChannel) -> NoReturn:
    """Raise AnotherHold as soon as the group shows who holds what, or GaveUp."""
    give_up_at = channel.now() + NOTE_WITHIN_S
    while True:
        group = channel.ask(DescribeClassic())
        others = [classic_member(one) for one in holders(group)]
        named = [one for one in others if one.hold_note and one.hold_note.who]
        if named:
            raise AnotherHold(named)
        if not others:
            raise GaveUp("another hold of the group was being captured", hint=AGAIN)
        if channel.sleep(LOOK_EVERY_S) >= give_up_at:
            raise NotCaptured(
                f"another hold of the group exists, from {others[0].host.lstrip('/')}", hint=AGAIN
            )


def refuse_what_others_hold(
    channel: RecipeChannel, partitions: frozenset[TopicPartition], mine: str
) -> None:
    """Raise AnotherHold if a sentinel other than this one holds any of the partitions."""
    group = channel.ask(DescribeClassic())
    others = [classic_member(one) for one in holders(group) if one.member_id != mine]
    if taken := [one for one in others if partitions.intersection(one.holds)]:
        raise AnotherHold(taken)
