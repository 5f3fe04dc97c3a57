"""Partitions of live KIP-848 groups are held on a real broker, and every delivery is logged."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest
from applications import PATIENCE_S, Applications, eventually
from consumer_processes.analysis import repeats
from consumer_processes.log import Delivery
from live_groups import COMMITS_SOON, together
from recipe_holds import MakeHold, RecipeHold

from toolkit.errors import HoldLost, NotCaptured
from toolkit.kafka_io.groups.hold_notes import read_note
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.consumer import DescribedConsumerMember
from toolkit.kafka_io.membership.group_config import ASSIGNMENT_INTERVAL_MS, FetchGroupConfig
from toolkit.kafka_io.membership.request import AnswerT, MemberRequest
from toolkit.live.consumer_hold import ConsumerHold
from toolkit.live.member_pool import MemberPool, leave
from toolkit.live.recipe_steps import RecipeChannel
from toolkit.model import HOLDER_CLIENT_ID, CaptureMode, HoldNote, TopicPartition

pytestmark = pytest.mark.live("consumers run")

KIND = "librdkafka-consumer"
MORE = 30  # records: three seconds


@pytest.fixture
def spare(apps: Applications) -> None:
    """Create a topic that nobody reads, of as many partitions as a quiet capture needs."""
    apps.create_topic(apps.name("spare"), partitions=12)


def owner_of(group: RecipeHold, place: TopicPartition) -> DescribedConsumerMember:
    (owner,) = (one for one in group.facts().members if place in one.assigned)
    return owner


def released_in_order(group: RecipeHold) -> list[Delivery]:
    """Release what is held and was not read since, with nothing missing, and nothing left set."""
    group.until_others_are_read(MORE)
    config = group.channel.ask(FetchGroupConfig((ASSIGNMENT_INTERVAL_MS,)))
    group.release(*group.hold.held)

    assert ({}, "1000") == (config.own, config.values[ASSIGNMENT_INTERVAL_MS])
    return group.check_deliveries()


def test_static_and_classic_members_in_one_group(held: MakeHold) -> None:
    """
    Members with instance ids, which are sorted first, and a classic one revoke partitions.

    Their group is on the range assignor, for which they ask, and stays on it.
    """
    group = held(KIND, static=True, **{"group.remote.assignor": "range"})
    group.live.applications.start("c", kind="librdkafka-cooperative-sticky")
    group.live.applications.until(lambda all_: "c" in {one.consumer for one in all_})

    captured = group.capture(*group.live.places_of(0, 5))
    group.until_others_are_read(MORE)
    facts = group.facts()
    group.release(*group.hold.held)

    assert {True, False} == {one.instance_id is not None for one in facts.members}
    assert ["range"] * 2 == [facts.assignor, group.facts().assignor]
    assert [] == repeats(group.check_resumed_in_place(), start=captured - 1)


def test_a_member_that_is_busy_with_a_record_does_not_stop_the_others(held: MakeHold) -> None:
    """It revokes nothing, whether owner or not, and is evicted: others get their partitions."""

    def is_so(owner: str) -> None:
        group = held(KIND, **COMMITS_SOON)
        group.hold = ConsumerHold(patience_s=5)
        owned = {one.client_id: one.assigned for one in group.facts().members}
        place = min(owned[owner])
        applications = group.live.applications

        with ThreadPoolExecutor() as pool:
            with applications.busy("b"):
                capturing = pool.submit(group.capture, place)
                eventually(lambda: capturing.done() or group.hold.held)
                if owner == "a":
                    capturing.result()
                    group.until_others_are_read()
                else:
                    applications.until_delivered(set(group.live.places) - {place})
            capturing.result()

        assert owned["b"] >= {one.place for one in repeats(released_in_order(group))}

    together(is_so, "ab")


def test_a_topic_that_was_created_again_is_not_held(held: MakeHold, apps: Applications) -> None:
    """Brokers do not report it, heartbeats succeed: the hold checks, and can capture it again."""
    group = held(KIND)
    (place,) = group.live.places_of(1)
    group.capture(place)
    apps.delete_topic(place.topic)
    apps.create_topic(place.topic, partitions=6)

    eventually(lambda: any(place in one.assigned for one in group.facts().members))
    with pytest.raises(HoldLost, match="the topic was deleted"):
        group.hold.capture(group.channel, frozenset({place}))
    assert (frozenset(), []) == (group.hold.held, group.holders())

    group.capture(place)
    eventually(lambda: [{place}] == [one.holds for one in group.holders()])
    group.hold.keep(group.channel)
    group.hold.release(group.channel, frozenset({place}))
    assert [] == group.holders()


def test_the_others_return_to_their_owners(held: MakeHold) -> None:
    """The assignor starts from readers without partitions, also if several are captured."""
    group = held(KIND)
    live = group.live
    group.capture(min(live.places))
    group.until_others_are_read()
    group.release(min(live.places))  # since then all have what is given to who has nothing
    group.until_stable()

    readers = {one.client_id: one.assigned for one in group.facts().members}
    places = {min(owned) for owned in readers.values()}
    with GroupChannel(live.cluster, live.group) as channel, ThreadPoolExecutor() as pool:
        looking = RecipeHold(live, channel)
        with live.applications.busy("b"):
            capturing = pool.submit(group.capture, *places)
            eventually(lambda: any(one.assigned & places for one in looking.holders()))
            other_at = time.time() + 1.5  # two assignments are a second apart
            eventually(lambda: time.time() > other_at)
        capturing.result()
    group.until_others_are_read()

    for one in group.facts().members:
        if one.client_id != HOLDER_CLIENT_ID:
            assert readers[one.client_id] - places == one.assigned
    group.release(*places)


def test_the_first_assignment_has_all_sentinels_of_a_capture(shared_hold: MakeHold) -> None:
    """An assignment with some of them would make the readers exchange partitions."""
    group = shared_hold(KIND)
    pool, places = MemberPool(group.channel), sorted(group.live.places)
    group.until_others_are_read(MORE)  # the last assignment was computed more than a second ago
    looks = [before := _meant_for_readers(group)]
    with ExitStack() as ending:
        ending.callback(pool.leave)
        members = pool.create_members(len(places), static=False)
        topics = [(place.topic,) for place in places]
        pool.join(members)
        pool.subscribe_at_once(list(zip(members, topics, strict=True)), assignor="range")

        def is_computed() -> bool:
            looks.append(_meant_for_readers(group))
            pool.heartbeat(members)
            return not any(looks[-1].values())

        eventually(is_computed)

    assert [before] * (len(looks) - 1) == looks[:-1]


def test_members_that_join_at_the_same_moment_move_no_partition(
    shared_hold: MakeHold,
) -> None:
    """A coordinator may compute an assignment as if no member subscribed."""
    group = shared_hold(KIND)
    before = _meant_for_readers(group)

    for _ in range(8):
        group.until_others_are_read(MORE // 2)  # an assignment is computed again only after 1 s
        with ExitStack() as ending:
            for pool in (MemberPool(group.channel), MemberPool(group.channel)):
                ending.callback(pool.leave)
                pool.join(pool.create_members(1, static=False))
                pool.bump_epoch()
            assert before == _meant_for_readers(group)

    group.until_stable()
    assert before == _meant_for_readers(group)


def _meant_for_readers(group: RecipeHold) -> dict[str, frozenset[TopicPartition]]:
    members = group.facts().members
    return {one.member_id: one.target for one in members if one.client_id != HOLDER_CLIENT_ID}


@pytest.mark.usefixtures("spare")
@pytest.mark.parametrize("prefer", [CaptureMode.QUIET, CaptureMode.FAST])
def test_only_records_of_an_evicted_owner_are_read_again(
    shared_hold: MakeHold, prefer: CaptureMode
) -> None:
    """Late deliveries end before the capture; no record is missing, and no setting is left."""
    group, began = shared_hold(KIND), time.time()
    (place,) = group.live.places_of(1)
    owner = owner_of(group, place)

    group.hold.prefer = prefer
    group.capture(place)

    log = released_in_order(group)
    assert owner.assigned >= {one.place for one in repeats(log, start=began)}


def test_a_fast_capture_that_comes_too_late(shared_hold: MakeHold) -> None:
    """Partitions that another reader got first are captured without an eviction."""
    group = shared_hold(KIND)
    (place,) = group.live.places_of(0)  # what a reader keeps longest when it has to share
    owner = owner_of(group, place)

    def is_given_out() -> bool:
        return any(place in one.assigned for one in group.facts().members)

    class SlowEviction(RecipeChannel):
        """Sends an eviction, and the rest of a batch when a reader has the partition."""

        sleep, now = group.channel.sleep, group.channel.now

        def ask_together(self, requests: Sequence[MemberRequest[AnswerT]]) -> tuple[AnswerT, ...]:
            if requests[0] != leave(owner.member_id):
                return group.channel.ask_together(requests)
            evicted = group.channel.ask_together(requests[:1])
            eventually(is_given_out)
            return (*evicted, *group.channel.ask_together(requests[1:]))

    group.hold.prefer = CaptureMode.FAST
    group.hold.capture(SlowEviction(), frozenset({place}))
    group.note_captured(place)

    assert {place} == group.hold.held
    released_in_order(group)


def test_partitions_resumed_by_another_operator_are_not_captured_again(
    shared_hold: MakeHold,
) -> None:
    """A hold of others is not broken; a resumed one is lost, and reports it."""
    group = shared_hold(KIND)
    first, lost = sorted(group.live.places_of(1, 4))
    group.capture(first, lost)
    with pytest.raises(NotCaptured, match="has already paused"):
        ConsumerHold().capture(group.channel, frozenset({first}))

    members = {entry["partition"]: entry["member_id"] for entry in group.hold.state()["holders"]}
    group.channel.ask(leave(members[4]))
    with pytest.raises(HoldLost, match=f"^{lost.topic}:4 is no longer held"):
        group.hold.keep(group.channel)

    assert {first} == group.hold.held
    group.until_delivered(lost, since=time.time())
    before = group.facts()
    group.hold.note = HoldNote(who="ann", reason="longer")
    group.hold.keep(group.channel)

    assert before.epoch == group.facts().epoch  # a note that changes moves no partitions
    assert ["longer"] == [read_note(one.rack_id).note.reason for one in group.holders()]
    group.release(first)


def test_a_keeper_that_takes_over_removes_sentinels_of_a_killed_capture(
    shared_hold: MakeHold,
) -> None:
    """They own partitions that nobody would read until their sessions expire."""
    group = shared_hold(KIND)
    group.capture(*group.live.places_of(1))
    killed = MemberPool(group.channel, note=HoldNote(run_id="run-7"))
    killed.join(killed.create_members(2, static=False))
    assert 3 == len(group.holders())

    group.hold = ConsumerHold.from_state(group.hold.state(), note=killed.note)
    group.hold.keep(group.channel)

    assert 1 == len(group.holders())
    group.release(*group.hold.held)


def test_of_two_captures_at_once_one_holds(shared_hold: MakeHold) -> None:
    """Two operators who pause a group at the same time do not get half of it each."""
    group = shared_hold(KIND)
    places = group.live.places_of(1, 4)
    holds = [ConsumerHold(patience_s=PATIENCE_S) for _ in range(2)]

    def capture(hold: ConsumerHold) -> bool:
        with GroupChannel(group.live.cluster, group.live.group) as channel:
            try:
                hold.capture(channel, places)
            except NotCaptured:
                return False
            return True

    with ThreadPoolExecutor() as pool:
        assert [False, True] == sorted(pool.map(capture, holds))

    assert sorted([frozenset(), places]) == sorted(hold.held for hold in holds)
    group.hold = next(hold for hold in holds if hold.held)
    group.until_others_are_read()
    group.release(*places)
