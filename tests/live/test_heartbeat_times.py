"""When the owners of partitions send their next heartbeats, as group descriptions tell."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from applications import eventually
from recipe_holds import MakeHold
from recipe_runs import ScriptedChannel, consumer_member, orders

from toolkit.kafka_io.groups.hold_notes import read_note, write_note
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.consumer import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerFacts,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    DescribeConsumer,
    DescribedConsumerMember,
)
from toolkit.kafka_io.membership.group_config import ChangeConfig
from toolkit.live.consumer_hold import ConsumerHold
from toolkit.live.group_view import give_way, refuse_what_is_announced
from toolkit.live.heartbeat_times import LOOK_EVERY_S, first_of_next, next_heartbeats
from toolkit.live.member_pool import MemberPool
from toolkit.live.recipe_steps import RecipeChannel
from toolkit.live.rival_captures import AnotherAnnounced, AnotherCapture
from toolkit.model import HOLDER_CLIENT_ID, HoldNote, TopicPartition

INTERVAL_S = 5.0
ROOM_S = 2.0
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Group(ScriptedChannel):
    """A coordinator, and members that send their heartbeats at times of their own."""

    first_heartbeats: dict[str, float] = field(default_factory=dict)
    bumped_at: float = 0

    def answer(self, request: Any) -> Any:
        match request:
            case ConsumerHeartbeat(epoch=epoch):
                if epoch == LEAVE_EPOCH:
                    self.bumped_at = self.clock
                return ConsumerHeartbeatResult(0, epoch=7, interval_ms=int(INTERVAL_S * 1000))
            case DescribeConsumer():
                members = tuple(map(self._member, self.first_heartbeats))
                return ConsumerFacts(0, "", "Stable", 8, "uniform", members)
        raise AssertionError(request)

    def _member(self, name: str) -> DescribedConsumerMember:
        has_heard = self.clock >= self.bumped_at + self.first_heartbeats[name]
        return consumer_member(name, epoch=7 + has_heard)


def bumping_pool(group: RecipeChannel) -> MemberPool:
    """Return a pool that has just bumped the epoch of a group."""
    pool = MemberPool(group)
    pool.bump_epoch()
    return pool


@pytest.mark.parametrize(
    ("owners", "first"),
    [
        ({"early"}, 0.6 + INTERVAL_S),
        ({"late"}, 4.7 + INTERVAL_S),
        # 0.9 s lie between the late one and the next of the early one, and 4.1 s the other way.
        ({"early", "late"}, 4.7 + INTERVAL_S),
        ({"early", "middle"}, 0.6 + INTERVAL_S),
    ],
)
def test_the_next_heartbeats_follow_after_an_interval(owners: set[str], first: float) -> None:
    """The time is before the first of them, by no more than the time between two samples."""
    group = Group(first_heartbeats={"early": 0.6, "middle": 3.1, "late": 4.7})
    pool = bumping_pool(group)

    told = next_heartbeats(owners, pool, INTERVAL_S, room_s=ROOM_S)

    assert first - LOOK_EVERY_S <= told <= first
    assert told >= group.clock + ROOM_S
    assert {} == pool.members


def test_the_member_that_bumps_the_epoch_leaves_at_once() -> None:
    """It subscribes to nothing, so no assignment changes."""
    group = Group(first_heartbeats={"a": 1.0})

    bumping_pool(group)
    beats = [one for one in group.requests if isinstance(one, ConsumerHeartbeat)]

    assert [(JOIN_EPOCH, ()), (LEAVE_EPOCH, None)] == [(one.epoch, one.topics) for one in beats]


def test_a_member_without_a_heartbeat_is_not_waited_for() -> None:
    """It may have left; then the capture starts at any time."""
    group = Group(first_heartbeats={"a": 1.0, "silent": 60.0})

    told = next_heartbeats({"a", "silent"}, bumping_pool(group), INTERVAL_S, room_s=ROOM_S)

    assert told == group.clock < 2 * INTERVAL_S


@pytest.mark.live("consumers run")
def test_no_consumer_sends_a_heartbeat_before_the_predicted_time(
    shared_hold: MakeHold,
) -> None:
    """On a real broker, with the default interval of Kafka."""
    group = shared_hold("librdkafka-consumer")
    group.channel.ask(ChangeConfig("consumer.heartbeat.interval.ms", "5000"))
    pool, owner = MemberPool(group.channel), group.facts().members[0].member_id
    with ExitStack() as ending:
        ending.callback(pool.leave)
        pool.join(pool.create_members(1, static=False))
        pool.bump_epoch()

        told = next_heartbeats({owner}, pool, INTERVAL_S, room_s=ROOM_S)
        assert ROOM_S <= told - group.channel.now() <= INTERVAL_S
        pool.bump_epoch()
        eventually(lambda: has_heard(owner, group.facts()))
        assert group.channel.now() >= told


@pytest.mark.live("consumers run")
def test_an_announced_partition_is_refused_at_once(shared_hold: MakeHold) -> None:
    """The second operator learns who is just pausing a partition, and since when."""
    group = shared_hold("librdkafka-consumer")
    group.channel.ask(ChangeConfig("consumer.heartbeat.interval.ms", "5000"))
    (place,) = group.live.places_of(1)
    group.hold.note = HoldNote(who="ann", host="desk", since=datetime(2026, 1, 2, tzinfo=UTC))

    why = f"^ann @ desk since 2026-01-02 00:00:00 UTC is just pausing {place.topic}:1\\. Try"
    second = GroupChannel(group.live.cluster, group.live.group)
    with second as channel, ThreadPoolExecutor() as pool:
        first = pool.submit(group.capture, place)
        eventually(lambda: any(announced(channel.ask(DescribeConsumer()))))
        with pytest.raises(AnotherAnnounced, match=why):
            ConsumerHold().capture(channel, frozenset({place}))
        assert frozenset() == group.hold.held
        first.result()

    assert frozenset({place}) == group.hold.held
    assert [()] == announced(group.facts())
    group.release(place)


@pytest.mark.parametrize(("below", "goes_on"), [("!1", True), ("!2", True), ("!3", False)])
def test_of_two_that_announce_the_one_with_the_lower_id_goes_on(
    below: str, *, goes_on: bool
) -> None:
    """Each sees the other, so exactly one goes on."""
    note = write_note(HoldNote(who="ann"), orders(1, 2))
    rival = consumer_member("!2", client_id=HOLDER_CLIENT_ID, rack_id=note, topics=frozenset())
    facts = ConsumerFacts(0, "", "Stable", 8, "range", (rival,))
    refused = nullcontext() if goes_on else pytest.raises(AnotherAnnounced)

    with refused:
        refuse_what_is_announced(facts, orders(2, 3), (), below=below)
    refuse_what_is_announced(facts, orders(3), (), below=below)
    refuse_what_is_announced(facts, orders(2), ("!2",), below=below)


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (HoldNote("ann", "desk", SINCE), "ann @ desk since .* is just pausing orders:1"),
        (HoldNote(), "another hold of the group is being captured"),
    ],
)
def test_a_capture_that_gives_way_names_the_other(note: HoldNote, words: str) -> None:
    """As far as the other capture has announced itself."""
    rack = write_note(note, orders(1)) if note.who else None
    rival = consumer_member("!2", client_id=HOLDER_CLIENT_ID, rack_id=rack)
    with pytest.raises(AnotherCapture, match=words):
        give_way(ConsumerFacts(0, "", "Stable", 8, "range", (rival,)), ())


@pytest.mark.parametrize(("count", "is_shown"), [(2_000, True), (10_000, False)])
def test_a_note_that_is_too_long_is_not_announced(count: int, *, is_shown: bool) -> None:
    """The capture continues without; a request that cannot be encoded would end it."""
    group = Group()
    pool = MemberPool(group)
    (member,) = pool.create_members(1, static=False)

    pool.announce(member, orders(*range(count)))

    shown = [read_note(one.rack_id).paused for one in group.requests]
    assert shown == ([tuple(sorted(orders(*range(count))))] if is_shown else [])


def announced(group: ConsumerFacts) -> list[tuple[TopicPartition, ...]]:
    holders = [one for one in group.members if one.client_id == HOLDER_CLIENT_ID]
    return [read_note(one.rack_id).paused for one in holders]


def has_heard(member_id: str, group: ConsumerFacts) -> bool:
    return any(one.epoch == group.epoch for one in group.members if one.member_id == member_id)


def test_heartbeats_that_are_too_near_are_skipped() -> None:
    """Until a capture can start before the next ones."""
    assert 12.5 == first_of_next([9.0], 0.5, 12.1)
    assert 18.0 == first_of_next([8.0, 8.5, 9.0], 5.0, 13.1)
