"""
Manage offsetbook's members in a KIP-848 group, from capture to hold.

A sentinel is put on the list of members that have to leave before it joins, so that an
interruption at any step leaves no member in the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from toolkit.errors import Interrupted, NotCaptured, ToolkitError
from toolkit.kafka_io.client.coordinators import in_chunks
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.groups.hold_notes import write_note
from toolkit.kafka_io.membership.consumer import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    IdPartition,
)
from toolkit.kafka_io.membership.group_config import ChangeConfig
from toolkit.live.recipe_steps import LEAVE_TRIES, RecipeChannel, may_stay
from toolkit.model import HoldNote, TopicPartition

ALL_BEAT_EVERY_S = 4.0  # of sentinels that only have to stay members
LONGEST_NOTE = 16_000  # characters; the protocol limits a string to 32,767 bytes
MAX_IN_FLIGHT = 500  # pipelined requests of one connection
# A heartbeat of a reader while these leave would spoil the capture, so they must be few.
MAX_LEAVERS_FOR_LATE_HEARTBEAT = 40


@dataclass(slots=True)
class Sentinel:
    """A sentinel during a capture, as of the last response of the coordinator."""

    member_id: str
    instance_id: str | None = None
    epoch: int = JOIN_EPOCH
    owned: frozenset[IdPartition] = frozenset()
    interval_s: float = 0  # heartbeat interval that the coordinator asks for

    def join(self) -> ConsumerHeartbeat:
        return ConsumerHeartbeat(
            self.member_id, JOIN_EPOCH, topics=(), instance_id=self.instance_id
        )

    def heartbeat(self, **fields: Any) -> ConsumerHeartbeat:
        """Send a heartbeat that acknowledges the current assignment."""
        return ConsumerHeartbeat(self.member_id, self.epoch, owned=self.owned, **fields)

    def update(self, answer: ConsumerHeartbeatResult) -> None:
        """Update epoch and assignment from a heartbeat response; raise NotCaptured on an error."""
        if answer.error == ErrorCode.GROUP_MAX_SIZE_REACHED:
            raise NotCaptured(
                "the group would exceed group.consumer.max.size: during a capture it needs one "
                "more member for every partition of the topics"
            )
        if answer.error:
            raise NotCaptured(f"the coordinator rejected an offsetbook member: {answer.why}")
        self.epoch = answer.epoch
        self.interval_s = answer.interval_ms / 1000
        if answer.assigned is not None:
            self.owned = answer.assigned


@dataclass(slots=True)
class Holder:
    """A sentinel that holds one partition by reporting it as its own."""

    member_id: str
    epoch: int
    place: TopicPartition
    topic_id: UUID

    def heartbeat(self, rack_id: str | None = None, **fields: Any) -> ConsumerHeartbeat:
        """Return a heartbeat that keeps the partition; `rack_id` is the hold's note, if new."""
        owned = frozenset({self._id})
        return ConsumerHeartbeat(self.member_id, self.epoch, owned=owned, rack_id=rack_id, **fields)

    @property
    def _id(self) -> IdPartition:
        return IdPartition(self.topic_id, self.place.partition)

    def has_extra_partitions(self, answer: ConsumerHeartbeatResult) -> bool:
        """Return whether the coordinator assigned more than the held partition."""
        return bool(answer.assigned and answer.assigned != {self._id})

    def update(self, answer: ConsumerHeartbeatResult) -> None:
        """Update the epoch; an error is returned again by the next heartbeat."""
        if not answer.error:
            self.epoch = answer.epoch


def is_of_run(member_id: str, run_id: str) -> bool:
    """Return whether a member of a KIP-848 group is a sentinel that a run has created."""
    return bool(run_id) and f"-{run_id}-" in member_id


@dataclass(slots=True)
class MemberPool:
    """All sentinels of one capture, and the group settings that it has to restore."""

    channel: RecipeChannel
    members: dict[str, Sentinel] = field(default_factory=dict)
    owed: list[ChangeConfig] = field(default_factory=list)
    holders: Sequence[Holder] = ()  # they need heartbeats during a long capture
    # Member ids contain its run id: while they capture, sentinels show no note.
    note: HoldNote = field(default_factory=HoldNote)
    gave_way: int = 0  # how often, to another capture or to a rebalance
    all_beat_at: float = 0  # time of the next heartbeat of all

    @property
    def own_ids(self) -> frozenset[str]:
        """The member ids of capturing and holding sentinels."""
        return frozenset(self.members).union(holder.member_id for holder in self.holders)

    def create_members(self, count: int, *, static: bool) -> list[Sentinel]:
        """Return members to join; the range assignor serves them first, in this order."""
        # It sorts by instance id, members without one last, and then by member id.
        names = [f"!{number:05d}-{self.note.run_id}-{uuid4()}" for number in range(count)]
        return [Sentinel(name, name if static else None) for name in names]

    def join(self, new: Sequence[Sentinel]) -> None:
        """Have members join without subscriptions, which changes no assignment."""
        self.members.update((one.member_id, one) for one in new)
        answers = together(self.channel, [one.join() for one in new])
        for one, answer in zip(new, answers, strict=True):
            one.update(answer)

    def heartbeat(self, some: Iterable[Sentinel]) -> None:
        """Send heartbeats of some members and of all holders."""
        some = list(some)
        held = [holder.heartbeat() for holder in self.holders]
        answers = together(self.channel, [*(one.heartbeat() for one in some), *held])
        for one, answer in zip(some, answers, strict=False):
            one.update(answer)
        for holder, answer in zip(self.holders, answers[len(some) :], strict=True):
            holder.update(answer)

    def keep_all(self) -> None:
        """Send heartbeats of all members if the last ones were a while ago."""
        now = self.channel.now()
        if now >= self.all_beat_at:
            self.heartbeat(self.members.values())
            self.all_beat_at = now + ALL_BEAT_EVERY_S

    def subscribe(
        self,
        some: Sequence[tuple[Sentinel, Sequence[str]]],
        *,
        assignor: str | None = None,
        before: Sequence[ConsumerHeartbeat] = (),
    ) -> None:
        """Have members subscribe to topics, in one batch with the requests `before`."""
        subscribing = [
            one.heartbeat(topics=tuple(topics), assignor=assignor) for one, topics in some
        ]
        answers = together(self.channel, [*before, *subscribing])
        for (one, _), answer in zip(some, answers[len(before) :], strict=True):
            one.update(answer)

    def bump_epoch(self) -> None:
        """
        Start a new epoch of the group that changes no assignment.

        Only while another sentinel without topics is in the group. The first of these joins without
        a new epoch, and an assignment computed with its heartbeat takes all members as subscribed
        to the same topics: to none, if it is the first in the coordinator's table (seen with Apache
        Kafka 4.3.1, with two operators at the same moment).
        """
        (idle,) = self.create_members(1, static=False)
        self.join([idle])
        self.channel.ask(leave(idle.member_id))
        del self.members[idle.member_id]

    def announce(self, member: Sentinel, partitions: Iterable[TopicPartition]) -> None:
        """
        Have a member show what is being captured, by whom and since when.

        A note that is too long is not shown: other captures then wait, and are refused afterwards.
        """
        text = write_note(self.note, partitions)
        if len(text) <= LONGEST_NOTE:
            member.update(self.channel.ask(member.heartbeat(rack_id=text)))

    def subscribe_at_once(
        self, asking: Sequence[tuple[Sentinel, Sequence[str]]], *, assignor: str | None = None
    ) -> None:
        """
        Have members subscribe to topics before the next assignment, all of them.

        Assignments are computed once a second, and the first change has one computed immediately.
        So the first change is an empty one, and the next assignment has all members: one with some
        of them would make readers exchange partitions.
        """
        self.bump_epoch()
        self.subscribe(asking, assignor=assignor, before=[asking[0][0].heartbeat()])

    def keep_holders(self, holders: Sequence[Holder], *, assignor: str, rack_id: str) -> bool:
        """
        Have holders drop their subscription and keep their partitions, and the others leave.

        Return whether no holder was assigned more partitions, which nobody would read then.

        The coordinator waits for a member that reports a partition no longer meant for it. The
        first of these heartbeats has an assignment computed, the next one follows a second later.
        The heartbeat of a single holder comes last, when all others have left: what they leave is
        assigned at once. Those of several come first: a holder that still subscribes, and is not
        the only one, would be assigned what the others leave.
        """
        staying = {holder.member_id for holder in holders}
        stay = [h.heartbeat(rack_id, topics=(), assignor=assignor) for h in holders]
        go = [leave(member_id) for member_id in self.members if member_id not in staying]
        if len(stay) == 1 and len(go) <= MAX_LEAVERS_FOR_LATE_HEARTBEAT:
            answers = together(self.channel, [*go, *stay])[len(go) :]
        else:
            answers = together(self.channel, [*stay, *go])
        for holder, answer in zip(holders, answers, strict=False):
            self.members[holder.member_id].update(answer)
            holder.update(answer)
        return not any(map(Holder.has_extra_partitions, holders, answers))

    def leave(self) -> None:
        together(self.channel, [leave(member_id) for member_id in self.members])
        self.members.clear()

    def leave_and_restore(self) -> None:
        """Have all members leave and restore changed group settings, even if interrupted again."""
        for _ in range(LEAVE_TRIES):
            try:
                self.leave()
                while self.owed:
                    if self.channel.ask(self.owed[0]).error:
                        return
                    self.owed.pop(0)
            except (KeyboardInterrupt, Interrupted):
                continue
            except ToolkitError:
                return

    @property
    def cleanup_problems(self) -> str:
        """Describe what could not be undone, because no broker responded; "" if nothing."""
        words = []
        if self.members:
            words.append(may_stay(len(self.members)))
        words += [f"{one.name} of the group may not be restored" for one in self.owed]
        return "; ".join(words)


def leave(member_id: str) -> ConsumerHeartbeat:
    """Return the request that removes a member: coordinators accept it from any client."""
    return ConsumerHeartbeat(member_id, LEAVE_EPOCH)


def together(
    channel: RecipeChannel, requests: Sequence[ConsumerHeartbeat]
) -> list[ConsumerHeartbeatResult]:
    """Send heartbeats in as few batches as possible; return the responses in order."""
    answers: list[ConsumerHeartbeatResult] = []
    for some in in_chunks(requests, MAX_IN_FLIGHT):
        answers += channel.ask_together(some)
    return answers
