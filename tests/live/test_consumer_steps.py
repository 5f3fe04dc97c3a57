"""The recipes for KIP-848 groups step by step: interrupted at each of them, refused, and lost."""

import json
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

import pytest
from recipe_runs import ScriptedChannel, orders
from recipe_runs import consumer_member as reader

from toolkit.errors import BrokerRefused, ClusterUnreachable, HoldLost, Interrupted, NotCaptured
from toolkit.kafka_io.groups.hold_notes import read_note
from toolkit.kafka_io.membership.consumer import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    ConsumerFacts,
    ConsumerHeartbeat,
    ConsumerHeartbeatResult,
    DescribeConsumer,
    DescribedConsumerMember,
    IdPartition,
)
from toolkit.kafka_io.membership.group_config import (
    ASSIGNMENT_INTERVAL_MS,
    SESSION_TIMEOUT_MS,
    ChangeConfig,
    ConfigFound,
    FetchGroupConfig,
)
from toolkit.kafka_io.membership.request import ErrorCodeResult
from toolkit.kafka_io.membership.topics_and_commits import FetchTopics, Topic, TopicsFound
from toolkit.live.consumer_captures import capture_lossless
from toolkit.live.consumer_hold import RECIPES, TOPICS_EVERY_S, ConsumerHold
from toolkit.live.member_pool import Holder
from toolkit.live.rival_captures import AnotherCapture
from toolkit.model import HOLDER_CLIENT_ID, CaptureMode, HoldNote, TopicPartition

TOPICS = {"orders": Topic(UUID(int=1), 6), "spare": Topic(UUID(int=2), 6)}


def holder(name: str, *numbers: int, **other: Any) -> DescribedConsumerMember:
    return reader(name, *numbers, client_id=HOLDER_CLIENT_ID, **other)


@dataclass
class Coordinator(ScriptedChannel):
    """A coordinator of one group, as far as the recipes look at it."""

    readers: list[DescribedConsumerMember] = field(
        default_factory=lambda: [reader("a", 0, 1, 2), reader("b", 3, 4, 5)]
    )
    state: str = "Stable"
    error: int = 0
    assignor: str = "uniform"
    defaults: dict[str, str] = field(
        default_factory=lambda: {ASSIGNMENT_INTERVAL_MS: "1000", SESSION_TIMEOUT_MS: "45000"}
    )
    own: dict[str, str] = field(default_factory=dict)  # what is set for the group
    holders: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of ours, and their topics
    rival: str = ""  # member of another capture, which joins as soon as one of ours
    rival_joins_when: str = "subscribes"  # or "joins"
    evicted: bool = False
    stays_away: bool = False  # whether an evicted owner does not come back
    full: bool = False
    deaf: bool = False  # the owners never give anything up
    refusing: int = 0  # the error that heartbeats are answered with
    unknown: int = 25  # the error that a member is answered with which leaves, and is not there
    interval_ms: int = 5000
    topics: dict[str, Topic] = field(default_factory=lambda: dict(TOPICS))
    unread: dict[str, str] = field(default_factory=dict)
    generous: int = 0  # how often a holder is given something besides

    def answer(self, request: Any) -> Any:
        answer: Any
        match request:
            case DescribeConsumer():
                holders = [holder(n, topics=frozenset(t)) for n, t in self.holders.items()]
                members = (*self.readers, *holders)
                answer = ConsumerFacts(self.error, "no", self.state, 7, self.assignor, members)
            case FetchTopics(None):
                answer = TopicsFound(0, TOPICS)
            case FetchTopics(names):
                found = {n: topic for n, topic in self.topics.items() if n in names}
                answer = TopicsFound(0, found, self.unread)
            case FetchGroupConfig():
                answer = ConfigFound(0, values=self.defaults | self.own, own=dict(self.own))
            case ChangeConfig(name, value):
                self.own.pop(name, None)
                self.own |= {} if value is None else {name: value}
                answer = ErrorCodeResult(0)
            case ConsumerHeartbeat():
                answer = self.heartbeat(request)
            case _:
                raise AssertionError(request)
        return answer

    def heartbeat(self, beat: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        if beat.epoch == LEAVE_EPOCH and not self.refusing:
            self.evicted |= beat.member_id in {one.member_id for one in self.readers}
            if self.stays_away:
                self.readers = [one for one in self.readers if one.member_id != beat.member_id]
            return ConsumerHeartbeatResult(
                0 if self.holders.pop(beat.member_id, None) is not None else self.unknown
            )
        if beat.epoch == JOIN_EPOCH:
            if self.full:
                return ConsumerHeartbeatResult(81, "full")
            self.holders[beat.member_id] = ()
        did = "subscribes" if beat.topics else "joins"
        if self.rival and did == self.rival_joins_when:
            self.readers.append(holder(self.rival, target=orders(1)))
            self.rival = ""
        if self.refusing:
            return ConsumerHeartbeatResult(self.refusing, "not allowed")
        if beat.member_id not in self.holders:
            return ConsumerHeartbeatResult(25, "unknown")
        if beat.topics is not None:
            self.holders[beat.member_id] = beat.topics
        return ConsumerHeartbeatResult(
            0, epoch=8, assigned=self.assigned(beat.member_id), interval_ms=self.interval_ms
        )

    def assigned(self, member_id: str) -> frozenset[IdPartition]:
        """Return what the assignors give to ours, which sort first."""
        topics = self.holders[member_id]
        wanting = sorted(name for name, wanted in self.holders.items() if wanted == topics)
        place = wanting.index(member_id)
        given = set()
        if "spare" in topics:
            share = 6 // len(wanting)
            given = {IdPartition(UUID(int=2), place * share + n) for n in range(share)}
        if self.deaf:
            return frozenset()
        if self.generous and self.requests[-1].owned and not topics:
            self.generous -= 1
            given = {IdPartition(UUID(int=1), number) for number in range(3)}
        if topics == ("orders",) or ("orders" in topics and self.evicted):
            given.add(IdPartition(UUID(int=1), place))
        return frozenset(given)

    @property
    def heartbeats(self) -> list[ConsumerHeartbeat]:
        """The heartbeats of members of ours, with which they also join and leave."""
        return [one for one in self.requests if isinstance(one, ConsumerHeartbeat)]

    @property
    def joins(self) -> list[ConsumerHeartbeat]:
        return [one for one in self.heartbeats if one.epoch == JOIN_EPOCH]


def captured(*numbers: int, **about: Any) -> tuple[ConsumerHold, Coordinator]:
    hold, group = ConsumerHold(), Coordinator(**about)
    hold.capture(group, orders(*numbers))
    return hold, group


def refuse(group: Coordinator, words: str, hold: ConsumerHold | None = None) -> None:
    """Check that a capture is given up for a reason, and that nobody of ours stays."""
    with pytest.raises(NotCaptured, match=words):
        (hold or ConsumerHold()).capture(group, orders(1))
    assert {} == group.holders


def step_after_join(prefer: CaptureMode) -> int:
    """Return the first step of a capture at which all members of ours are in the group."""
    group = Coordinator(readers=[reader("a", *range(6))])  # nobody's heartbeat is waited for
    ConsumerHold(prefer).capture(group, orders(1))
    return 1 + next(at for at, step in enumerate(group.steps) if step == tuple(group.joins[:6]))


@pytest.mark.parametrize("is_heard", [False, True], ids=["unsent", "sent"])
@pytest.mark.parametrize("prefer", CaptureMode)
@pytest.mark.parametrize("own", [{}, {ASSIGNMENT_INTERVAL_MS: "2000"}], ids=["default", "set"])
@pytest.mark.parametrize(
    "error",
    [Interrupted("stop"), ClusterUnreachable("gone"), KeyboardInterrupt(), KeyError("a defect")],
    ids=type,
)
def test_an_interruption_at_any_step_leaves_no_sentinel(
    prefer: CaptureMode, own: dict[str, str], error: BaseException, *, is_heard: bool
) -> None:
    """Wherever a capture ends early, all sentinels have left and settings are restored."""
    hold, group = ConsumerHold(prefer), Coordinator(own=dict(own))
    hold.capture(group, orders(1))
    steps = group.steps
    assert (1, own, orders(1)) == (len(group.holders), group.own, hold.held)
    assert len(steps) > len(["look", "topics", "session", "join", "beat", "settle"])

    for at in range(len(steps)):
        hold, group = ConsumerHold(prefer), Coordinator(own=dict(own))
        group.fail(error, at=at, is_heard=is_heard)
        with pytest.raises(type(error)):
            hold.capture(group, orders(1))
        assert ({}, own, orders()) == (group.holders, group.own, hold.held), f"step {at}"


@pytest.mark.parametrize("prefer", [CaptureMode.QUIET, CaptureMode.FAST])
@pytest.mark.parametrize(("stays_away", "after_s"), [(True, 45), (False, 0)])
def test_an_evicted_owner_is_waited_for_until_its_session_expires(
    prefer: CaptureMode, *, stays_away: bool, after_s: int
) -> None:
    """Until it rejoins it may read its partitions; the hold lasts meanwhile."""
    hold, group = ConsumerHold(prefer), Coordinator(stays_away=stays_away)
    hold.capture(group, orders(1))

    assert orders(1) == hold.held
    assert after_s <= group.clock < after_s + 20


@pytest.mark.parametrize("is_busy", [True, False])
def test_a_member_in_a_later_rebalance_is_not_evicted(*, is_busy: bool) -> None:
    """Only a member that has owed the same partitions for half of the time is busy."""
    owner, others = reader("a", 0, 2, 3), (reader("b", 4, 5), reader("c"))
    owing = [replace(owner, target=orders(0, 2)), others[0], replace(others[1], target=orders(3))]
    hold, group = ConsumerHold(patience_s=10), Coordinator(readers=[reader("a", *range(6))])
    hold.capture(group, orders(1))
    begun = group.clock
    group.requests.clear()

    while group.clock < begun + 12:
        is_late = is_busy or group.clock > begun + 9
        group.readers = owing if is_late else [owner, *others]
        hold.keep(group)
        group.sleep(1)

    leaving = {beat.member_id for beat in group.heartbeats if beat.epoch == LEAVE_EPOCH}
    assert ({"a"} if is_busy else set()) == leaving


def test_sentinels_of_a_consumer_capture_leave_despite_a_second_interruption() -> None:
    """A second Ctrl-C while sentinels leave does not keep them in the group."""
    group = Coordinator(readers=[reader("a", *range(6))])
    at = step_after_join(CaptureMode.LOSSLESS)
    for step in (at, at + 1):
        group.fail(KeyboardInterrupt(), at=step, is_heard=False)

    with pytest.raises(KeyboardInterrupt):
        ConsumerHold().capture(group, orders(1))

    leaving, again = group.steps[at + 1 :]
    assert leaving == again
    assert {} == group.holders


def test_what_could_not_be_undone_is_reported() -> None:
    """If no broker responds, the error names what stays in the group, and for how long."""
    group = Coordinator(readers=[reader("a", *range(6))])
    at = step_after_join(CaptureMode.FAST)
    for step in (at, at + 1):
        group.fail(ClusterUnreachable("nobody is there"), at=step, is_heard=False)

    words = r"is there; 6 offsetbook members .* session timeout; consumer\.assignment\.interval\.ms"
    with pytest.raises(NotCaptured, match=words):
        ConsumerHold(CaptureMode.FAST).capture(group, orders(1))


def test_held_partitions_stay_held_if_more_cannot_be_captured() -> None:
    """A capture that is interrupted at any step does not touch earlier ones."""
    hold, group = captured(1)
    before, first = dict(group.holders), len(group.steps)
    hold.capture(group, orders(1, 4))
    assert orders(1, 4) == hold.held
    assert before.items() < group.holders.items()

    for at in range(len(group.steps) - first):
        hold, group = captured(1)
        before = dict(group.holders)
        group.fail(Interrupted("stop"), at=at, is_heard=False)
        with pytest.raises(Interrupted):
            hold.capture(group, orders(1, 4))
        assert (before, orders(1)) == (group.holders, hold.held), f"step {at}"


def test_held_partitions_are_not_captured_again() -> None:
    """A capture of held partitions only checks whether the topic is still the same."""
    hold, group = captured(1)
    steps = list(group.steps)

    hold.capture(group, orders(1))

    assert [*steps, (FetchTopics(("orders",)),)] == group.steps


@pytest.mark.parametrize("found", [{"orders": Topic(UUID(int=9), 6)}, {}], ids=["new", "gone"])
@pytest.mark.parametrize("what", ["keep", "capture"])
def test_partitions_of_a_deleted_topic_are_lost(found: dict[str, Topic], what: str) -> None:
    """Coordinators accept heartbeats of their sentinels, and describe them without partitions."""
    hold, group = captured(1, 4)
    group.topics = found
    group.clock += TOPICS_EVERY_S
    with pytest.raises(HoldLost, match=r"^orders:1,4 is no longer held: the topic was del"):
        hold.keep(group) if what == "keep" else hold.capture(group, orders(1))
    assert (orders(), {}) == (hold.held, group.holders)


def test_a_topic_that_cannot_be_read_is_not_lost() -> None:
    """The heartbeats arrive, which is what keeps a hold."""
    hold, group = captured(1)
    group.topics, group.unread = {}, {"orders": "TOPIC_AUTHORIZATION_FAILED"}
    group.clock += TOPICS_EVERY_S
    hold.keep(group)
    group.fail(ClusterUnreachable("gone"), at=1, is_heard=False)
    group.clock += TOPICS_EVERY_S
    hold.keep(group)

    assert orders(1) == hold.held


def test_held_partitions_are_kept_during_another_capture() -> None:
    """A capture may take as long as a session, so holders send heartbeats meanwhile."""
    hold, group = captured(1)
    (member_id,) = group.holders
    group.requests.clear()
    group.deaf = True
    with pytest.raises(NotCaptured):
        hold.capture(group, orders(4))

    assert 2 < [beat.member_id for beat in group.heartbeats].count(member_id)


def test_quiet_is_refused_before_an_eviction_if_it_would_not_be_exact() -> None:
    """Sentinels that are not assigned what they need leave; no other capture is tried."""
    group = Coordinator(deaf=True)
    refuse(group, "no member was evicted", ConsumerHold(CaptureMode.QUIET))

    assert not group.evicted
    assert "range" not in {beat.assignor for beat in group.heartbeats}


def held_elsewhere(*numbers: int) -> DescribedConsumerMember:
    return holder("!other", topics=frozenset(), assigned=orders(*numbers), target=orders())


def in_use(member: DescribedConsumerMember) -> dict[str, Any]:
    """Return a group that a member of another hold, or one that takes over, keeps from rest."""
    return {"readers": [reader("a", 0), member], "state": "Reconciling"}


LOSSLESS, QUIET, FAST = CaptureMode.LOSSLESS, CaptureMode.QUIET, CaptureMode.FAST
GONE = frozenset({TopicPartition("gone", 0)})
SPARE = frozenset({TopicPartition("spare", 0)})
UNEVEN = [reader("a", 0, 1, 2, 3, 4), reader("b", 5)]


@pytest.mark.parametrize(
    ("about", "partitions", "words", "prefer"),
    [
        ({"error": 69}, orders(1), "no KIP-848 group with this name", LOSSLESS),
        ({"error": 30}, orders(1), "cannot be described", LOSSLESS),
        ({"readers": [], "state": "Empty"}, orders(1), "no consuming member", LOSSLESS),
        ({"readers": [held_elsewhere(5)]}, orders(1), "no consuming member", LOSSLESS),
        ({}, orders(1, 6), "no partition orders:6", LOSSLESS),
        ({}, orders(1, -1), "no partition orders:-1", LOSSLESS),
        ({}, GONE, "no partition gone:0", LOSSLESS),
        ({}, SPARE, "no member of the group subscribes to", LOSSLESS),
        ({"readers": [reader("a", 0), held_elsewhere(1)]}, orders(1), "already paused", LOSSLESS),
        ({"state": "Assigning"}, orders(1), "Stable: its state is Assigning", LOSSLESS),
        (in_use(holder("!00", target=orders(1))), orders(1), "another hold is being", LOSSLESS),
        (in_use(reader("c", target=orders(5))), orders(1), "c @ /127.0.0.1 is changing", LOSSLESS),
        # Without a topic to load members of ours with, or on another assignor.
        ({"readers": UNEVEN}, orders(1), "with 20 part", QUIET),
        ({}, orders(1, 4), "with 12 partitions", QUIET),
        ({"assignor": "range"}, orders(1), "the group uses range", QUIET),
        ({"defaults": {}}, orders(1), "interval.ms. Try: prefer lossless or quiet", FAST),
    ],
)
def test_captures_that_are_refused_before_a_member_joins(
    about: dict[str, Any], partitions: frozenset[TopicPartition], words: str, prefer: CaptureMode
) -> None:
    """A capture that cannot succeed, or must not, has a reason and leaves the group alone."""
    group = Coordinator(**about)
    with pytest.raises(NotCaptured, match=words):
        ConsumerHold(prefer).capture(group, partitions)

    assert [] == group.joins


def test_a_group_that_is_full_is_left_at_once() -> None:
    """The error names the limit on the members of a group, and no sentinel stays."""
    refuse(Coordinator(full=True), r"group\.consumer\.max\.size")


def test_an_owner_that_does_not_revoke_in_time_is_evicted() -> None:
    """If that does not help the capture fails; others are not evicted, and all sentinels leave."""
    owner, other = reader("a", 0, 1, 2), reader("b", 3, 4, 5)
    moving = [replace(owner, target=orders(0, 2)), replace(other, target=orders(1, 3, 4, 5))]
    group = Coordinator(readers=moving, deaf=True)

    refuse(group, "orders:1: not assigned", ConsumerHold(patience_s=10))

    leaving = {beat.member_id for beat in group.heartbeats if beat.epoch == LEAVE_EPOCH}
    assert {"a"} == leaving & {"a", "b"}


@pytest.mark.parametrize(("rival", "words"), [("!00", "another hold"), ("~", "not assigned")])
def test_of_two_captures_the_one_whose_members_sort_first_goes_on(rival: str, words: str) -> None:
    """A simultaneous capture is noticed, and one of the two gives up at once."""
    refuse(Coordinator(deaf=True, rival=rival), words)


@pytest.mark.parametrize("rival", ["!00", "~"])
def test_a_waiting_capture_gives_way_to_one_that_has_started(rival: str) -> None:
    """Whatever the ids of its members: readers have started to revoke for the other."""
    group = Coordinator(rival=rival, rival_joins_when="joins")
    refuse(group, "another hold")

    assert not any(beat.topics for beat in group.heartbeats)


def test_a_capture_gives_way_more_than_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waits for members that change their partitions, and then for another capture."""
    reasons = iter(["a member is changing its partitions", "another capture"])

    def capture(*args: Any, **kwargs: Any) -> list[Holder]:
        for why in reasons:
            raise AnotherCapture(why)
        return capture_lossless(*args, **kwargs)

    monkeypatch.setitem(RECIPES, CaptureMode.LOSSLESS, capture)
    hold, _ = captured(1)
    assert orders(1) == hold.held


def test_holders_keep_no_extra_partitions() -> None:
    """Nobody would read them, so the capture is repeated, or the partition is released."""
    hold, group = captured(1, generous=1)
    assert (1, orders(1)) == (len(group.holders), hold.held)

    refuse(Coordinator(generous=2), "other members interfered")

    hold, group = captured(1)
    group.generous = 1
    with pytest.raises(HoldLost):
        hold.keep(group)
    assert ({}, orders()) == (group.holders, hold.held)


@pytest.mark.parametrize(("interval_ms", "waits"), [(5000, True), (1000, False)])
def test_frequent_heartbeats_are_not_waited_for(interval_ms: int, *, waits: bool) -> None:
    """All members would notice a capture anyway."""
    _, group = captured(1, interval_ms=interval_ms)

    assert waits == (group.clock > 1)


def test_sentinels_have_the_majority_for_the_range_assignor() -> None:
    """More sentinels ask for it than there are members that may ask for another."""
    _, group = captured(1, readers=[reader(f"r{number}", number) for number in range(6)] * 2)
    votes = [beat for beat in group.heartbeats if beat.assignor == "range"]

    assert len(votes) == len(group.readers) + 1


def test_static_members_are_sorted_after_sentinels() -> None:
    """If a member has an instance id, sentinels have one that sorts before it."""
    _, group = captured(1, readers=[reader("a", 0, 1, 2), reader("b", 3, 4, 5, instance_id="b")])
    names = [join.build("g").instance_id for join in group.joins if join.instance_id]

    assert 6 == len(names)
    assert sorted([*names, "b"]) == [*names, "b"]


def test_the_assignor_of_the_group_is_restored() -> None:
    """Holders ask for the assignor that the group had before."""
    _, group = captured(1, 4, assignor="own")
    votes = {beat.member_id: beat.assignor for beat in group.heartbeats if beat.assignor}

    assert ["own", "own"] == [votes[member_id] for member_id in group.holders]


@pytest.mark.parametrize(("numbers", "places"), [((1,), {5}), ((1, 4), {0, 1})])
def test_freed_partitions_are_not_assigned_to_a_holder(
    numbers: tuple[int, ...], places: set[int]
) -> None:
    """A single holder settles after all others have left; several settle before."""
    _, group = captured(*numbers)
    settling = group.heartbeats[-5 - len(numbers) :]

    assert places == {at for at, beat in enumerate(settling) if beat.epoch != LEAVE_EPOCH}


def test_the_note_of_a_hold_has_its_session_timeout() -> None:
    """It is published when the hold is settled, and again when it changes."""
    first = HoldNote(who="ann", survives_s=45.0)
    longer = replace(first, reason="longer")
    hold, group = ConsumerHold(note=HoldNote(who="ann")), Coordinator()

    hold.capture(group, orders(1))
    hold.keep(group)
    hold.note = replace(hold.note, reason="longer")
    hold.keep(group)
    hold.keep(group)

    notes = [read_note(beat.rack_id) for beat in group.heartbeats if beat.rack_id]
    assert tuple(orders(1)) == notes[0].paused  # what is announced, before it is held
    assert [first, longer] == [one.note for one in notes[1:]]


def test_a_hold_that_lost_a_partition_reports_it_and_keeps_the_others() -> None:
    """A partition whose sentinel was removed is not captured again."""
    hold, group = captured(1, 4)
    members = {entry["partition"]: entry["member_id"] for entry in hold.state()["holders"]}
    del group.holders[members[4]]

    with pytest.raises(HoldLost, match=r"^orders:4 is no longer held"):
        hold.keep(group)

    assert orders(1) == hold.held
    hold.keep(group)
    assert [members[1]] == list(group.holders)


def test_a_rejected_heartbeat_does_not_end_a_hold() -> None:
    """The rejection is reported, and the hold continues once heartbeats are accepted again."""
    hold, group = captured(1)
    group.refusing = 30
    with pytest.raises(BrokerRefused, match="holding orders:1: not allowed"):
        hold.keep(group)

    group.refusing = 0
    hold.keep(group)
    assert orders(1) == hold.held


def test_a_loss_is_reported_though_no_broker_responds() -> None:
    """It is known whether or not the sentinel can be told to leave."""
    hold, group = captured(1)
    group.holders.clear()
    group.fail(ClusterUnreachable("gone"), at=1, is_heard=False)

    with pytest.raises(HoldLost):
        hold.keep(group)

    assert orders() == hold.held


@pytest.mark.parametrize("code", [25, 110, 69])
def test_a_release_reports_what_was_lost_before(code: int) -> None:
    """The others are released; partitions that a broker does not release stay held."""
    hold, group = captured(1, 4)
    members = {entry["partition"]: entry["member_id"] for entry in hold.state()["holders"]}
    del group.holders[members[4]]
    group.unknown = code
    with pytest.raises(HoldLost, match=r"^orders:4 is no longer held"):
        hold.release(group, orders(1, 4))
    assert (orders(), {}) == (hold.held, group.holders)

    hold, group = captured(1)
    group.refusing = 30
    with pytest.raises(BrokerRefused, match="releasing orders:1: not allowed"):
        hold.release(group, orders(1))
    assert orders(1) == hold.held


def test_a_hold_continues_from_its_state() -> None:
    """Another process keeps the same sentinels and releases them."""
    hold, group = captured(1, 4)
    other = ConsumerHold.from_state(json.loads(json.dumps(hold.state())))

    assert (hold.held, hold.state()) == (other.held, other.state())
    other.keep(group)
    other.release(group, orders(1, 2))
    assert (orders(4), 1) == (other.held, len(group.holders))
    other.release(group, orders(4))
    assert (orders(), {}) == (other.held, group.holders)


def test_sentinels_of_a_killed_capture_are_removed() -> None:
    """A keeper that takes over removes those of its own run that hold nothing, and no others."""
    hold, group = captured(1)
    (holds,) = group.holders
    group.holders |= {"!00000-run-7-x": ("orders",), "!00000-run-8-x": ("orders",)}
    other = ConsumerHold.from_state(hold.state(), note=HoldNote(run_id="run-7"))
    for _ in range(2):
        other.keep(group)

    assert {holds, "!00000-run-8-x"} == group.holders.keys()
    assert 1 == sum(beat.epoch == LEAVE_EPOCH for beat in group.heartbeats[-3:])


def test_partitions_stay_held_after_a_failed_release() -> None:
    """A release whose request failed can be repeated."""
    hold, group = captured(1)
    group.fail(ClusterUnreachable("no"), at=0, is_heard=False)
    with pytest.raises(ClusterUnreachable):
        hold.release(group, orders(1))

    assert orders(1) == hold.held
