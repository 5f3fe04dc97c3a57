"""The recipes for KIP-848 groups step by step: interrupted at each of them, refused, and lost."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any
from uuid import UUID

import pytest

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
    ConfigChanged,
    ConfigFound,
    FetchAllTopics,
    FetchGroupConfig,
)
from toolkit.kafka_io.membership.topics_and_commits import FetchTopics, Topic, TopicsFound
from toolkit.live.consumer_hold import ConsumerHold
from toolkit.live.recipe_steps import RecipeGenerator, SendBatch, Sleep
from toolkit.model import HOLDER_CLIENT_ID, CaptureMode, HoldNote, TopicPartition

TOPICS = {"orders": Topic(UUID(int=1), 6), "spare": Topic(UUID(int=2), 6)}


def orders(*numbers: int) -> frozenset[TopicPartition]:
    """Return partitions of the topic that the group reads."""
    return frozenset(TopicPartition("orders", number) for number in numbers)


def reader(name: str, *numbers: int, **other: Any) -> DescribedConsumerMember:
    """Return a member of the application."""
    return DescribedConsumerMember(
        **{
            "member_id": name,
            "client_id": name,
            "host": "/127.0.0.1",
            "instance_id": None,
            "rack_id": None,
            "epoch": 7,
            "topics": frozenset({"orders"}),
            "pattern": None,
            "assigned": orders(*numbers),
            "target": orders(*numbers),
            **other,
        }
    )


@dataclass
class Answers:
    """What a coordinator answers to one capture after another, as far as the recipes look at it."""

    readers: list[DescribedConsumerMember] = field(
        default_factory=lambda: [reader("a", 0, 1, 2), reader("b", 3, 4, 5)]
    )
    state: str = "Stable"
    error: int = 0
    assignor: str = "uniform"
    own: dict[str, str] = field(default_factory=dict)  # what is set for the group
    ours: dict[str, tuple[str, ...]] = field(default_factory=dict)  # members, and their topics
    evicted: bool = False
    stays_away: bool = False  # whether an evicted owner does not come back
    full: bool = False
    deaf: bool = False  # the owners never give anything up
    refusing: int = 0  # the error that heartbeats are answered with
    generous: int = 0  # how often a holder is given something besides
    clock: float = 0.0
    asked: list[Any] = field(default_factory=list)

    def take(self, step: Any) -> Any:
        """Answer what a recipe yields."""
        match step:
            case Sleep(seconds):
                self.clock += seconds
                return self.clock
            case SendBatch(requests):
                return tuple(self.take(request) for request in requests)
        self.asked.append(step)
        return self.answer(step)

    def answer(self, request: Any) -> Any:
        """Answer one request."""
        answer: Any
        match request:
            case DescribeConsumer():
                held = [
                    reader(name, client_id=HOLDER_CLIENT_ID, topics=frozenset(topics))
                    for name, topics in self.ours.items()
                ]
                members = (*self.readers, *held)
                answer = ConsumerFacts(self.error, "no", self.state, 7, self.assignor, members)
            case FetchTopics(names):
                answer = TopicsFound(0, {n: TOPICS[n] for n in names if n in TOPICS})
            case FetchAllTopics():
                answer = TopicsFound(0, TOPICS)
            case FetchGroupConfig():
                defaults = {ASSIGNMENT_INTERVAL_MS: "1000", SESSION_TIMEOUT_MS: "45000"}
                answer = ConfigFound(0, values=defaults | self.own, own=dict(self.own))
            case ChangeConfig(name, value):
                self.own.pop(name, None)
                self.own |= {} if value is None else {name: value}
                answer = ConfigChanged(0)
            case ConsumerHeartbeat():
                answer = self.heartbeat(request)
            case _:
                raise AssertionError(request)
        return answer

    def heartbeat(self, beat: ConsumerHeartbeat) -> ConsumerHeartbeatResult:
        """Let a member join, stay or leave."""
        if beat.epoch == LEAVE_EPOCH:
            self.evicted |= beat.member_id in {one.member_id for one in self.readers}
            if self.stays_away:
                self.readers = [one for one in self.readers if one.member_id != beat.member_id]
            return ConsumerHeartbeatResult(
                0 if self.ours.pop(beat.member_id, None) is not None else 25
            )
        if beat.epoch == JOIN_EPOCH:
            if self.full:
                return ConsumerHeartbeatResult(81, "full")
            self.ours[beat.member_id] = ()
        if self.refusing:
            return ConsumerHeartbeatResult(self.refusing, "not allowed")
        if beat.member_id not in self.ours:
            return ConsumerHeartbeatResult(25, "unknown")
        if beat.topics is not None:
            self.ours[beat.member_id] = beat.topics
        return ConsumerHeartbeatResult(
            0, epoch=8, assigned=self.assigned(beat.member_id), interval_ms=5000
        )

    def assigned(self, member_id: str) -> frozenset[IdPartition]:
        """Return what the assignors give to ours, which sort first."""
        topics = self.ours[member_id]
        wanting = sorted(name for name, wanted in self.ours.items() if wanted == topics)
        place = wanting.index(member_id)
        given = set()
        if "spare" in topics:
            share = 6 // len(wanting)
            given = {IdPartition(UUID(int=2), place * share + n) for n in range(share)}
        if self.deaf:
            return frozenset()
        if self.generous and self.asked[-1].owned and not topics:
            self.generous -= 1
            given = {IdPartition(UUID(int=1), number) for number in range(3)}
        if topics == ("orders",) or ("orders" in topics and self.evicted):
            given.add(IdPartition(UUID(int=1), place))
        return frozenset(given)

    @property
    def joined(self) -> bool:
        """Whether anybody of ours was ever a member."""
        return any(
            isinstance(one, ConsumerHeartbeat) and one.epoch == JOIN_EPOCH for one in self.asked
        )


def carry_out(
    recipe: RecipeGenerator[None],
    answers: Answers,
    *,
    interrupted_at: int = -1,
    by: BaseException | None = None,
    heard: bool = False,
) -> None:
    """Answer every step of a recipe, but raise an error at one, perhaps after it was heard."""
    with suppress(StopIteration):
        step = next(recipe)
        for number in count():
            if number == interrupted_at:
                if heard:
                    answers.take(step)
                step = recipe.throw(by or Interrupted("stop"))
            else:
                step = recipe.send(answers.take(step))


def go_on(recipe: RecipeGenerator[None], step: Any, answers: Answers) -> None:
    """Answer every step from this one on."""
    with suppress(StopIteration):
        while True:
            step = recipe.send(answers.take(step))


@pytest.mark.parametrize("heard", [False, True], ids=["unsent", "sent"])
@pytest.mark.parametrize("prefer", CaptureMode)
@pytest.mark.parametrize("own", [{}, {ASSIGNMENT_INTERVAL_MS: "2000"}], ids=["default", "set"])
@pytest.mark.parametrize(
    "error", [Interrupted("stop"), ClusterUnreachable("gone"), KeyboardInterrupt()], ids=type
)
def test_an_interruption_at_any_step_leaves_nobody_behind(
    prefer: CaptureMode, own: dict[str, str], error: BaseException, *, heard: bool
) -> None:
    """Wherever a capture ends early, all of ours have left and what was set is set back."""
    for at in count():
        hold, answers = ConsumerHold(prefer), Answers(own=dict(own))
        try:
            capture = hold.capture(orders(1))
            carry_out(capture, answers, interrupted_at=at, by=error, heard=heard)
        except type(error):
            assert ({}, own, orders()) == (answers.ours, answers.own, hold.held), f"step {at}"
        else:
            break

    assert at > len(["look", "topics", "session", "join", "beat", "settle"])
    assert (1, own, orders(1)) == (len(answers.ours), answers.own, hold.held)


@pytest.mark.parametrize("prefer", [CaptureMode.QUIET, CaptureMode.FAST])
@pytest.mark.parametrize(("stays_away", "after_s"), [(True, 45), (False, 0)])
def test_an_evicted_owner_is_waited_for_until_its_session_has_expired(
    prefer: CaptureMode, *, stays_away: bool, after_s: int
) -> None:
    """Until it is back it may read what it had; the hold lasts meanwhile."""
    hold, answers = ConsumerHold(prefer), Answers(stays_away=stays_away)
    carry_out(hold.capture(orders(1)), answers)

    assert orders(1) == hold.held
    assert after_s <= answers.clock < after_s + 20


def test_a_second_interruption_does_not_keep_anybody_from_leaving() -> None:
    """Ctrl-C while members of ours leave does not leave them behind."""
    hold, answers = ConsumerHold(), Answers()
    capture = hold.capture(orders(1))
    step = next(capture)
    while not answers.ours:
        step = capture.send(answers.take(step))

    leaving = capture.throw(KeyboardInterrupt())
    again = capture.throw(KeyboardInterrupt())

    assert leaving == again
    with pytest.raises(KeyboardInterrupt):
        capture.send(answers.take(again))
    assert {} == answers.ours


def test_what_could_not_be_undone_is_said() -> None:
    """Where nobody answers any more, it is said what is left in the group, and for how long."""
    answers = Answers()
    capture = ConsumerHold(CaptureMode.FAST).capture(orders(1))
    step = next(capture)
    while not answers.ours:
        step = capture.send(answers.take(step))
    capture.throw(ClusterUnreachable("nobody is there"))

    words = r"is there; 6 offsetbook members .* session timeout; consumer\.assignment\.interval\.ms"
    with pytest.raises(NotCaptured, match=words):
        capture.throw(ClusterUnreachable("nobody is there"))


def test_what_is_held_stays_held_when_more_cannot_be() -> None:
    """A capture that is interrupted at any step does not touch what was captured before."""
    for at in count():
        hold, answers = ConsumerHold(), Answers()
        carry_out(hold.capture(orders(1)), answers)
        before = dict(answers.ours)
        try:
            carry_out(hold.capture(orders(1, 4)), answers, interrupted_at=at)
        except Interrupted:
            assert (before, orders(1)) == (answers.ours, hold.held), f"step {at}"
        else:
            break

    assert orders(1, 4) == hold.held
    assert before.items() < answers.ours.items()


def test_what_is_held_already_is_not_captured_again() -> None:
    """To capture what is held asks nothing of anybody."""
    hold, answers = ConsumerHold(), Answers()
    carry_out(hold.capture(orders(1)), answers)
    answers.asked.clear()
    carry_out(hold.capture(orders(1)), answers)

    assert [] == answers.asked


def test_what_is_held_is_kept_while_more_is_captured() -> None:
    """A capture may take as long as a session, so holders are heard of meanwhile."""
    hold, answers = ConsumerHold(), Answers()
    carry_out(hold.capture(orders(1)), answers)
    (holder,) = answers.ours
    answers.asked.clear()
    answers.deaf = True
    with pytest.raises(NotCaptured):
        carry_out(hold.capture(orders(4)), answers)

    assert 2 < sum(
        isinstance(one, ConsumerHeartbeat) and one.member_id == holder for one in answers.asked
    )


def test_quiet_refuses_before_anybody_is_evicted_where_it_would_not_be_exact() -> None:
    """Members of ours that are not given what they need leave, and no other capture is tried."""
    hold, answers = ConsumerHold(CaptureMode.QUIET), Answers(deaf=True)
    with pytest.raises(NotCaptured, match="no member was evicted"):
        carry_out(hold.capture(orders(1)), answers)

    assert ({}, False) == (answers.ours, answers.evicted)
    beats = [one for one in answers.asked if isinstance(one, ConsumerHeartbeat)]
    assert "range" not in {beat.assignor for beat in beats}


def held_elsewhere(*numbers: int) -> DescribedConsumerMember:
    """Return a member of somebody else's hold."""
    return reader(
        "!theirs",
        client_id=HOLDER_CLIENT_ID,
        topics=frozenset(),
        assigned=orders(*numbers),
        target=orders(),
    )


CAPTURING = reader("!00", client_id=HOLDER_CLIENT_ID, assigned=orders(), target=orders(1))
MOVING = reader("c", assigned=orders(), target=orders(5))


@pytest.mark.parametrize(
    ("answers", "wanted", "words"),
    [
        (Answers(error=69), orders(1), "no KIP-848 group with this name"),
        (Answers(error=30), orders(1), "cannot be described"),
        (Answers(readers=[], state="Empty"), orders(1), "no consuming member"),
        (Answers(readers=[held_elsewhere(5)]), orders(1), "no consuming member"),
        (Answers(), orders(1, 6), "no partition orders-6"),
        (Answers(), orders(1, -1), "no partition orders--1"),
        (Answers(), frozenset({TopicPartition("gone", 0)}), "no partition gone-0"),
        (
            Answers(),
            frozenset({TopicPartition("spare", 0)}),
            "no member of the group subscribes to",
        ),
        (Answers(readers=[reader("a", 0), held_elsewhere(1)]), orders(1), "already held"),
        (Answers(state="Assigning"), orders(1), "does not become Stable: its state is Assigning"),
        (
            Answers(readers=[reader("a", 0), CAPTURING], state="Reconciling"),
            orders(1),
            "another hold is being captured",
        ),
        (
            Answers(readers=[reader("a", 0), MOVING], state="Reconciling"),
            orders(1),
            "member c @ /127.0.0.1 is changing",
        ),
    ],
)
def test_what_is_refused_before_anybody_joins(
    answers: Answers, wanted: frozenset[TopicPartition], words: str
) -> None:
    """A capture that cannot succeed, or must not, says why and leaves the group alone."""
    with pytest.raises(NotCaptured, match=words):
        carry_out(ConsumerHold().capture(wanted), answers)

    assert not answers.joined


@pytest.mark.parametrize(
    ("answers", "wanted", "words"),
    [
        (Answers(readers=[reader("a", 0, 1, 2, 3, 4), reader("b", 5)]), orders(1), "with 20 part"),
        (Answers(), orders(1, 4), "with 12 partitions"),
        (Answers(assignor="range"), orders(1), "the group uses range"),
    ],
)
def test_quiet_says_what_it_lacks(
    answers: Answers, wanted: frozenset[TopicPartition], words: str
) -> None:
    """Without a topic to load members of ours with, or on another assignor, nobody joins."""
    with pytest.raises(NotCaptured, match=words):
        carry_out(ConsumerHold(CaptureMode.QUIET).capture(wanted), answers)

    assert not answers.joined


def test_a_group_that_is_full_is_left_at_once() -> None:
    """The limit on a group's members is named, and none of ours stays."""
    answers = Answers(full=True)

    with pytest.raises(NotCaptured, match=r"group\.consumer\.max\.size"):
        carry_out(ConsumerHold().capture(orders(1)), answers)

    assert {} == answers.ours


def test_who_does_not_let_go_in_time_is_evicted() -> None:
    """Then it is given up if that did not help; others are not evicted, and all of ours leave."""
    answers = Answers(deaf=True)
    answers.readers[0] = replace(answers.readers[0], target=orders(0, 2))
    answers.readers[1] = replace(answers.readers[1], target=orders(1, 3, 4, 5))

    with pytest.raises(NotCaptured, match="orders-1: not assigned"):
        carry_out(ConsumerHold(patience_s=10).capture(orders(1)), answers)

    assert {} == answers.ours
    leaving = {one.member_id for one in answers.asked if getattr(one, "epoch", 0) == LEAVE_EPOCH}
    assert {"a"} == leaving & {"a", "b"}


@pytest.mark.parametrize(("name", "gives_up"), [("!00", True), ("~", False)])
def test_of_two_captures_the_one_whose_members_sort_first_goes_on(
    name: str, *, gives_up: bool
) -> None:
    """Somebody else who began at the same time is seen, and one of the two gives up at once."""
    answers = Answers(deaf=True)
    capture = ConsumerHold().capture(orders(1))
    step = next(capture)
    while not answers.ours:
        step = capture.send(answers.take(step))
    answers.readers.append(replace(CAPTURING, member_id=name))
    words = "another hold" if gives_up else "not assigned"

    with pytest.raises(NotCaptured, match=words):
        go_on(capture, step, answers)

    assert {} == answers.ours


def test_what_holders_are_given_besides_is_not_left_to_them() -> None:
    """Nobody would read it, so the capture is tried once more, or what is held is given up."""
    hold, answers = ConsumerHold(), Answers(generous=1)
    carry_out(hold.capture(orders(1)), answers)
    assert (1, orders(1)) == (len(answers.ours), hold.held)

    answers = Answers(generous=2)
    with pytest.raises(NotCaptured, match="other members interfered"):
        carry_out(ConsumerHold().capture(orders(1)), answers)
    assert {} == answers.ours

    hold, answers = ConsumerHold(), Answers()
    carry_out(hold.capture(orders(1)), answers)
    answers.generous = 1
    with pytest.raises(HoldLost):
        carry_out(hold.keep(), answers)
    assert ({}, orders()) == (answers.ours, hold.held)


def test_the_flood_has_most_votes() -> None:
    """More of ours ask for the range assignor than there are members that may ask for another."""
    answers = Answers(readers=[reader(f"r{number}", number) for number in range(6)] * 2)
    carry_out(ConsumerHold().capture(orders(1)), answers)
    votes = [
        one
        for one in answers.asked
        if isinstance(one, ConsumerHeartbeat) and one.assignor == "range"
    ]

    assert len(votes) == len(answers.readers) + 1


def test_static_members_are_sorted_behind_ours() -> None:
    """Where a member has an instance id, ours have one that sorts before it."""
    answers = Answers(readers=[reader("a", 0, 1, 2), reader("b", 3, 4, 5, instance_id="b")])
    carry_out(ConsumerHold().capture(orders(1)), answers)
    joins = [
        one
        for one in answers.asked
        if isinstance(one, ConsumerHeartbeat) and one.epoch == JOIN_EPOCH
    ]
    names = [join.build("g").instance_id for join in joins]

    assert 6 == len(names)
    assert sorted([*names, "b"]) == [*names, "b"]


def test_the_assignor_of_the_group_is_left_as_it_was() -> None:
    """The members that hold ask for the assignor that the group had before."""
    answers = Answers(assignor="own")
    carry_out(ConsumerHold().capture(orders(1, 4)), answers)
    votes = {
        one.member_id: one.assignor
        for one in answers.asked
        if isinstance(one, ConsumerHeartbeat) and one.assignor
    }

    assert ["own", "own"] == [votes[member_id] for member_id in answers.ours]


@pytest.mark.parametrize(("wanted", "places"), [(orders(1), {5}), (orders(1, 4), {0, 1})])
def test_what_is_set_free_is_not_given_to_a_holder(
    wanted: frozenset[TopicPartition], places: set[int]
) -> None:
    """One holder settles when all others have left; several settle before any of them leaves."""
    answers = Answers()
    carry_out(ConsumerHold().capture(wanted), answers)
    settling = [one for one in answers.asked if isinstance(one, ConsumerHeartbeat)][-6:]

    assert places == {at for at, one in enumerate(settling) if one.epoch != LEAVE_EPOCH}


def test_a_note_says_how_long_the_hold_survives_and_changes_with_it() -> None:
    """The note is published when the hold is settled, and again when it is another one."""
    hold, answers = ConsumerHold(note=HoldNote(who="ann")), Answers()

    def published() -> list[HoldNote]:
        return [
            read_note(one.rack_id).note
            for one in answers.asked
            if isinstance(one, ConsumerHeartbeat) and one.rack_id
        ]

    carry_out(hold.capture(orders(1)), answers)
    carry_out(hold.keep(), answers)
    assert [HoldNote(who="ann", survives_s=45.0)] == published()

    hold.note = replace(hold.note, reason="longer")
    carry_out(hold.keep(), answers)
    carry_out(hold.keep(), answers)
    assert [HoldNote(who="ann", reason="longer", survives_s=45.0)] == published()[1:]


def test_a_hold_that_lost_a_partition_says_which_and_goes_on_with_the_others() -> None:
    """A partition whose member was removed is lost, is not captured again, others stay held."""
    hold, answers = ConsumerHold(), Answers()
    carry_out(hold.capture(orders(1, 4)), answers)
    members = {entry["partition"]: entry["member_id"] for entry in hold.state()["holders"]}
    del answers.ours[members[4]]

    with pytest.raises(HoldLost, match=r"^orders-4 is no longer held"):
        carry_out(hold.keep(), answers)

    assert orders(1) == hold.held
    carry_out(hold.keep(), answers)
    assert [members[1]] == list(answers.ours)


def test_a_broker_that_refuses_does_not_end_a_hold() -> None:
    """What is neither lost nor accepted is said, and the hold goes on when it is accepted again."""
    hold, answers = ConsumerHold(), Answers()
    carry_out(hold.capture(orders(1)), answers)
    answers.refusing = 30
    with pytest.raises(BrokerRefused, match="holding orders-1: not allowed"):
        carry_out(hold.keep(), answers)

    answers.refusing = 0
    carry_out(hold.keep(), answers)
    assert orders(1) == hold.held


def test_what_is_lost_is_said_though_nobody_answers_any_more() -> None:
    """That a partition is lost is known, whether its member can be told to leave or not."""
    hold, answers = ConsumerHold(), Answers()
    carry_out(hold.capture(orders(1)), answers)
    answers.ours.clear()

    with pytest.raises(HoldLost):
        carry_out(hold.keep(), answers, interrupted_at=1, by=ClusterUnreachable("gone"))

    assert orders() == hold.held


def test_a_hold_goes_on_from_its_state() -> None:
    """What another process needs is in the state: it keeps the same members and releases them."""
    hold, answers = ConsumerHold(), Answers()
    carry_out(hold.capture(orders(1, 4)), answers)
    other = ConsumerHold.from_state(json.loads(json.dumps(hold.state())))

    assert (hold.held, hold.state()) == (other.held, other.state())
    carry_out(other.keep(), answers)
    carry_out(other.release(orders(1, 2)), answers)
    assert (orders(4), 1) == (other.held, len(answers.ours))
    carry_out(other.release(orders(4)), answers)
    assert (orders(), {}) == (other.held, answers.ours)


def test_what_could_not_be_released_is_still_held() -> None:
    """A release that did not get through can be tried again."""
    hold, answers = ConsumerHold(), Answers()
    carry_out(hold.capture(orders(1)), answers)

    with pytest.raises(ClusterUnreachable):
        carry_out(hold.release(orders(1)), answers, interrupted_at=0, by=ClusterUnreachable("no"))

    assert orders(1) == hold.held
