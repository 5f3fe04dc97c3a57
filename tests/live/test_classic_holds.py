"""Partitions of live classic groups are held on a real broker, and every delivery is logged."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any
from weakref import WeakSet

import pytest
from consumer_processes.analysis import delivered_during, first_after, repeats, two_at_once
from kafka.protocol.consumer import LeaveGroupRequest
from live_groups import together
from processes import suspend
from recipe_holds import RecipeHold, assert_resumed_in_place

from toolkit.errors import HoldLost, Interrupted, NotCaptured
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.hold_notes import read_note
from toolkit.kafka_io.groups.subscriptions import assignment_from_bytes, user_data_from_bytes
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    DescribeClassic,
    JoinResult,
    Leave,
)
from toolkit.kafka_io.membership.topics_and_commits import FetchCommits
from toolkit.live import capture_by_claims
from toolkit.live.classic_capture import AssignedAgain
from toolkit.live.classic_hold import ClassicHold
from toolkit.live.classic_member import CAPTURE_SESSION_MS, draw_id
from toolkit.live.recipe_steps import RecipeGenerator, run_recipe
from toolkit.model import (
    HOLDER_CLIENT_ID,
    CaptureMode,
    HoldNote,
    TopicPartition,
)

pytestmark = pytest.mark.live("consumers of many kinds run")

EAGER, COOPERATIVE = "librdkafka-range", "librdkafka-cooperative-sticky"
MORE = 20  # records: two seconds
LATE_S = 0.2


def owners(group: RecipeHold) -> dict[str, frozenset[TopicPartition]]:
    """Return what each application has."""
    return {
        one.client_id: frozenset(assignment_from_bytes(one.assignment))
        for one in group.facts().members
        if one.client_id != HOLDER_CLIENT_ID
    }


def _shows_a_hold(group: ClassicFacts) -> bool:
    return any(read_note(user_data_from_bytes(one.assignment)).paused for one in group.members)


def test_members_come_and_go_while_partitions_are_held(held: Callable[..., RecipeHold]) -> None:
    """Nothing of them is delivered, all the others are, and reading goes on in place."""

    def is_so(kind: str) -> None:
        group = held(kind)
        wanted = sorted(group.live.places_of(1, 4))
        others = group.others(*wanted)

        captured = group.capture(*wanted)
        group.until_delivered(*others, since=captured, records=MORE)
        group.live.applications.start("c")
        group.until(lambda all_: "c" in {one.consumer for one in all_})
        group.live.applications.stop("c")
        group.until_delivered(*others, since=time.time())
        killed = time.time()
        (gone,) = (one.member_id for one in group.facts().members if one.client_id == "b")
        group.live.applications.kill("b")
        group.channel.ask(Leave((gone,)))  # its session would last for longer
        group.until_delivered(*others, since=time.time())
        group.until_stable()  # until then the broker does not tell what our member has
        (holder,) = group.holders()
        committed = group.channel.ask(FetchCommits()).offsets
        released = group.release(*wanted)

        group.live.applications.until_nothing_is_missing(group.live.places)
        log = group.live.applications.deliveries()
        assert [] == delivered_during(log, wanted, captured, released)
        assert [] == repeats(log, end=killed)  # what was killed had not committed everything
        assert [] == two_at_once(log)
        firsts = {place: first_after(log, place, released) for place in wanted}
        assert {place: committed[place] for place in wanted} == {
            place: first.offset for place, first in firsts.items() if first
        }
        note = read_note(user_data_from_bytes(holder.assignment))
        assert (tuple(wanted), "ann", "repair") == (note.paused, note.note.who, note.note.reason)

    together(is_so, (EAGER, COOPERATIVE, "kafka-python-sticky"))


def test_clients_of_all_kinds_are_held_and_read_on(held: Callable[..., RecipeHold]) -> None:
    """
    Nothing of what is held is delivered, and nothing at all is delivered twice.

    Also where members poll seldom, or hear of a rebalance late.
    """

    def is_so(kind: str, slow: dict[str, int]) -> None:
        group = held(kind, **slow)
        wanted = sorted(group.live.places_of(0, 5))

        captured = group.capture(*wanted)
        group.until_delivered(*group.others(*wanted), since=captured, records=MORE)
        released = group.release(*wanted)

        group.live.applications.until_nothing_is_missing(group.live.places)
        log = group.live.applications.deliveries()
        assert [] == delivered_during(log, wanted, captured, released)
        assert [] == repeats(log)
        for place in wanted:
            assert_resumed_in_place(log, place, released)

    slow = {"poll_every_s": 4, "heartbeat.interval.ms": 6_000}
    kinds = ("kafka-python-range", "librdkafka-roundrobin", "java-sticky")
    together(is_so, kinds, ({}, slow, {}))


def test_an_owner_that_fell_out_of_the_group_is_waited_for(held: Callable[..., RecipeHold]) -> None:
    """It hangs in the capture, and reads what it has fetched before it notices that it was out."""
    group = held(EAGER)
    (wanted,) = group.live.places_of(1)
    shares = {one.client_id: assignment_from_bytes(one.assignment) for one in group.facts().members}
    (owner,) = (client_id for client_id, share in shares.items() if wanted in share)
    others = [one for client_id, share in shares.items() if client_id != owner for one in share]

    pid = group.live.applications.pid(owner)
    suspend(pid)
    with (
        GroupChannel(group.live.cluster, group.live.group) as channel,
        ThreadPoolExecutor() as pool,
    ):
        capturing = pool.submit(group.capture, wanted)
        group.live.applications.until(
            lambda _: capturing.done() or _shows_a_hold(channel.ask(DescribeClassic()))
        )
        group.live.applications.until_delivered(others)
        has_waited = not capturing.done()
        os.kill(pid, signal.SIGCONT)
        captured = capturing.result()
    group.until_delivered(*group.others(wanted), since=captured)
    released = group.release(wanted)

    log = group.live.applications.deliveries()
    assert has_waited
    assert [] == delivered_during(log, [wanted], captured, released)


def test_a_java_leader_gives_our_waiting_member_nothing(held: Callable[..., RecipeHold]) -> None:
    """While a cooperative group is captured quietly, the others are read all the time."""
    group = held("java-cooperative-sticky", **{"heartbeat.interval.ms": 3_000})  # the default
    group.hold = ClassicHold(note=HoldNote(who="ann"), prefer=CaptureMode.QUIET)
    (wanted,) = group.live.places_of(1)
    others = group.others(wanted)
    has: set[tuple[TopicPartition, ...]] = set()

    def check() -> None:
        for ours in group.holders():
            if ours.assignment:  # the broker tells it while the group is Stable
                has.add(tuple(assignment_from_bytes(ours.assignment)))

    since = time.time()
    run_recipe(group.hold.capture(frozenset({wanted})), group.channel, check=check)
    captured = time.time()
    group.until_delivered(*others, since=captured)
    released = group.release(wanted)

    log = group.live.applications.deliveries()
    assert {()} == has
    assert {*others} <= {one.place for one in delivered_during(log, others, since, captured)}
    assert [] == delivered_during(log, [wanted], captured, released)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (COOPERATIVE, {"topics": 2, "consumers": ("a", "b", "c")}),
        ("java-cooperative-sticky", {}),
    ],
)
def test_cooperative_members_keep_what_they_had(
    held: Callable[..., RecipeHold],
    kind: str,
    shape: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    All let go of everything for a moment, and nobody is removed who has not committed.

    A leader that was faster than ours has shared out anew before it is tried again, and one that is
    not back in time, on a busy machine, finds its share with others.
    """
    group, excuses = held(kind, **shape), []
    raised, share_out = AssignedAgain.__init__, ClassicHold._assign_partitions

    def counted(self: AssignedAgain, *args: Any, **more: Any) -> None:
        excuses.append(self)
        raised(self, *args, **more)

    def noting(self: ClassicHold, joined: JoinResult) -> RecipeGenerator[dict[str, bytes]]:
        if len(joined.members) <= len(group.live.applications.running):  # one of them is ours
            excuses.append(joined)
        return (yield from share_out(self, joined))

    monkeypatch.setattr(AssignedAgain, "__init__", counted)
    monkeypatch.setattr(ClassicHold, "_assign_partitions", noting)
    (wanted,) = group.live.places_of(1)
    for _ in range(5):
        excuses.clear()
        before = owners(group)
        captured = group.capture(wanted)
        held_then = owners(group)
        group.until_delivered(*group.others(wanted), since=captured)
        released = group.release(wanted)
        log = group.live.applications.deliveries()
        assert [] == delivered_during(log, [wanted], captured, released)
        if not excuses:
            break
        group.live.until_at_rest()

    assert {who: share - {wanted} for who, share in before.items()} == held_then
    # Java's members do not commit when they let go, but when they begin to join.
    assert [] == repeats(log) or kind != COOPERATIVE


def test_members_that_stand_before_ours_lead_before_they_are_removed(
    held: Callable[..., RecipeHold], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours has the last place, so both have to be removed, and still nothing is read twice."""
    group = held(COOPERATIVE)
    monkeypatch.setattr(capture_by_claims, "draw_id", partial(draw_id, last=True))
    # The leader may be faster than ours, on a busy machine several times.
    monkeypatch.setattr(capture_by_claims, "CLAIM_TRIES", 20)
    (wanted,) = group.live.places_of(1)

    captured = group.capture(wanted)
    group.until_delivered(*group.others(wanted), since=captured, records=MORE)
    group.release(wanted)

    group.live.applications.until_nothing_is_missing(group.live.places)
    assert [] == repeats(group.live.applications.deliveries())


def test_partitions_of_a_cooperative_leader_are_held(held: Callable[..., RecipeHold]) -> None:
    """It is the one that is removed: it claims them, though it has let go of them."""
    group = held(COOPERATIVE, consumers=("a",))
    wanted = sorted(group.live.places_of(1, 4))
    captured = group.capture(*wanted)
    group.until_delivered(*group.others(*wanted), since=captured, records=MORE)
    committed = group.channel.ask(FetchCommits()).offsets
    released = group.release(*wanted)

    group.live.applications.until_nothing_is_missing(group.live.places)
    log = group.live.applications.deliveries()
    assert [] == delivered_during(log, wanted, captured, released)
    firsts = {place: first_after(log, place, released) for place in wanted}
    assert {place: committed[place] for place in wanted} == {
        place: first.offset for place, first in firsts.items() if first
    }


def test_more_is_captured_some_is_released_and_another_process_takes_over(
    held: Callable[..., RecipeHold],
) -> None:
    """Static members of two topics: each partition is held and given back alone."""

    def is_so(kind: str) -> None:
        group = held(kind, topics=2, static=True)
        one, two = sorted(group.live.places_of(1, 2))
        (three,) = group.live.places_of(4, topic=1)
        first = group.capture(one)
        second = group.capture(two, three)
        group.until_delivered(*group.others(one, two, three), since=second)
        released = group.release(two)

        with GroupChannel(group.live.cluster, group.live.group) as channel:
            other = RecipeHold(group.live, channel)
            other.hold = ClassicHold.from_state(group.hold.state(), note=group.hold.note)
            other.until_delivered(*group.others(one, three), since=time.time(), records=MORE)
            end = other.release(one, three)

        log = group.live.applications.deliveries()
        assert [] == delivered_during(log, [one], first, end)
        assert [] == delivered_during(log, [two], second, released)
        assert [] == delivered_during(log, [three], second, end)
        assert [] == repeats(log)
        for place, since in ((one, end), (two, released), (three, end)):
            assert_resumed_in_place(log, place, since)

    together(is_so, (EAGER, COOPERATIVE))


def test_what_somebody_else_resumed_is_not_captured_again(
    shared_hold: Callable[[str], RecipeHold],
) -> None:
    """A hold of others is not broken into; one that was resumed is lost, and says so."""
    group = shared_hold(EAGER)
    wanted = group.live.places_of(1, 4)
    group.capture(*wanted)
    with pytest.raises(NotCaptured, match="ann @ has already paused"):
        run_recipe(ClassicHold(note=HoldNote()).capture(wanted), group.channel)

    (holder,) = group.holders()
    group.channel.ask(Leave((holder.member_id,)))
    with pytest.raises(HoldLost):
        run_recipe(group.hold.keep(), group.channel)

    group.live.applications.until_delivered(group.live.places)
    assert [] == group.holders()


@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE])
def test_a_capture_whose_join_arrives_late(
    shared_hold: Callable[[str], RecipeHold], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It waits for the join that the coordinator answers, also where others overtake that join."""
    used, left, ask = WeakSet[Connection](), [], Connection._ask

    async def ask_late(self: Connection, request: Any, *where: Any) -> Any:
        sleep, before = self._admin._manager._net.sleep, len(left)
        is_join = getattr(request, "session_timeout_ms", 0) > CAPTURE_SESSION_MS
        while is_join and self not in used and len(left) == before:
            await sleep(LATE_S)  # as for TLS and a login on a busy machine
        used.add(self)
        left.extend([request] * isinstance(request, LeaveGroupRequest))
        return await ask(self, request, *where)

    monkeypatch.setattr(Connection, "_ask", ask_late)
    group = shared_hold(kind)
    wanted = group.live.places_of(1, 4)
    group.capture(*wanted)

    assert wanted == group.hold.held
    group.release(*wanted)


@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE])
def test_a_capture_that_is_interrupted_leaves_the_group_as_it_was(
    shared_hold: Callable[[str], RecipeHold], kind: str
) -> None:
    """While members of ours are in the group, Ctrl-C has them leave, and everything is read."""
    group, began = shared_hold(kind), time.time()

    def check() -> None:
        if group.holders():
            raise Interrupted("stop")

    with pytest.raises(Interrupted):
        run_recipe(group.hold.capture(group.live.places_of(1, 4)), group.channel, check=check)

    assert [] == group.holders()
    group.live.until_at_rest()
    assert [] == repeats(group.live.applications.deliveries(), start=began)
