"""Partitions of live groups are held on a real broker, and every delivery is logged."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partialmethod
from typing import Any

import pytest
from applications import Applications, eventually
from consumer_processes.analysis import delivered_during, repeats, two_at_once
from consumer_processes.log import Delivery
from kafka.protocol.consumer import LeaveGroupRequest
from live_groups import EACH_PROTOCOL, together
from processes import suspended
from recipe_holds import NOTE, MakeHold, RecipeHold

from toolkit.errors import Interrupted
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.hold_notes import read_note
from toolkit.kafka_io.groups.subscriptions import assignment_from_bytes, user_data_from_bytes
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import DescribeClassic, JoinResult
from toolkit.kafka_io.membership.group_config import ASSIGNMENT_INTERVAL_MS, FetchGroupConfig
from toolkit.live import cooperative_captures
from toolkit.live.classic_assignment import Assignments, ClassicAssignment
from toolkit.live.classic_capture import AssignedAgain
from toolkit.live.classic_member import CAPTURE_SESSION_MS, OwnIds
from toolkit.live.recipe_steps import CheckedChannel, RecipeChannel
from toolkit.model import HOLDER_CLIENT_ID, CaptureMode, TopicPartition

pytestmark = pytest.mark.live("consumers of many kinds run")

EAGER, COOPERATIVE, CONSUMER = EACH_PROTOCOL
MORE = 20  # records: four seconds
LATE_S = 0.2


def owners(group: RecipeHold) -> dict[str, frozenset[TopicPartition]]:
    return {
        one.client_id: frozenset(assignment_from_bytes(one.assignment))
        for one in group.facts().members
        if one.client_id != HOLDER_CLIENT_ID
    }


def test_members_come_and_go_while_partitions_are_held(held: MakeHold) -> None:
    """Held partitions are not delivered, all others are, and reading continues in place."""

    def is_so(kind: str) -> None:
        group = held(kind)
        applications = group.live.applications

        def has_joined(log: list[Delivery]) -> bool:
            if kind == CONSUMER:  # the broker may give it nothing but what is held
                return "c" in {member.client_id for member in group.facts().members}
            return "c" in {one.consumer for one in log}

        group.capture(*group.live.places_of(1, 4))
        group.until_others_are_read(MORE)
        applications.start("c")
        group.until(has_joined)
        group.until_others_are_read()
        applications.stop("c")
        group.until_others_are_read()
        killed = time.time()
        applications.kill("b")
        group.remove("b")
        group.until_others_are_read()
        if kind != CONSUMER:  # it is not Stable while partitions are held
            group.until_stable()  # until then the broker does not tell what our member has
        notes, committed = group.notes(), group.committed()
        group.release(*committed)

        log = group.check_resumed_in_place()
        assert [] == repeats(log, end=killed)  # what was killed had not committed everything
        assert [] == two_at_once(log)
        assert committed == group.first_offsets()
        note = replace(NOTE, survives_s=45)
        of_leader, of_each = [(note, tuple(sorted(committed)))], [(note, ())] * 2
        assert notes == (of_each if kind == CONSUMER else of_leader)

    together(is_so, (EAGER, COOPERATIVE, "kafka-python-sticky", CONSUMER))


def test_every_kind_of_client_is_paused_and_resumed(held: MakeHold) -> None:
    """
    No held partition is delivered, and no record is delivered twice.

    Also where members poll seldom, or hear of a rebalance late.
    """

    def is_so(kind: str, slow: dict[str, int]) -> None:
        group = held(kind, **slow)

        group.capture(*group.live.places_of(0, 5))
        group.until_others_are_read(MORE)
        group.release(*group.hold.held)

        assert [] == repeats(group.check_resumed_in_place())

    slow = {"poll_every_s": 4, "heartbeat.interval.ms": 6_000}
    kinds = ("kafka-python-range", "librdkafka-roundrobin", "java-sticky")
    together(is_so, kinds, ({}, slow, {}))


def test_an_owner_that_fell_out_of_the_group_is_waited_for(held: MakeHold) -> None:
    """It hangs during the capture, and reads fetched records before it notices."""
    group = held(EAGER)
    (place,) = group.live.places_of(1)
    shares = owners(group)
    (owner,) = (name for name, share in shares.items() if place in share)
    others = [one for name, share in shares.items() if name != owner for one in share]

    with (
        GroupChannel(group.live.cluster, group.live.group) as channel,
        ThreadPoolExecutor() as pool,
    ):

        def shows_a_hold() -> bool:
            return any(
                read_note(user_data_from_bytes(one.assignment)).paused
                for one in channel.ask(DescribeClassic()).members
            )

        with suspended(group.live.applications.pid(owner)):
            capturing = pool.submit(group.capture, place)
            group.live.applications.until(lambda _: capturing.done() or shows_a_hold())
            group.live.applications.until_delivered(others)
            has_waited = not capturing.done()
        capturing.result()
    group.until_others_are_read()
    group.release(place)

    assert has_waited
    group.check_deliveries()


def test_a_java_leader_assigns_a_waiting_sentinel_nothing(held: MakeHold) -> None:
    """While a cooperative group is captured quietly, the other members read on."""
    group = held("java-cooperative-sticky", **{"heartbeat.interval.ms": 3_000})  # the default
    group.hold.prefer = CaptureMode.QUIET
    (place,) = group.live.places_of(1)
    has: set[tuple[TopicPartition, ...]] = set()

    def check() -> None:
        for holder in group.holders():
            if holder.assignment:  # the broker tells it while the group is Stable
                has.add(tuple(assignment_from_bytes(holder.assignment)))

    since = time.time()
    group.hold.capture(CheckedChannel(group.channel, check), frozenset({place}))
    captured = group.note_captured(place)
    others = group.others
    group.until_others_are_read()
    group.release(place)

    log = group.check_deliveries()
    assert {()} == has
    assert {*others} <= {one.place for one in delivered_during(log, others, since, captured)}


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (COOPERATIVE, {"topics": 2, "consumers": ("a", "b", "c")}),
        ("java-cooperative-sticky", {}),
    ],
)
def test_cooperative_members_keep_their_partitions(
    held: MakeHold,
    kind: str,
    shape: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    All revoke everything for a moment, and no member with uncommitted records is removed.

    A leader that was faster than ours has shared out anew before it is tried again, and one that is
    not back in time, on a busy machine, finds its share with others.
    """
    group, excuses = held(kind, **shape), []
    raised, share_out = AssignedAgain.__init__, ClassicAssignment.assign

    def counted(self: AssignedAgain, *args: Any, **more: Any) -> None:
        excuses.append(self)
        raised(self, *args, **more)

    def noting(
        self: ClassicAssignment, channel: RecipeChannel, joined: JoinResult, *args: Any
    ) -> Assignments:
        if len(joined.members) <= len(group.live.applications.running):  # one of them is ours
            excuses.append(joined)
        return share_out(self, channel, joined, *args)

    monkeypatch.setattr(AssignedAgain, "__init__", counted)
    monkeypatch.setattr(ClassicAssignment, "assign", noting)
    (place,) = group.live.places_of(1)
    for _ in range(5):
        excuses.clear()
        before = owners(group)
        group.capture(place)
        held_then = owners(group)
        group.until_others_are_read()
        group.release(place)
        log = group.check_deliveries()
        if not excuses:
            break
        group.live.until_at_rest()

    assert {who: share - {place} for who, share in before.items()} == held_then
    # Java's members do not commit when they let go, but when they begin to join.
    assert [] == repeats(log) or kind != COOPERATIVE


def test_members_before_the_sentinel_lead_before_they_are_removed(
    held: MakeHold, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentinel is last, so both have to be removed; no record is read twice."""
    group = held(COOPERATIVE)
    monkeypatch.setattr(OwnIds, "draw_id", partialmethod(OwnIds.draw_id, last=True))
    # The leader may be faster than ours, on a busy machine several times.
    monkeypatch.setattr(cooperative_captures, "CLAIM_TRIES", 20)

    group.capture(*group.live.places_of(1))
    group.until_others_are_read(MORE)
    group.release(*group.hold.held)

    assert [] == repeats(group.check_deliveries())


def test_partitions_of_a_cooperative_leader_are_held(held: MakeHold) -> None:
    """The leader is removed: it claims partitions that it has revoked."""
    group = held(COOPERATIVE, consumers=("a",))
    group.capture(*group.live.places_of(1, 4))
    group.until_others_are_read(MORE)
    committed = group.committed()
    group.release(*committed)

    group.check_deliveries()
    assert committed == group.first_offsets()


def test_partitions_are_captured_and_released_one_by_one(held: MakeHold) -> None:
    """Each partition of two topics is held and released alone, whichever process holds."""

    def is_so(kind: str, shape: dict[str, bool]) -> None:
        group = held(kind, topics=2, **shape)
        one, two = sorted(group.live.places_of(1, 2))
        (three,) = group.live.places_of(4, topic=1)
        group.capture(one)
        group.capture(two, three)
        group.until_others_are_read()
        group.release(two)
        with GroupChannel(group.live.cluster, group.live.group) as channel:
            other = group.taken_over(channel)
            other.until_others_are_read(MORE)
            other.release(one, three)
        assert [] == repeats(other.check_resumed_in_place())

    static, by_pattern = {"static": True}, {"by_pattern": True}
    together(is_so, (EAGER, COOPERATIVE, CONSUMER), (static, static, by_pattern))


@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE])
def test_a_capture_whose_join_arrives_late(
    shared_hold: MakeHold, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """It waits for the join that the coordinator answers, even if others overtake it."""
    late, left, ask = [], [], Connection._ask

    async def ask_late(self: Connection, request: Any, *where: Any) -> Any:
        sleep, before = self._admin._manager._net.sleep, len(left)
        is_first = not late and getattr(request, "session_timeout_ms", 0) > CAPTURE_SESSION_MS
        late.extend([request] * is_first)
        while is_first and len(left) == before:
            await sleep(LATE_S)  # as on a busy machine
        left.extend([request] * isinstance(request, LeaveGroupRequest))
        return await ask(self, request, *where)

    monkeypatch.setattr(Connection, "_ask", ask_late)
    group = shared_hold(kind)
    group.capture(*group.live.places_of(1, 4))

    assert group.live.places_of(1, 4) == group.hold.held
    assert late
    group.release(*group.hold.held)


@pytest.mark.parametrize(
    ("kind", "prefer", "count"),
    [
        (EAGER, CaptureMode.LOSSLESS, 2),
        (COOPERATIVE, CaptureMode.QUIET, 3),
        (CONSUMER, CaptureMode.LOSSLESS, 1),
    ],
)
def test_connections_of_a_capture(
    shared_hold: MakeHold, kind: str, prefer: CaptureMode, count: int
) -> None:
    """One for each request that waits for the whole group at once, and one for all others."""
    group = shared_hold(kind)
    group.hold.prefer = prefer
    group.channel.disconnect()
    group.capture(*group.live.places_of(1, 4))
    group.until_others_are_read()

    assert count == len(group.channel._open)
    group.release(*group.hold.held)


def ours_are_there(group: RecipeHold) -> bool:
    return bool(group.holders())


def ours_subscribe(group: RecipeHold) -> bool:
    """Whether members of ours subscribe; when it is fast they do as the owners are evicted."""
    return any(one.topics for one in group.holders())


@pytest.mark.parametrize(
    ("kind", "prefer", "when"),
    [
        (EAGER, CaptureMode.LOSSLESS, ours_are_there),
        (COOPERATIVE, CaptureMode.LOSSLESS, ours_are_there),
        (CONSUMER, CaptureMode.LOSSLESS, ours_subscribe),
        (CONSUMER, CaptureMode.QUIET, ours_subscribe),
        (CONSUMER, CaptureMode.FAST, ours_are_there),
        (CONSUMER, CaptureMode.FAST, ours_subscribe),
    ],
)
def test_an_interrupted_capture_leaves_the_group_as_it_was(
    shared_hold: MakeHold,
    apps: Applications,
    kind: str,
    prefer: CaptureMode,
    when: Callable[[RecipeHold], bool],
) -> None:
    """After Ctrl-C sentinels leave; evicted owners rejoin; no record is lost."""
    apps.create_topic(apps.name("spare"), partitions=12)  # for a quiet capture
    group, began = shared_hold(kind), time.time()
    group.hold.prefer = prefer

    def check() -> None:
        if when(group):
            raise Interrupted("stop")

    with pytest.raises(Interrupted):
        group.hold.capture(CheckedChannel(group.channel, check), group.live.places_of(1, 4))

    assert [] == group.holders()
    eventually(lambda: {"a", "b"} == {one.client_id for one in group.facts().members})
    group.live.until_at_rest()
    group.live.applications.until_nothing_is_missing(group.live.places)
    if prefer is not CaptureMode.FAST or when is ours_are_there:  # nobody was evicted
        assert [] == repeats(group.live.applications.deliveries(), start=began)
    # A broker shows a setting that was removed a moment longer than the controller has it.
    settings = FetchGroupConfig((ASSIGNMENT_INTERVAL_MS,))
    eventually(lambda: not group.channel.ask(settings).own)
