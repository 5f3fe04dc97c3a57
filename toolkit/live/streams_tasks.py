"""Compute the task assignment of Kafka Streams threads with and without the held tasks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from toolkit.errors import NotCaptured
from toolkit.kafka_io.membership.classic import DescribedClassicMember
from toolkit.kafka_io.membership.streams_assignment import (
    StreamsAssignment,
    StreamsSubscription,
    TaskPartition,
    read_streams_subscription,
)
from toolkit.kafka_io.wire.fields import MalformedMessage
from toolkit.model import TopicPartition

CLIENT_ID_ENDS = -37  # a member id is the client id, a dash and 36 characters


class StreamsThread(NamedTuple):
    """What stays the same of a thread when it joins anew, under another member id."""

    name: str
    process: str


class CannotLead(Exception):
    """Members want something of their leader that only their own code can do."""


@dataclass(slots=True)
class StreamsTasks:
    """What each thread has, with what is held; `topics` are those that all of them read."""

    topics: frozenset[str]
    threads: dict[StreamsThread, StreamsAssignment]
    here: frozenset[StreamsThread] = frozenset()  # who was there when tasks were last shared out

    @classmethod
    def read(cls, members: Iterable[DescribedClassicMember]) -> Self:
        """Read what a Stable group's members have; raises NotCaptured where it cannot be cut."""
        threads: dict[StreamsThread, StreamsAssignment] = {}
        topics: set[frozenset[str]] = set()
        for one in members:
            try:
                subscription = read_streams_subscription(one.subscription)
                assignment = StreamsAssignment.read(one.assignment)
            except MalformedMessage as exc:
                raise NotCaptured(
                    f"the assignment of member {one.member_id} cannot be parsed: {exc}"
                ) from exc
            if why := _why_not(subscription, assignment):
                raise NotCaptured(f"member {one.member_id} {why}")
            thread = _thread(one.member_id, subscription)
            if thread in threads:
                raise NotCaptured(
                    f"two members are named {thread.name} and could not be distinguished after "
                    "they rejoin",
                    hint="give each instance a client.id of its own",
                )
            threads[thread] = assignment
            topics.add(subscription.topics)
        if len(topics) != 1:
            raise NotCaptured("its instances do not subscribe to the same topics")
        return cls(topics.pop(), threads)

    def check(self, held: Collection[TopicPartition]) -> None:
        """Raise NotCaptured unless some partitions are whole tasks of the application."""
        found = {pair.partition for one in self.threads.values() for pair in one.pairs}
        if unread := sorted(set(held) - found):
            raise NotCaptured(f"no thread is assigned {_listed(unread)}")
        for one in self.threads.values():
            for task in {pair.task for pair in one.pairs if pair.partition in held}:
                whole = {pair.partition for pair in one.pairs if pair.task == task}
                if more := sorted(whole - set(held)):
                    raise NotCaptured(
                        f"{_listed(sorted(whole - set(more)))} belongs to the same task as "
                        f"{_listed(more)}",
                        hint="pause them together",
                    )

    def share_out(
        self,
        members: Mapping[str, bytes],
        *,
        held: Collection[TopicPartition],
        keep_absent: bool,
    ) -> dict[str, bytes]:
        """
        Return what each member gets: what it had, without what is held.

        What members had that are gone goes to those who have least, unless they are about to be
        back. Raises CannotLead for a member to which we have nothing to give that it can read.
        """
        threads = self._threads_of(members)
        nothing = next(iter(self.threads.values())).of(())
        for thread in threads.values():
            self.threads.setdefault(thread, nothing)
        self.here = frozenset(threads.values())
        if self.here and not keep_absent:
            for gone in sorted(self.absent):
                self._hand_on(self.threads.pop(gone))
        return {one: self.threads[thread].without(held).write() for one, thread in threads.items()}

    @property
    def absent(self) -> frozenset[StreamsThread]:
        """The threads that were not there when tasks were last shared out."""
        return frozenset(self.threads.keys() - self.here)

    def has(self, threads: Iterable[StreamsThread]) -> frozenset[TopicPartition]:
        """Return the partitions of some threads."""
        return frozenset(pair.partition for one in threads for pair in self.threads[one].pairs)

    def _threads_of(self, members: Mapping[str, bytes]) -> dict[str, StreamsThread]:
        """Return who the members are; one that has another one's name as well is a new one."""
        found: dict[str, StreamsThread] = {}
        for member_id, data in sorted(members.items()):
            subscription = _read(member_id, data)
            thread = _thread(member_id, subscription)
            if thread in found.values():
                thread = StreamsThread(member_id, thread.process)
            had = self.threads.get(thread) or next(iter(self.threads.values()))
            if why := _why_not(subscription, had):
                raise CannotLead(f"member {member_id} {why}")
            if subscription.topics != self.topics:
                raise CannotLead(f"member {member_id} subscribes to other topics than before")
            found[member_id] = thread
        return found

    def _hand_on(self, left: StreamsAssignment) -> None:
        """Give tasks to the threads that have least."""
        tasks: dict[bytes, list[TaskPartition]] = {}
        for pair in left.pairs:
            tasks.setdefault(pair.task, []).append(pair)
        for pairs in tasks.values():
            heir = min(sorted(self.here), key=lambda one: len(self.threads[one].pairs))
            have = self.threads[heir]
            self.threads[heir] = have.of([*have.pairs, *pairs])

    def as_state(self) -> dict[str, Any]:
        """Return it as JSON can have it."""
        threads = [[*thread, one.write().hex()] for thread, one in self.threads.items()]
        return {"topics": sorted(self.topics), "threads": threads}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Return what `as_state` gave."""
        threads = {
            StreamsThread(name, process): StreamsAssignment.read(bytes.fromhex(data))
            for name, process, data in state["threads"]
        }
        return cls(frozenset(state["topics"]), threads)


def _why_not(subscription: StreamsSubscription, assignment: StreamsAssignment) -> str:
    """Say why a thread cannot be given a part of an assignment; "" where it can."""
    if subscription.error:
        return "requests the shutdown of the whole application"
    if not subscription.takes(assignment):
        return "uses an older version of Kafka Streams than the others"
    if assignment.standbys:
        return "has standby tasks, which are not moved during a hold"
    if assignment.error or not assignment.is_final:
        return "is about to be assigned other tasks: wait until the application is stable"
    return ""


def owned(members: Mapping[str, bytes]) -> frozenset[TopicPartition]:
    """Return what members say they still have."""
    return frozenset().union(*(_read(one, data).owned for one, data in members.items()))


def _read(member_id: str, data: bytes) -> StreamsSubscription:
    try:
        return read_streams_subscription(data)
    except MalformedMessage as exc:
        raise CannotLead(f"the subscription of member {member_id} cannot be parsed: {exc}") from exc


def _thread(member_id: str, subscription: StreamsSubscription) -> StreamsThread:
    return StreamsThread(member_id[:CLIENT_ID_ENDS], subscription.process.hex())


def _listed(places: Iterable[TopicPartition]) -> str:
    return ", ".join(f"{topic}:{number}" for topic, number in places)
