"""Partitions of live KIP-848 groups are held on a real broker, and every delivery is logged."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from applications import PATIENCE_S, Applications, eventually
from consumer_processes.analysis import delivered_during, repeats, two_at_once
from consumer_processes.log import Delivery
from live_groups import COMMITS_SOON, together
from recipe_holds import RecipeHold, assert_resumed_in_place

from toolkit.errors import HoldLost, Interrupted, NotCaptured
from toolkit.kafka_io.groups.hold_notes import read_note
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.group_config import ASSIGNMENT_INTERVAL_MS, FetchGroupConfig
from toolkit.kafka_io.membership.request import MemberRequest
from toolkit.live.consumer_hold import ConsumerHold
from toolkit.live.member_pool import leave
from toolkit.live.recipe_steps import run_recipe
from toolkit.model import HOLDER_CLIENT_ID, CaptureMode, HoldNote, TopicPartition

pytestmark = pytest.mark.live("consumers run")

KIND = "librdkafka-consumer"
MORE = 30  # records: three seconds


@pytest.fixture
def spare(apps: Applications) -> None:
    """Create a topic that nobody reads, of as many partitions as a quiet capture needs."""
    apps.create_topic(apps.name("spare"), partitions=12)


def released_in_order(group: RecipeHold, wanted: TopicPartition, *, since: float) -> list[Delivery]:
    """Release a partition that nobody read `since`, with nothing missing, and nothing left set."""
    group.until_delivered(*group.others(wanted), since=since, records=MORE)
    config = group.channel.ask(FetchGroupConfig((ASSIGNMENT_INTERVAL_MS,)))
    released = group.release(wanted)

    group.live.applications.until_nothing_is_missing(group.live.places)
    log = group.live.applications.deliveries()
    assert [] == delivered_during(log, [wanted], since, released)
    assert ({}, "1000") == (config.own, config.values[ASSIGNMENT_INTERVAL_MS])
    return log


def test_members_come_and_go_while_partitions_are_held(held: Callable[..., RecipeHold]) -> None:
    """Nothing of them is delivered, all the others are, nothing twice, and it goes on in place."""
    group = held(KIND)
    wanted = sorted(group.live.places_of(1, 4))
    others = group.others(*wanted)
    group.hold.note = HoldNote(who="ann", reason="repair")

    captured = group.capture(*wanted)
    assert len(wanted) == len(group.holders())
    group.until_delivered(*others, since=captured, records=MORE)
    group.live.applications.start("c")
    # The broker may give it nothing but what is held.
    group.until(lambda _: "c" in {member.client_id for member in group.facts().members})
    group.until_delivered(*others, since=time.time())
    group.live.applications.stop("c")
    group.until_delivered(*others, since=time.time())
    killed = time.time()
    (gone,) = (one.member_id for one in group.facts().members if one.client_id == "b")
    group.live.applications.kill("b")
    group.channel.ask(leave(gone))  # its session would last for 45 s
    group.until_delivered(*others, since=time.time())
    facts = group.facts()
    released = group.release(*wanted)

    group.live.applications.until_nothing_is_missing(group.live.places)
    log = group.live.applications.deliveries()
    assert [] == delivered_during(log, wanted, captured, released)
    assert [] == repeats(log, end=killed)  # what was killed had not committed everything
    assert [] == two_at_once(log)
    for place in wanted:
        assert_resumed_in_place(log, place, released)
    assert "uniform" == facts.assignor
    notes = [
        read_note(one.rack_id).note for one in facts.members if one.client_id == HOLDER_CLIENT_ID
    ]
    assert [HoldNote(who="ann", reason="repair", survives_s=45.0)] * 2 == notes


def test_more_is_captured_some_is_released_and_another_process_takes_over(
    held: Callable[..., RecipeHold],
) -> None:
    """Members subscribe by a pattern; each partition of two topics is held and given back alone."""
    group = held(KIND, topics=2, by_pattern=True)
    one, two = sorted(group.live.places_of(1, 2))
    (three,) = group.live.places_of(4, topic=1)
    first = group.capture(one)
    second = group.capture(two, three)
    group.until_delivered(*group.others(one, two, three), since=second)
    released = group.release(two)

    with GroupChannel(group.live.cluster, group.live.group) as channel:
        other = RecipeHold(group.live, channel)
        other.hold = ConsumerHold.from_state(group.hold.state())
        other.until_delivered(*group.others(one, three), since=time.time(), records=MORE)
        end = other.release(one, three)

    log = group.live.applications.deliveries()
    assert [] == delivered_during(log, [one], first, end)
    assert [] == delivered_during(log, [two], second, released)
    assert [] == delivered_during(log, [three], second, end)
    assert [] == repeats(log)
    for place, since in ((one, end), (two, released), (three, end)):
        assert_resumed_in_place(log, place, since)


def test_static_and_classic_members_in_one_group(held: Callable[..., RecipeHold]) -> None:
    """Members with instance ids, which are sorted first, and a classic one hand partitions over."""
    group = held(KIND, static=True)
    group.live.applications.start("c", kind="librdkafka-cooperative-sticky")
    group.live.applications.until(lambda all_: "c" in {one.consumer for one in all_})
    wanted = sorted(group.live.places_of(0, 5))

    captured = group.capture(*wanted)
    group.until_delivered(*group.others(*wanted), since=captured, records=MORE)
    static = {m.instance_id is not None for m in group.facts().members}
    released = group.release(*wanted)

    assert {True, False} == static
    log = group.live.applications.deliveries()
    assert [] == delivered_during(log, wanted, captured, released)
    assert [] == repeats(log, start=captured - 1)
    for place in wanted:
        assert_resumed_in_place(log, place, released)


def test_a_group_of_the_range_assignor_keeps_it(held: Callable[..., RecipeHold]) -> None:
    """A group whose members ask for range is held, and is on range afterwards."""
    group = held(KIND, **{"group.remote.assignor": "range"})
    (wanted,) = group.live.places_of(3)

    captured = group.capture(wanted)
    group.until_delivered(*group.others(wanted), since=captured)
    assert "range" == group.facts().assignor
    released = group.release(wanted)

    log = group.live.applications.deliveries()
    assert [] == delivered_during(log, [wanted], captured, released)
    assert "range" == group.facts().assignor


def test_a_member_that_is_busy_with_a_record_does_not_stop_the_others(
    held: Callable[..., RecipeHold],
) -> None:
    """It lets nothing go, be it the owner or not, and is evicted: others get what they wait for."""

    def is_so(owner: str) -> None:
        group = held(KIND, **COMMITS_SOON)
        group.hold = ConsumerHold(patience_s=5)
        owned = {one.client_id: one.assigned for one in group.facts().members}
        wanted = min(owned[owner])
        applications = group.live.applications

        with ThreadPoolExecutor() as pool:
            with applications.busy("b"):
                capturing = pool.submit(group.capture, wanted)
                eventually(lambda: capturing.done() or group.hold.held)
                if owner == "a":
                    group.until_delivered(*group.others(wanted), since=capturing.result())
                else:
                    applications.until_delivered(group.others(wanted))
            captured = capturing.result()
        log = released_in_order(group, wanted, since=captured)

        assert owned["b"] >= {one.place for one in repeats(log)}

    together(is_so, "ab")


@pytest.mark.usefixtures("spare")
@pytest.mark.parametrize("prefer", [CaptureMode.QUIET, CaptureMode.FAST])
def test_an_owner_that_is_evicted_repeats_only_its_own(
    shared_hold: Callable[[str], RecipeHold], prefer: CaptureMode
) -> None:
    """Late deliveries end before the capture does; nothing is left out, nor set."""
    group, began = shared_hold(KIND), time.time()
    (wanted,) = group.live.places_of(1)
    (owner,) = (one for one in group.facts().members if wanted in one.assigned)

    group.hold.prefer = prefer
    captured = group.capture(wanted)
    log = released_in_order(group, wanted, since=captured)
    assert owner.assigned >= {one.place for one in repeats(log, start=began)}


def test_a_fast_capture_that_comes_too_late(shared_hold: Callable[[str], RecipeHold]) -> None:
    """What another reader got before members of ours did is captured without an eviction."""
    group = shared_hold(KIND)
    (wanted,) = group.live.places_of(0)  # what a reader keeps longest when it has to share
    (owner,) = (one for one in group.facts().members if wanted in one.assigned)

    def is_given_out() -> bool:
        return any(wanted in one.assigned for one in group.facts().members)

    class SlowEviction:
        """Sends an eviction, and the rest of a batch when a reader has the partition."""

        send_ahead, wait_for = group.channel.send_ahead, group.channel.wait_for
        is_answered = group.channel.is_answered

        def ask_together(self, requests: tuple[MemberRequest, ...]) -> tuple[Any, ...]:
            """Return the answers to requests."""
            if requests[0] != leave(owner.member_id):
                return group.channel.ask_together(requests)
            evicted = group.channel.ask_together(requests[:1])
            eventually(is_given_out)
            return (*evicted, *group.channel.ask_together(requests[1:]))

    group.hold.prefer = CaptureMode.FAST
    run_recipe(group.hold.capture(frozenset({wanted})), SlowEviction())

    assert {wanted} == group.hold.held
    released_in_order(group, wanted, since=time.time())


def test_what_somebody_else_resumed_is_not_captured_again(
    shared_hold: Callable[[str], RecipeHold],
) -> None:
    """A hold of others is not broken into; one that was resumed is lost, and says so."""
    group = shared_hold(KIND)
    wanted = sorted(group.live.places_of(1, 4))
    group.capture(*wanted)
    with pytest.raises(NotCaptured, match="is already held"):
        run_recipe(ConsumerHold().capture(frozenset(wanted[:1])), group.channel)

    members = {entry["partition"]: entry["member_id"] for entry in group.hold.state()["holders"]}
    group.channel.ask(leave(members[4]))
    with pytest.raises(HoldLost, match=f"^{wanted[1].topic}-4 is no longer held"):
        run_recipe(group.hold.keep(), group.channel)

    assert {wanted[0]} == group.hold.held
    group.until_delivered(wanted[1], since=time.time())
    before = group.facts()
    group.hold.note = HoldNote(who="ann", reason="longer")
    run_recipe(group.hold.keep(), group.channel)
    after = group.facts()

    assert before.epoch == after.epoch  # a note that changes has nobody change partitions
    assert ["longer"] == [
        read_note(one.rack_id).note.reason
        for one in after.members
        if one.client_id == HOLDER_CLIENT_ID
    ]
    group.release(wanted[0])


def test_of_two_captures_at_once_one_holds(shared_hold: Callable[[str], RecipeHold]) -> None:
    """Two people who pause the same group at the same time do not get half of it each."""
    group = shared_hold(KIND)
    wanted = group.live.places_of(1, 4)
    holds = [ConsumerHold(patience_s=PATIENCE_S) for _ in range(2)]
    refused: list[str] = []

    def capture(hold: ConsumerHold) -> None:
        with GroupChannel(group.live.cluster, group.live.group) as channel:
            try:
                run_recipe(hold.capture(wanted), channel)
            except NotCaptured as exc:
                refused.append(str(exc))

    both = [threading.Thread(target=capture, args=(hold,)) for hold in holds]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()

    assert 1 == len(refused)
    assert sorted([frozenset(), wanted]) == sorted(hold.held for hold in holds)
    group.hold = next(hold for hold in holds if hold.held)
    group.until_delivered(*group.others(*wanted), since=time.time())
    group.release(*wanted)


@pytest.mark.usefixtures("spare")
@pytest.mark.parametrize("prefer", CaptureMode)
def test_a_capture_that_is_interrupted_leaves_the_group_as_it_was(
    shared_hold: Callable[[str], RecipeHold], prefer: CaptureMode
) -> None:
    """While members of ours are in the group, Ctrl-C has them leave, and everything is read."""
    group, began = shared_hold(KIND), time.time()

    def check() -> None:
        ours = group.holders()
        # In the fast way they subscribe in the same go in which the owners are evicted.
        if ours and (prefer is CaptureMode.FAST or any(one.topics for one in ours)):
            raise Interrupted("stop")

    with pytest.raises(Interrupted):
        run_recipe(
            ConsumerHold(prefer, patience_s=PATIENCE_S).capture(group.live.places_of(1, 4)),
            group.channel,
            check=check,
        )

    assert [] == group.holders()
    group.live.until_at_rest()
    assert [] == repeats(group.live.applications.deliveries(), start=began)
    # A broker shows a setting that was removed a moment longer than the controller has it.
    eventually(lambda: not group.channel.ask(FetchGroupConfig((ASSIGNMENT_INTERVAL_MS,))).own)


def test_a_fast_capture_that_is_interrupted_after_the_eviction(
    shared_hold: Callable[[str], RecipeHold],
) -> None:
    """The evicted owner comes back, no record is lost, and no setting of the group is left."""
    group = shared_hold(KIND)
    wanted = group.live.places_of(1)

    def check() -> None:
        # They subscribe in the same go in which the owner is evicted.
        if any(one.topics for one in group.holders()):
            raise Interrupted("stop")

    with pytest.raises(Interrupted):
        run_recipe(ConsumerHold(CaptureMode.FAST).capture(wanted), group.channel, check=check)

    assert [] == group.holders()
    # A broker shows a setting that was removed a moment longer than the controller has it.
    eventually(lambda: not group.channel.ask(FetchGroupConfig((ASSIGNMENT_INTERVAL_MS,))).own)
    eventually(lambda: {"a", "b"} == {one.client_id for one in group.facts().members})
    group.live.until_at_rest()
    group.live.applications.until_nothing_is_missing(group.live.places)
