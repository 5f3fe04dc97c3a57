"""
Hold all partitions of a Kafka Streams application on the Streams protocol (KIP-1071).

Its coordinator assigns tasks, which cannot be withheld one by one. But when the first member joins
an empty group it waits for `streams.initial.rebalance.delay.ms` before it assigns any, a setting of
the group. So all members are evicted at once, and a sentinel is the first to join again: the
others come back and get nothing. Around the end of the delay they are evicted again, and then the
next delay begins, for as long as the hold lasts. A delay cannot be ended, so it must be short.

What was measured (Kafka 4.3.1): 25 times in a row on three instances, at a load of 6 on two
processors, no member was given a task, and no thread ended. An earlier version took the end of the
delay from the clock: once a thread was given tasks, and ended when it was evicted.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Self
from uuid import uuid4

from toolkit.errors import Blocked, BrokerRefused, HoldLost, NotCaptured, ToolkitError
from toolkit.kafka_io.client.error_codes import ErrorCode
from toolkit.kafka_io.groups.hold_notes import write_note
from toolkit.kafka_io.membership.group_config import (
    STREAMS_DELAY_MS,
    ChangeConfig,
    ConfigChanged,
    ConfigFound,
    FetchGroupConfig,
)
from toolkit.kafka_io.membership.streams import (
    DescribeStreams,
    LeaveStreams,
    StreamsFacts,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    possible_topologies,
)
from toolkit.live.recipe_steps import RecipeGenerator, SendBatch, Sleep
from toolkit.model import HOLDER_CLIENT_ID, HoldNote, TopicPartition
from toolkit.model.groups import SESSION_TIMEOUT_S
from toolkit.planning.holds.recipes import APPLICATION_DELAY

DELAY_S = APPLICATION_DELAY.total_seconds()
BEGIN_AGAIN_S = 2.0  # before the end of the delay there is no time for anything else
EVICT_BEFORE_S = 0.2  # the end of the delay, which is known to some milliseconds
LATE_S = 10.0  # so much later it ends on a coordinator that has much to do
AGAIN = "run the command again"
READ = (
    "the coordinator assigned tasks during the pause, as it does when it has moved to another "
    "broker, or when the keeper was stopped; all members were evicted again"
)

TOLD_WITHIN_S = 10.0  # after the delay its members hear of their tasks
LOOK_EVERY_S = 0.5


class ApplicationHold:
    """
    The partitions of all tasks of an application, of which its members get none.

    Without its keeper it lasts until the delay is over, for `delay_s` at most.
    """

    beat_every_s = 1.0

    def __init__(self, *, note: HoldNote, delay_s: float = DELAY_S) -> None:
        self.note = note
        self.survives_s = delay_s
        self.held: frozenset[TopicPartition] = frozenset()
        self._member_id = ""
        self._epoch = 0
        self._topology = 0  # which of the possible ones it is
        self._is_set = False  # whether the hold has to restore the group's setting
        self._setting: str | None = None  # what the group's own was before, if it had one
        # When the delay began, at the earliest and at the latest, by the monotonic clock.
        self._began = (0.0, 0.0)

    def capture(self, partitions: frozenset[TopicPartition]) -> RecipeGenerator[None]:
        """Hold these; returns when no member has a task any more."""
        if self.held:
            raise NotCaptured("the whole application is paused already")
        group = yield from described()
        self._refuse_another(group)
        self._member_id, self.held = str(uuid4()), partitions
        evicted = {one.member_id for one in group.members}
        try:
            yield from self._set_delay()
            yield from self._find_topology(group)
            self._refuse_another((yield from described()))
            yield from self._evict_all()
            yield from self._until_back(evicted)
        except BaseException as exc:
            self.held = frozenset()
            if not isinstance(exc, GeneratorExit):
                with suppress(ToolkitError):
                    yield from self._leave()
            raise

    def keep(self) -> RecipeGenerator[None]:
        """
        Stay in the group, and evict all members again around the end of the delay.

        Raises BrokerRefused where a member had tasks, after evicting it.
        """
        group = yield from described()
        was_read = is_read(group)
        if self._member_id not in {one.member_id for one in group.members}:
            yield from self._come_back(group)
        elif was_read:
            yield from self._evict_all()
        elif (yield Sleep(0)) >= self._began[0] + self.survives_s - BEGIN_AGAIN_S:
            was_read = yield from self._evict_around_the_end()
        else:
            yield from self._beat(group)
        if was_read:
            raise BrokerRefused(READ)

    def _beat(self, group: StreamsFacts) -> RecipeGenerator[None]:
        beat: StreamsHeartbeatResult = yield StreamsHeartbeat(self._member_id, self._epoch)
        if beat.error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH}:
            yield from self._come_back(group)
        elif beat.error:
            raise BrokerRefused(f"the coordinator rejected the heartbeat of a hold: {beat.why}")
        else:
            self._epoch = beat.epoch

    def release(self, some: frozenset[TopicPartition]) -> RecipeGenerator[None]:
        """Let the application go on; returns when it has its tasks, after the delay."""
        if self.held - some:
            raise Blocked(
                "nothing was resumed: the tasks of a Streams application are paused together",
                hint="resume all its partitions",
            )
        not_restored = yield from self._leave()
        self.held = frozenset()
        if not_restored:
            raise BrokerRefused(not_restored)
        left_s = self._began[1] + self.survives_s - (yield Sleep(0))
        if why := (yield from until_resumed(left_s + TOLD_WITHIN_S)):
            raise BrokerRefused(why)

    def state(self) -> dict[str, Any]:
        return {
            "member_id": self._member_id,
            "epoch": self._epoch,
            "topology": self._topology,
            "is_set": self._is_set,
            "setting": self._setting,
            "began": self._began,
            "delay_s": self.survives_s,
            "held": sorted(self.held),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, note: HoldNote) -> Self:
        hold = cls(note=note, delay_s=state["delay_s"])
        hold.held = frozenset(TopicPartition(topic, number) for topic, number in state["held"])
        hold._member_id, hold._epoch = state["member_id"], state["epoch"]
        hold._topology, hold._began = state["topology"], tuple(state["began"])
        hold._is_set, hold._setting = state["is_set"], state["setting"]
        return hold

    @property
    def _delay_ms(self) -> str:
        return str(round(self.survives_s * 1000))

    def _set_delay(self) -> RecipeGenerator[None]:
        found = yield from delay_setting()
        if STREAMS_DELAY_MS not in found.values:
            raise NotCaptured(
                f"this cluster has no {STREAMS_DELAY_MS}", hint="stop the application instead"
            )
        own = found.own.get(STREAMS_DELAY_MS)
        self._setting = None if own == self._delay_ms else own
        self._is_set = True  # perhaps, where no answer comes
        changed: ConfigChanged = yield ChangeConfig(STREAMS_DELAY_MS, self._delay_ms)
        if changed.error:
            raise NotCaptured(f"{STREAMS_DELAY_MS} of the group cannot be set: {changed.why}")

    def _find_topology(self, group: StreamsFacts) -> RecipeGenerator[None]:
        """Join, which succeeds with the application's own topology only, and disturbs no member."""
        for number, topology in enumerate(possible_topologies(group.topology)):
            joined: StreamsHeartbeatResult = yield self._join(topology)
            if not joined.error:
                self._topology = number
                return
            if joined.error != ErrorCode.INVALID_REQUEST:
                raise NotCaptured(f"the coordinator rejected a new member: {joined.why}")
        raise NotCaptured(
            "the application's topology cannot be told from its description: it has sources given "
            "as a pattern, or several joins in one subtopology; no member was evicted",
            hint="stop the application instead",
        )

    def _join(self, topology: Any) -> StreamsHeartbeat:
        text = write_note(replace(self.note, survives_s=self.survives_s), self.held)
        return StreamsHeartbeat(self._member_id, topology=topology, rack_id=text)

    def _evict_all(self) -> RecipeGenerator[None]:
        """Evict all members, also the sentinel, which then joins first: the delay begins."""
        group = yield from described()
        topologies = possible_topologies(group.topology)
        topology = next(islice(topologies, self._topology, None))
        evict = (LeaveStreams(one.member_id) for one in group.members)
        began = yield Sleep(0)
        *_, joined = yield SendBatch((*evict, self._join(topology)))
        self._began = (began, (yield Sleep(0)))
        if joined.error:
            raise BrokerRefused(f"joining the group again: {joined.why}")
        self._epoch = joined.epoch

    def _evict_around_the_end(self) -> RecipeGenerator[bool]:
        """
        Evict all others again and again until the delay is over, and begin a new one.

        Return whether one of them had a task.

        When it is over the coordinator assigns tasks to who is in the group then. Ours stays in it:
        its tasks tell that it is over, and it shows in every description that the application is
        paused. The others are evicted before their next heartbeat.
        """
        now = yield Sleep(0)
        now = yield Sleep(max(0.0, self._began[0] + self.survives_s - EVICT_BEFORE_S - now))
        is_over = was_read = False
        give_up_at = self._began[1] + self.survives_s + LATE_S
        while not is_over and now < give_up_at:
            group = yield from described()
            others = (one.member_id for one in group.members if one.member_id != self._member_id)
            yield SendBatch(tuple(map(LeaveStreams, others)))
            is_over = any(one.is_to_read for one in group.members)
            was_read |= is_read(group)
            now = yield Sleep(0)
        yield from self._evict_all()
        return was_read

    def _until_back(self, evicted: set[str]) -> RecipeGenerator[None]:
        """Wait until all that were evicted are back, and so know it, or must have ended."""
        expired_at = (yield Sleep(0)) + SESSION_TIMEOUT_S
        while True:
            group = yield from described()
            self._refuse_another(group)
            is_over = (yield Sleep(0)) > expired_at
            if not is_read(group):
                if is_over or evicted <= {one.member_id for one in group.members}:
                    return
            elif is_over:
                raise NotCaptured("the coordinator assigns tasks all the same", hint=AGAIN)
            yield Sleep(self.beat_every_s)
            with suppress(BrokerRefused):  # the setting may not have reached the coordinator
                yield from self.keep()

    def _come_back(self, group: StreamsFacts) -> RecipeGenerator[None]:
        """Join again, unless the application was resumed: its setting is gone then."""
        found = yield from delay_setting()
        is_own = found.own.get(STREAMS_DELAY_MS) == self._delay_ms
        if not is_own or self._others(group):
            self.held = frozenset()
            self._is_set = False  # the operator who resumed it, or holds it now, restores it
            raise HoldLost(
                "hold lost: its member is no longer in the group. Either the application was "
                "resumed, or another operator pauses it"
            )
        yield from self._evict_all()

    def _leave(self) -> RecipeGenerator[str]:
        """Restore the setting, and leave, in this order; return why it was not restored."""
        why = ""
        if self._is_set:
            changed: ConfigChanged = yield ChangeConfig(STREAMS_DELAY_MS, self._setting)
            why = f"{STREAMS_DELAY_MS} was not restored: {changed.why}" if changed.error else ""
        yield LeaveStreams(self._member_id)
        return why

    def _others(self, group: StreamsFacts) -> set[str]:
        """Return the ids of members of other holds."""
        return holders(group) - {self._member_id}

    def _refuse_another(self, group: StreamsFacts) -> None:
        """Raise NotCaptured if the application has another hold; of two, one gives up."""
        others = self._others(group)
        if others and (not self._member_id or min(others) < self._member_id):
            self._is_set = False  # the other has the same
            raise NotCaptured("the application is paused by another operator", hint=AGAIN)


def described() -> RecipeGenerator[StreamsFacts]:
    """Return the group; raises BrokerRefused where it, or its topology, is not known."""
    group: StreamsFacts = yield DescribeStreams()
    if group.error:
        raise BrokerRefused(f"the group cannot be described: {group.why}")
    if group.topology is None:
        raise BrokerRefused("the topology of the group is not initialised")
    return group


def delay_setting() -> RecipeGenerator[ConfigFound]:
    """Return the delay in force, if the cluster has it, and the group's own, if it is set."""
    found: ConfigFound = yield FetchGroupConfig((STREAMS_DELAY_MS,))
    if found.error:
        raise BrokerRefused(f"{STREAMS_DELAY_MS} of the group cannot be read: {found.why}")
    return found


def holders(group: StreamsFacts) -> set[str]:
    """Return the ids of offsetbook's members."""
    return {one.member_id for one in group.members if one.client_id == HOLDER_CLIENT_ID}


def is_read(group: StreamsFacts) -> bool:
    """Return whether a member of the application has a task."""
    return any(one.reads for one in group.members if one.client_id != HOLDER_CLIENT_ID)


def until_resumed(within_s: float) -> RecipeGenerator[str]:
    """Wait until the members have tasks, or there are none; return why that was not seen."""
    now = yield Sleep(0)
    give_up_at = now + within_s
    while now < give_up_at:
        group = yield from described()
        if not group.members or is_read(group):
            return ""
        now = yield Sleep(LOOK_EVERY_S)
    return "resumed, but its members have been assigned no tasks yet"
