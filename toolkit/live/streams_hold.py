"""
Hold partitions of a classic Kafka Streams group by removing their tasks from its assignment.

Only a Streams leader can compute assignments of Streams threads. But these can be read from the
broker and shortened: all members are evicted while a sentinel waits to join, so that it leads; each
thread that rejoins is assigned what it had, without the held tasks. A leader that assigns a member
no bytes, or bytes that Streams itself would not write, ends the application.
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

BACK_WITHIN_S = 30.0  # evicted members rejoin within this, unless their heartbeat interval is long
LISTED_WITHIN_S = 5.0
BACK_AT_ONCE_S = 4.0  # members notice by their heartbeats, every 3 s by default
LOOK_EVERY_S = 0.01


class StreamsThread(NamedTuple):
    """Identifies a thread that rejoins under another member id."""

    name: str
    process: str


class CannotLead(Exception):
    """Members need something of their leader that only a Streams leader can do."""


@dataclass(slots=True)
class StreamsTasks:
    """The assignment of each thread, including held tasks; all threads read `topics`."""

    topics: frozenset[str]
    threads: dict[StreamsThread, StreamsAssignment]
    here: frozenset[StreamsThread] = frozenset()  # members at the last assignment

    @classmethod
    def read(cls, members: Iterable[DescribedClassicMember]) -> Self:
        """Read the assignments of a Stable group; raises NotCaptured if one cannot be shortened."""
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
        """Raise NotCaptured unless the partitions to hold are whole tasks of the application."""
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
        Return the assignment of each member: what it had, without what is held.

        Tasks of absent members are assigned to the members with the fewest, unless `keep_absent`:
        they are about to rejoin. Raises CannotLead for a member that could not read its assignment.
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
        """The threads that were absent when tasks were last assigned."""
        return frozenset(self.threads.keys() - self.here)

    def has(self, threads: Iterable[StreamsThread]) -> frozenset[TopicPartition]:
        return frozenset(pair.partition for one in threads for pair in self.threads[one].pairs)

    def _threads_of(self, members: Mapping[str, bytes]) -> dict[str, StreamsThread]:
        """Return the thread of each member; a second member of a thread's name is a new thread."""
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
        """Assign tasks to the threads with the fewest."""
        tasks: dict[bytes, list[TaskPartition]] = {}
        for pair in left.pairs:
            tasks.setdefault(pair.task, []).append(pair)
        for pairs in tasks.values():
            heir = min(sorted(self.here), key=lambda one: len(self.threads[one].pairs))
            have = self.threads[heir]
            self.threads[heir] = have.of([*have.pairs, *pairs])

    def as_state(self) -> dict[str, Any]:
        """Return the tasks for JSON."""
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
    """Return why a thread cannot be assigned a part of an assignment; "" if it can."""
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
    """Return the partitions that members claim to own."""
    return frozenset().union(*(_read(one, data).owned for one, data in members.items()))


def _read(member_id: str, data: bytes) -> StreamsSubscription:
    try:
        return read_streams_subscription(data)
    except MalformedMessage as exc:
        raise CannotLead(f"the subscription of member {member_id} cannot be parsed: {exc}") from exc


def _thread(member_id: str, subscription: StreamsSubscription) -> StreamsThread:
    return StreamsThread(member_id[:CLIENT_ID_ENDS], subscription.process.hex())


class StreamsHold(LeaderHold):
    """Partitions that are assigned to no thread of a Streams application."""

    def __init__(self, *, note: HoldNote, session_timeout_s: float = SESSION_TIMEOUT_S) -> None:
        """Hold nothing yet; a hold outlives its process for `session_timeout_s`."""
        super().__init__(note=note, session_timeout_s=session_timeout_s)
        self._member_id = ""
        self._generation = -1
        self._subscription = b""  # a copy of a thread's
        self._tasks: StreamsTasks | None = None
        self._comes_back = False  # whether evicted threads are about to rejoin

    def capture(self, channel: RecipeChannel, partitions: frozenset[TopicPartition]) -> None:
        """Hold more partitions, all or none; returns when no thread has one of them any more."""
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
            self._published = ""
            if is_new:
                self._member_id = ""
                own.leave_after(exc)
            raise

    def release(self, channel: RecipeChannel, some: frozenset[TopicPartition]) -> None:
        """Release partitions; with the last of them our member leaves the group."""
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
            "published": self._published,
            "tasks": self._tasks.as_state() if self._tasks else None,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, note: HoldNote) -> Self:
        hold = cls(note=note, session_timeout_s=state["session_timeout_s"])
        hold.held = frozenset(TopicPartition(topic, number) for topic, number in state["held"])
        hold._published = state.get("published", "")
        hold._member_id, hold._generation = state["member_id"], state["generation"]
        hold._subscription = bytes.fromhex(state["subscription"])
        hold._tasks = StreamsTasks.from_state(state["tasks"]) if state["tasks"] else None
        return hold

    def _leading(self) -> StreamsTasks:
        if not self._member_id or self._tasks is None:
            raise HoldLost("nothing is paused any more")
        return self._tasks

    def _become_leader(self, own: OwnIds, partitions: frozenset[TopicPartition]) -> JoinResult:
        """Evict all threads while the sentinel waits to join, so that it is first and leads."""
        channel = own.channel
        group = channel.ask(DescribeClassic())
        if holders(group):
            refuse_another_hold(channel)
        _check_capturable(group)
        tasks = StreamsTasks.read(group.members)
        tasks.check(partitions)
        self._subscription = group.members[0].subscription
        channel.connect(2)  # none is opened while the group rebalances
        self._member_id, blocker_id = own.draw(self._join(CAPTURE_SESSION_MS), 2)
        self._tasks = tasks
        # The group is never Empty, which would cost group.initial.rebalance.delay.ms. And no
        # rebalance ends before the second sentinel has joined or left.
        channel.send_ahead(self._join(CAPTURE_SESSION_MS))
        self._until_listed(channel, 1, LISTED_WITHIN_S)
        self._comes_back = True
        left = channel.ask(Leave(tuple(one.member_id for one in group.members)))
        if left.error:
            raise NotCaptured(f"its members could not be evicted: {reason(left.error, 'Read')}")
        # A thread that rejoins later would wait until the others notice another rebalance.
        self._until_listed(channel, 1 + len(group.members), BACK_AT_ONCE_S)
        _, joined = ask_both(channel, Leave((blocker_id,)), self._join())
        return joined

    def _until_listed(self, channel: RecipeChannel, count: int, within_s: float) -> None:
        """Wait until our join, sent over another connection, has arrived, and `count` members."""
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
        """Assign tasks; return the error code of the broker."""
        self._generation = joined.generation
        try:
            shares = self._assign_partitions(joined)
        except CannotLead as exc:
            channel.ask(Leave((self._member_id,)))
            raise self._lost(f"the hold was given up, the application continues: {exc}") from exc
        # The sentinel has its note where a thread has its tasks.
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
        """Wait until all threads have rejoined, and none claims a held partition."""
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
        if tasks.absent:  # their tasks are assigned to others
            self._published = ""
        self._comes_back = False

    def _forget_member(self) -> None:
        self._member_id = ""
        self.held = frozenset()


def _check_capturable(group: ClassicFacts) -> None:
    """Raise NotCaptured for a group that we must not lead."""
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
