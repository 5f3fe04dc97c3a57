"""
Hold partitions of a classic Kafka Streams group by removing their tasks from its assignment.

What Streams tells its threads only its own leader can compute. But it can be read from the broker,
and cut: all members are evicted while a sentinel waits to join, so that it leads; each thread
that comes back gets what it had, without the tasks that are held. A leader that leaves one
member without bytes, or with others than Streams itself would write, ends the application.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from toolkit.errors import Blocked, HoldLost, NotCaptured
from toolkit.kafka_io.client.error_codes import reason
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    ClassicHeartbeat,
    DescribeClassic,
    DescribedClassicMember,
    Join,
    JoinResult,
    Leave,
    Sync,
)
from toolkit.kafka_io.membership.protocol_bytes import assignment_with_note
from toolkit.kafka_io.membership.streams_assignment import (
    StreamsAssignment,
    StreamsSubscription,
    TaskPartition,
    read_streams_subscription,
)
from toolkit.kafka_io.wire.fields import MalformedMessage
from toolkit.live.classic_member import CAPTURE_SESSION_MS, CLIENT_ID_ENDS, OwnIds
from toolkit.live.leader_hold import BEAT_S, REBALANCE_TIMEOUT_MS, LeaderHold
from toolkit.live.recipe_steps import AGAIN, RecipeChannel, ask_both
from toolkit.live.rival_captures import holders, refuse_another_hold
from toolkit.model import HoldNote, TopicPartition
from toolkit.model.groups import SESSION_TIMEOUT_S, STREAMS_PROTOCOL
from toolkit.planning.selection.member_names import in_short

BACK_WITHIN_S = 30.0  # who was evicted is back, unless its next heartbeat is far away
LISTED_WITHIN_S = 5.0
BACK_AT_ONCE_S = 4.0  # members notice with their next heartbeat, every 3 s by default
LOOK_EVERY_S = 0.01


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
        if unread := set(held) - found:
            raise NotCaptured(f"no thread is assigned {in_short(unread)}")
        for one in self.threads.values():
            for task in {pair.task for pair in one.pairs if pair.partition in held}:
                whole = {pair.partition for pair in one.pairs if pair.task == task}
                if more := whole - set(held):
                    raise NotCaptured(
                        f"{in_short(whole - more)} belongs to the same task as {in_short(more)}",
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


class StreamsHold(LeaderHold):
    """Partitions that the threads of a Streams application do not get."""

    def __init__(self, *, note: HoldNote, session_timeout_s: float = SESSION_TIMEOUT_S) -> None:
        """A hold survives the process behind it for `session_timeout_s`."""
        super().__init__(note=note, session_timeout_s=session_timeout_s)
        self._member_id = ""
        self._generation = -1
        self._subscription = b""  # a copy of a thread's own
        self._tasks: StreamsTasks | None = None
        self._comes_back = False  # whether threads were evicted that are about to be back

    def capture(self, channel: RecipeChannel, partitions: frozenset[TopicPartition]) -> None:
        """Hold these too: all of them or none; returns when no thread has one of them any more."""
        before, is_new = self.held, not self._member_id
        own = OwnIds(channel)
        try:
            if is_new:
                joined = self._become_leader(own, partitions)
            else:
                self._leading().check(before | partitions)
                joined = None
            self.held = before | partitions
            self._rebalance(channel, joined)
            self._until_back(channel)
        except BaseException as exc:
            self.held = before if self._member_id else frozenset()
            self._comes_back = False
            self._told = ""
            if is_new:
                self._member_id = ""
                own.leave_after(exc)
            raise

    def release(self, channel: RecipeChannel, some: frozenset[TopicPartition]) -> None:
        """Give these back; with the last of them our member leaves."""
        left = self.held - some
        try:
            self._leading().check(left)
        except NotCaptured as exc:
            raise Blocked(f"nothing was resumed: {exc.problem}", hint=exc.hint) from exc
        self._keep_only(channel, left)

    def state(self) -> dict[str, Any]:
        return {
            "member_id": self._member_id,
            "generation": self._generation,
            "subscription": self._subscription.hex(),
            "session_timeout_s": self.survives_s,
            "held": sorted(self.held),
            "told": self._told,
            "tasks": self._tasks.as_state() if self._tasks else None,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, note: HoldNote) -> Self:
        hold = cls(note=note, session_timeout_s=state["session_timeout_s"])
        hold.held = frozenset(TopicPartition(topic, number) for topic, number in state["held"])
        hold._told = state.get("told", "")
        hold._member_id, hold._generation = state["member_id"], state["generation"]
        hold._subscription = bytes.fromhex(state["subscription"])
        hold._tasks = StreamsTasks.from_state(state["tasks"]) if state["tasks"] else None
        return hold

    def _leading(self) -> StreamsTasks:
        if not self._member_id or self._tasks is None:
            raise HoldLost("nothing is paused any more")
        return self._tasks

    def _become_leader(self, own: OwnIds, partitions: frozenset[TopicPartition]) -> JoinResult:
        """Evict all threads while the sentinel waits to join, so that it is first, and leads."""
        channel = own.channel
        group = channel.ask(DescribeClassic())
        if holders(group):
            refuse_another_hold(channel)
        _check_capturable(group)
        tasks = StreamsTasks.read(group.members)
        tasks.check(partitions)
        self._subscription = group.members[0].subscription
        self._member_id, blocker_id = own.draw(self._join(CAPTURE_SESSION_MS), 2)
        self._tasks = tasks
        # The group is never Empty: it would wait for group.initial.rebalance.delay.ms then. And no
        # rebalance ends before the second sentinel joins, or is gone.
        channel.send_ahead(self._join(CAPTURE_SESSION_MS))
        self._until_listed(channel, 1, LISTED_WITHIN_S)
        self._comes_back = True
        left = channel.ask(Leave(tuple(one.member_id for one in group.members)))
        if left.error:
            raise NotCaptured(f"its members could not be evicted: {reason(left.error, 'Read')}")
        # Those that come later would have to wait until the others notice it.
        self._until_listed(channel, 1 + len(group.members), BACK_AT_ONCE_S)
        _, joined = ask_both(channel, Leave((blocker_id,)), self._join())
        return joined

    def _until_listed(self, channel: RecipeChannel, count: int, within_s: float) -> None:
        """Wait until our join, which went over another connection, is there, and so many others."""
        now = channel.now()
        give_up_at = now + within_s
        listed: set[str] = set()
        while now < give_up_at and not (self._member_id in listed and len(listed) >= count):
            now = channel.sleep(LOOK_EVERY_S)
            group = channel.ask(DescribeClassic())
            listed = {one.member_id for one in group.members}
        if self._member_id not in listed:
            raise NotCaptured("offsetbook could not join the group", hint=AGAIN)

    def _heartbeat(self) -> ClassicHeartbeat:
        self._leading()
        return ClassicHeartbeat(self._member_id, self._generation)

    def _join(self, timeout_ms: int = 0) -> Join:
        protocols = ((STREAMS_PROTOCOL, self._subscription),)
        timeout_ms = timeout_ms or round(self.survives_s * 1000)
        return Join(self._member_id, protocols, timeout_ms, REBALANCE_TIMEOUT_MS)

    def _is_due(self, _channel: RecipeChannel) -> bool:
        return False

    def _lead(self, channel: RecipeChannel, joined: JoinResult) -> int:
        """Say who gets what, and return the broker's code."""
        self._generation = joined.generation
        try:
            shares = self._assign_partitions(joined)
        except CannotLead as exc:
            channel.ask(Leave((self._member_id,)))
            raise self._lost(f"the hold was given up, the application continues: {exc}") from exc
        # Where a thread has its tasks, the sentinel has its note.
        shares[self._member_id] = assignment_with_note(self._note_text())
        sync = Sync(self._member_id, self._generation, STREAMS_PROTOCOL, shares)
        return channel.ask(sync).error

    def _assign_partitions(self, joined: JoinResult) -> dict[str, bytes]:
        if not joined.leads:
            raise CannotLead("another member is the group leader, and assigns all tasks")
        others = {one: data for one, data in joined.members.items() if one != self._member_id}
        self._unreleased = self.held & owned(others)
        return self._leading().share_out(others, held=self.held, keep_absent=self._comes_back)

    def _until_back(self, channel: RecipeChannel) -> None:
        """Wait until all threads are back, and none says that it still has what is held."""
        give_up_at = channel.now() + BACK_WITHIN_S
        tasks = self._leading()
        while tasks.absent or self._unreleased:
            now = channel.sleep(BEAT_S)
            if now > give_up_at:
                break
            self.keep(channel)
        if late := self._unreleased | (tasks.has(tasks.absent) & self.held):
            raise NotCaptured(
                f"a thread does not revoke {in_short(late)} within {BACK_WITHIN_S:g} s"
            )
        if tasks.absent:  # what they had goes to others
            self._told = ""
        self._comes_back = False

    def _forget_member(self) -> None:
        self._member_id = ""
        self.held = frozenset()


def _check_capturable(group: ClassicFacts) -> None:
    """Raise NotCaptured for a group whose lead we must not take."""
    if group.error:
        raise NotCaptured(f"the group cannot be described: {group.why}")
    if (group.state, group.protocol_type, group.protocol) != (
        "Stable",
        "consumer",
        STREAMS_PROTOCOL,
    ):
        raise NotCaptured(
            f"the group is {group.state or 'missing'}, protocol {group.protocol!r}: only Stable "
            "Kafka Streams groups can be held",
            hint="wait until it is Stable",
        )
