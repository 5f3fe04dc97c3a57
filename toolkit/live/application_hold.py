"""
Hold all partitions of a Kafka Streams application on the Streams protocol (KIP-1071).

Its coordinator assigns tasks, and single tasks cannot be withheld. But when the first member joins
an empty group, the coordinator waits for the group's `streams.initial.rebalance.delay.ms` before it
assigns any. So all members are evicted at once, and a sentinel joins first: the others rejoin and
get no task. Around the end of the delay they are evicted again and the next delay begins, for as
long as the hold lasts. A delay cannot be cut short, so it must be brief.

Measured with Kafka 4.3.1 (25 times in a row, three instances, load 6 on two processors): no member
was assigned a task, and no thread ended. When the end of the delay was taken from the clock, a
thread was once assigned tasks, and ended when it was evicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Self
from uuid import uuid4

from toolkit.errors import Blocked, BrokerRefused, HoldLost, NotCaptured, ToolkitError
from toolkit.kafka_io.client.error_codes import MEMBER_GONE, ErrorCode
from toolkit.kafka_io.groups.hold_notes import write_note
from toolkit.kafka_io.membership.consumer import LEAVE_EPOCH
from toolkit.kafka_io.membership.group_config import (
    STREAMS_DELAY_MS,
    ChangeConfig,
    ConfigFound,
    FetchGroupConfig,
)
from toolkit.kafka_io.membership.streams import (
    DescribeStreams,
    StreamsFacts,
    StreamsHeartbeat,
    StreamsHeartbeatResult,
    possible_topologies,
)
from toolkit.live.recipe_steps import AGAIN, RecipeChannel, may_stay
from toolkit.model import HOLDER_CLIENT_ID, HoldNote, TopicPartition
from toolkit.model.groups import SESSION_TIMEOUT_S
from toolkit.planning.holds.recipes import APPLICATION_DELAY

DELAY_S = APPLICATION_DELAY.total_seconds()
BEGIN_AGAIN_S = 2.0  # so long before its end the next delay is prepared
EVICT_BEFORE_S = 0.2  # the end of the delay is known to some milliseconds
LATE_S = 10.0  # a busy coordinator ends it up to so much later
READ = (
    "the coordinator assigned tasks during the pause, as it does when it has moved to another "
    "broker, or when the keeper was stopped; all members were evicted again"
)

LOST = (
    "hold lost: its member is no longer in the group. Either the application was resumed, or "
    "another operator pauses it, or the keeper missed its session timeout"
)
WENT_ON = (
    "hold lost: the keeper missed its session timeout, so the application may have gone on. It was "
    "not paused again"
)
LOST_AFTER_S = SESSION_TIMEOUT_S  # without a heartbeat
TOLD_WITHIN_S = 10.0  # after the delay members learn their tasks
LOOK_EVERY_S = 0.5


class ApplicationHold:
    """
    The partitions of all tasks of an application, which are assigned to no member.

    Without its keeper the hold ends with the delay, after `delay_s` at most.
    """

    beat_every_s = 1.0

    def __init__(self, *, note: HoldNote, delay_s: float = DELAY_S) -> None:
        self.note = note
        self.survives_s = delay_s
        self.held: frozenset[TopicPartition] = frozenset()
        self._member_id = ""
        self._epoch = 0
        self._topology = 0  # index in `possible_topologies`
        self._is_set = False  # whether the group's setting has to be restored
        self._setting: str | None = None  # the group's own value before, if any
        # When the delay began, at the earliest and the latest, by the channel's clock.
        self._began = (0.0, 0.0)
        self._kept_at = math.inf  # time of the last `keep`; inf before it

    def capture(self, channel: RecipeChannel, partitions: frozenset[TopicPartition]) -> None:
        """Hold these partitions; returns when no member has a task any more."""
        if self.held:
            raise NotCaptured("the whole application is paused already")
        group = described(channel)
        self._refuse_another(group)
        self._member_id, self.held, self._kept_at = str(uuid4()), partitions, math.inf
        evicted = {one.member_id for one in group.members}
        try:
            self._set_delay(channel)
            self._find_topology(channel, group)
            self._refuse_another(described(channel))
            self._evict_all(channel)
            self._until_back(channel, evicted)
        except BaseException as exc:
            self.held = frozenset()
            problems = [self._restore(channel)]
            try:
                self._leave(channel)
            except ToolkitError:
                problems.append(may_stay(1))
            if any(problems) and isinstance(exc, ToolkitError):
                words = "; ".join(filter(None, [exc.problem, *problems]))
                raise NotCaptured(words, hint=exc.hint) from exc
            raise

    def keep(self, channel: RecipeChannel) -> None:
        """
        Stay in the group, and evict all members again around the end of the delay.

        Raises BrokerRefused if a member had tasks, after evicting it, or HoldLost if it may have
        had them for long.
        """
        group = described(channel)
        was_read = is_read(group)
        if self._member_id not in {one.member_id for one in group.members}:
            self._come_back(channel, group)
        elif was_read:
            self._evict_all(channel)
        elif channel.now() >= self._began[0] + self.survives_s - BEGIN_AGAIN_S:
            was_read = self._evict_around_the_end(channel)
        else:
            self._beat(channel, group)
        self._kept_at = channel.now()
        if was_read:
            raise BrokerRefused(READ)

    def _beat(self, channel: RecipeChannel, group: StreamsFacts) -> None:
        beat = channel.ask(StreamsHeartbeat(self._member_id, self._epoch))
        if beat.error in MEMBER_GONE:
            self._come_back(channel, group)
        elif beat.error:
            raise BrokerRefused(f"the coordinator rejected the heartbeat of a hold: {beat.why}")
        else:
            self._epoch = beat.epoch

    def release(self, channel: RecipeChannel, some: frozenset[TopicPartition]) -> None:
        """Resume the application; returns when it has its tasks, after the delay."""
        if self.held - some:
            raise Blocked(
                "nothing was resumed: the tasks of a Streams application are paused together",
                hint="resume all its partitions",
            )
        if self._others(channel.ask(DescribeStreams())):
            self._is_set = False  # the operator who holds it now restores it
        left = self._leave(channel)
        if left.error and left.error not in MEMBER_GONE:
            raise BrokerRefused(f"releasing the hold: {left.why}")
        # Not earlier: a hold whose member could not leave goes on, and needs its delay.
        self.held = frozenset()
        if not_restored := self._restore(channel):
            raise BrokerRefused(not_restored)
        if left.error:
            raise HoldLost(LOST)
        left_s = self._began[1] + self.survives_s - channel.now()
        if why := until_resumed(channel, left_s + TOLD_WITHIN_S):
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

    def _set_delay(self, channel: RecipeChannel) -> None:
        found = delay_setting(channel)
        if STREAMS_DELAY_MS not in found.values:
            raise NotCaptured(
                f"this cluster has no {STREAMS_DELAY_MS}", hint="stop the application instead"
            )
        own = found.own.get(STREAMS_DELAY_MS)
        self._setting = None if own == self._delay_ms else own
        self._is_set = True  # it may be, if no response arrives
        changed = channel.ask(ChangeConfig(STREAMS_DELAY_MS, self._delay_ms))
        if changed.error:
            raise NotCaptured(f"{STREAMS_DELAY_MS} of the group cannot be set: {changed.why}")

    def _find_topology(self, channel: RecipeChannel, group: StreamsFacts) -> None:
        """Join with each possible topology; only the application's own is accepted."""
        for number, topology in enumerate(possible_topologies(group.topology)):
            joined = channel.ask(self._join(topology))
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
        note = replace(self.note, survives_s=self.survives_s, own_delay=self._setting or "")
        text = write_note(note, self.held)
        return StreamsHeartbeat(self._member_id, topology=topology, rack_id=text)

    def _evict_all(self, channel: RecipeChannel) -> None:
        """Evict all members and the sentinel, which rejoins first: the delay begins."""
        group = described(channel)
        self._check_late(channel, group)
        topologies = possible_topologies(group.topology)
        topology = next(islice(topologies, self._topology, None))
        leaving = [StreamsHeartbeat(one.member_id, LEAVE_EPOCH) for one in group.members]
        began = channel.now()
        *_, joined = channel.ask_together([*leaving, self._join(topology)])
        self._began = (began, channel.now())
        if joined.error:
            raise BrokerRefused(f"joining the group again: {joined.why}")
        self._epoch = joined.epoch

    def _evict_around_the_end(self, channel: RecipeChannel) -> bool:
        """
        Evict all others again and again until the delay is over, and begin a new one.

        Return whether one of them had a task.

        When the delay ends, the coordinator assigns tasks to the members of the group. Our member
        stays: its tasks show that the delay has ended, and every description shows that the
        application is paused. The others are evicted before their next heartbeat.
        """
        now = channel.now()
        now = channel.sleep(max(0.0, self._began[0] + self.survives_s - EVICT_BEFORE_S - now))
        is_over = was_read = False
        give_up_at = self._began[1] + self.survives_s + LATE_S
        while not is_over and now < give_up_at:
            group = described(channel)
            self._check_late(channel, group)
            others = (one.member_id for one in group.members if one.member_id != self._member_id)
            channel.ask_together([StreamsHeartbeat(one, LEAVE_EPOCH) for one in others])
            is_over = any(one.is_to_read for one in group.members)
            was_read |= is_read(group)
            now = channel.now()
        self._evict_all(channel)
        return was_read

    def _until_back(self, channel: RecipeChannel, evicted: set[str]) -> None:
        """Wait until all evicted members have rejoined, or must have ended."""
        expired_at = channel.now() + SESSION_TIMEOUT_S
        while True:
            group = described(channel)
            self._refuse_another(group)
            is_over = channel.now() > expired_at
            if not is_read(group):
                if is_over or evicted <= {one.member_id for one in group.members}:
                    return
            elif is_over:
                raise NotCaptured("the coordinator assigns tasks all the same", hint=AGAIN)
            channel.sleep(self.beat_every_s)
            with suppress(BrokerRefused):  # the setting may not have arrived at the coordinator
                self.keep(channel)

    def _check_late(self, channel: RecipeChannel, group: StreamsFacts) -> None:
        """
        Raise HoldLost, and evict no member, if the application may have run for long.

        If the keeper notices within a session timeout, it pauses the application again.
        """
        is_there = self._member_id in {one.member_id for one in group.members}
        is_late = channel.now() - self._kept_at > LOST_AFTER_S
        if not is_late or (is_there and not is_read(group)):
            return
        self._check_resumed(channel, group)
        not_restored = self._restore(channel)
        self._leave(channel)
        self.held = frozenset()
        raise HoldLost("; ".join(filter(None, [WENT_ON, not_restored])))

    def _check_resumed(self, channel: RecipeChannel, group: StreamsFacts) -> None:
        """Raise HoldLost if the application was resumed: then its setting has changed."""
        found = delay_setting(channel)
        is_own = found.own.get(STREAMS_DELAY_MS) == self._delay_ms
        if not is_own or self._others(group):
            self.held = frozenset()
            self._is_set = False  # the operator who resumed it, or holds it now, restores it
            raise HoldLost(LOST)

    def _come_back(self, channel: RecipeChannel, group: StreamsFacts) -> None:
        """Rejoin, unless the application was resumed."""
        self._check_resumed(channel, group)
        self._evict_all(channel)

    def _restore(self, channel: RecipeChannel) -> str:
        """Restore the setting of the group; return why that failed, "" if it did not."""
        if not self._is_set:
            return ""
        try:
            why = channel.ask(ChangeConfig(STREAMS_DELAY_MS, self._setting)).why
        except ToolkitError as exc:
            why = exc.problem
        return f"{STREAMS_DELAY_MS} was not restored: {why}" if why else ""

    def _leave(self, channel: RecipeChannel) -> StreamsHeartbeatResult:
        return channel.ask(StreamsHeartbeat(self._member_id, LEAVE_EPOCH))

    def _others(self, group: StreamsFacts) -> set[str]:
        """Return the ids of members of other holds."""
        return holders(group) - {self._member_id}

    def _refuse_another(self, group: StreamsFacts) -> None:
        """Raise NotCaptured if the application has another hold; one of two gives up."""
        others = self._others(group)
        if others and (not self._member_id or min(others) < self._member_id):
            self._is_set = False  # the other has the same
            raise NotCaptured("the application is paused by another operator", hint=AGAIN)


def described(channel: RecipeChannel) -> StreamsFacts:
    """Return the group; raises BrokerRefused if it, or its topology, is unknown."""
    group = channel.ask(DescribeStreams())
    if group.error:
        raise BrokerRefused(f"the group cannot be described: {group.why}")
    if group.topology is None:
        raise BrokerRefused("the topology of the group is not initialised")
    return group


def delay_setting(channel: RecipeChannel) -> ConfigFound:
    """Return the effective delay, if the cluster has that setting, and the group's own, if set."""
    found = channel.ask(FetchGroupConfig((STREAMS_DELAY_MS,)))
    if found.error:
        raise BrokerRefused(f"{STREAMS_DELAY_MS} of the group cannot be read: {found.why}")
    return found


def holders(group: StreamsFacts) -> set[str]:
    """Return the ids of offsetbook's members."""
    return {one.member_id for one in group.members if one.client_id == HOLDER_CLIENT_ID}


def is_read(group: StreamsFacts) -> bool:
    """Return whether a member of the application has a task."""
    return any(one.reads for one in group.members if one.client_id != HOLDER_CLIENT_ID)


def until_resumed(channel: RecipeChannel, within_s: float) -> str:
    """Wait until members have tasks, or there are none; return why not, "" if so."""
    now = channel.now()
    give_up_at = now + within_s
    while now < give_up_at:
        group = described(channel)
        if not group.members or is_read(group):
            return ""
        now = channel.sleep(LOOK_EVERY_S)
    return "resumed, but its members have been assigned no tasks yet"
