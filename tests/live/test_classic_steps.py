"""The recipes for classic groups step by step: interrupted at each of them, refused, and lost."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolkit.errors import (
    Blocked,
    ClusterUnreachable,
    HoldLost,
    Interrupted,
    NotCaptured,
)
from toolkit.kafka_io.groups.hold_notes import read_note
from toolkit.kafka_io.groups.subscriptions import assignment_from_bytes, user_data_from_bytes
from toolkit.kafka_io.membership.classic import (
    ClassicFacts,
    ClassicHeartbeat,
    DescribeClassic,
    DescribedClassicMember,
    Join,
    JoinResult,
    Leave,
    LeaveResult,
    Sync,
    SyncResult,
)
from toolkit.kafka_io.membership.protocol_bytes import PROTOCOLS, read_subscription
from toolkit.kafka_io.membership.protocol_fields import (
    int16,
    optional_bytes,
    partitions,
    strings,
)
from toolkit.kafka_io.membership.request import ErrorCodeResult
from toolkit.kafka_io.membership.topics_and_commits import (
    CommitsFound,
    FetchCommits,
    FetchTopics,
    Topic,
    TopicsFound,
)
from toolkit.live.classic_hold import ClassicHold
from toolkit.live.classic_member import place_in_table
from toolkit.live.recipe_steps import (
    IsAnswered,
    RecipeGenerator,
    SendAhead,
    SendBatch,
    SendInTurn,
    Sleep,
    WaitFor,
)
from toolkit.model import HOLDER_CLIENT_ID, CaptureMode, HoldNote, TopicPartition

EAGER, COOPERATIVE = "range", "cooperative-sticky"
QUIET = CaptureMode.QUIET
each = pytest.mark.parametrize(
    ("protocol", "prefer"),
    [(EAGER, CaptureMode.LOSSLESS), (COOPERATIVE, CaptureMode.LOSSLESS), (COOPERATIVE, QUIET)],
)


def orders(*numbers: int) -> frozenset[TopicPartition]:
    """Return partitions of the topic that the group reads."""
    return frozenset(TopicPartition("orders", number) for number in numbers)


def owning(
    protocol: str, owned: frozenset[TopicPartition], topics: Sequence[str] = ("orders",)
) -> bytes:
    """Return a subscription of a member of the application."""
    if protocol == EAGER:
        return int16(0) + strings(topics) + optional_bytes(None)
    return int16(1) + strings(topics) + optional_bytes(None) + partitions(owned)


@dataclass(frozen=True)
class Between:
    """A look at the group that was sent between two joins."""

    request: DescribeClassic


@dataclass
class Coordinator:
    """A coordinator of one group, as far as the recipes look at it."""

    protocol: str
    shares: dict[str, frozenset[TopicPartition]] = field(
        default_factory=lambda: {"a-1": orders(0, 1, 2), "b-1": orders(3, 4, 5)}
    )
    state: str = "Stable"
    holder_there: bool = False
    leads: str = ""  # who leads in spite of all; "" for the first member
    listed_first: str = ""  # before ours
    intruder: str = ""  # joins while the group waits for ours
    taken: bool = True  # whether members take what they are given
    stays_away: str = ""  # who does not come back when it was removed
    polls_seldom: bool = False  # whether a member does not join in time
    faster: int = 0  # how often the leader assigns again before ours can stop it
    unseen: int = 0  # how often it does so just after the look
    believes: bool = True  # whether the leader leaves to ours what they say they own
    subscribes: str = ""  # what `b-1` subscribes to besides
    had: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)  # before they let go
    freed_at: int = 0  # after so many requests nobody owned anything; 0: never
    misses: str = ""  # who does not hear that it owns nothing, unless it leads
    lost: list[str] = field(default_factory=list)  # who was removed while it did not know that
    insists: bool = False  # whether who was removed claims what it had; nothing more comes of it
    claims: list[Join] = field(default_factory=list)  # those of ours
    beats: list[int] = field(default_factory=list)  # what heartbeats are answered next
    clock: float = 0.0
    counts: int = 6
    ours: list[str] = field(default_factory=list)  # ids that are out
    joined: set[str] = field(default_factory=set)
    stopped: bool = False  # the last rebalance took away all assignments
    generation: int = 4
    given: dict[str, bytes] = field(default_factory=dict)
    asked: list[Any] = field(default_factory=list)
    last: Any = None  # what was not answered
    # Which ids are given out decides how many are drawn: each coordinator gives out the same.
    drawn: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - ids

    def take(self, step: Any) -> Any:
        """Answer what a recipe yields."""
        answer: Any
        match step:
            case Sleep(seconds):
                self.clock += seconds
                answer = self.clock
            case SendBatch(requests):
                answer = tuple(self.take(request) for request in requests)
            case SendInTurn((join, look, again)):
                answer = self.take(SendAhead(join)), Between(look), self.take(SendAhead(again))
            case SendAhead(DescribeClassic()):
                answer = None  # opens a connection
            case SendAhead(request):
                self.state = "PreparingRebalance"
                self.joined.add(request.member_id)
                self.revoke(request)
                answer = request
            case IsAnswered():
                answer = not self.polls_seldom
            case WaitFor(Between()):
                self.faster, is_late = max(0, self.faster - 1), self.faster > 0
                self.unseen, is_unseen = max(0, self.unseen - 1), self.unseen > 0
                self.stopped = not (is_late or is_unseen)
                self.shares = self.shares if self.stopped else self.had or self.shares
                self.state = "PreparingRebalance"  # by the join that was sent behind it
                answer = ClassicFacts(0, state="Stable" if is_late else "CompletingRebalance")
            case WaitFor(sent):
                answer = self.take(sent)
            case request:
                self.asked.append(request)
                answer = self.answer(request)
        return answer

    def revoke(self, join: Join) -> None:
        """Have the members let go of what a member of ours says it owns."""
        claim = read_subscription(dict(join.protocols).get(self.protocol, b""))
        self.claims += [join] if claim and claim.owned else []
        if self.believes and claim and claim.owned:
            self.had = self.had or self.shares
            self.shares = {one: share - claim.owned for one, share in self.shares.items()}
            is_free = not any(self.shares.values())
            self.freed_at = self.freed_at or (len(self.asked) if is_free else 0)

    def answer(self, request: Any) -> Any:
        """Answer one request."""
        answer: Any
        match request:
            case DescribeClassic():
                answer = ClassicFacts(
                    0, "", self.state, "consumer", self.protocol, tuple(map(self.told, self.ids))
                )
            case FetchTopics(names):
                topic = Topic(uuid.UUID(int=1), self.counts)
                answer = TopicsFound(0, dict.fromkeys(names, topic))
            case FetchCommits():
                answer = CommitsFound(0, dict.fromkeys(orders(*range(6)), int(self.clock * 10)))
            case Join():
                answer = self.join(request)
            case Sync():
                answer = self.sync(request)
            case Leave(ids):
                answer = self.leave(ids)
            case ClassicHeartbeat(member_id):
                known = self.beats.pop(0) if self.beats else 0
                answer = ErrorCodeResult(known if member_id in self.ours else 25)
            case _:
                raise AssertionError(request)
        return answer

    @property
    def leader(self) -> str:
        """Who of the application leads; "" where it is one of ours."""
        first = self.listed_first if self.listed_first in self.shares else ""
        return self.leads or ("a-1" if "a-1" in self.shares else first)

    @property
    def ids(self) -> list[str]:
        """The members, ours first or nearly so."""
        ours = [one for one in self.ours if one in self.joined]
        ours += [self.intruder] if self.intruder and self.joined else []
        first = [one for one in self.shares if one == self.listed_first]
        return [*first, *ours, *(one for one in self.shares if one not in first)]

    def told(self, member_id: str) -> DescribedClassicMember:
        """Return what is told about a member."""
        share = self.shares.get(member_id, frozenset())
        client = (
            HOLDER_CLIENT_ID if self.holder_there or member_id == self.intruder else member_id[:-2]
        )
        given = PROTOCOLS["range"].assignment(share, generation=4)
        if self.stopped and self.state == "PreparingRebalance":
            given = b""
        topics = ["orders", *([self.subscribes] if self.subscribes and member_id == "b-1" else [])]
        subscription = owning(self.protocol, share, topics)
        return DescribedClassicMember(member_id, client, "/127.0.0.1", None, subscription, given)

    def join(self, join: Join) -> JoinResult:
        """Give an id out, or end a rebalance at once: all others have joined."""
        if not join.member_id:
            self.ours.append(f"{HOLDER_CLIENT_ID}-{uuid.UUID(int=self.drawn.getrandbits(128))}")
            return JoinResult(79, self.ours[-1])
        if join.member_id not in self.ours:
            return JoinResult(25)
        self.joined.add(join.member_id)
        self.state = "Stable"
        self.generation += 1
        leader = self.leader or join.member_id
        self.misses = "" if self.misses == leader else self.misses
        members = {one: owning(self.protocol, share) for one, share in self.shares.items()}
        members |= {join.member_id: dict(join.protocols)[self.protocol]}
        told = members if leader == join.member_id else {}
        return JoinResult(0, join.member_id, self.generation, leader, self.protocol, told)

    def sync(self, sync: Sync) -> SyncResult:
        """Hand out what a leader says; who has to let go of something joins again."""
        if not sync.assignments:
            return SyncResult(0)
        self.given = dict(sync.assignments)
        shares = {one: frozenset(assignment_from_bytes(self.given[one])) for one in self.shares}
        heard = [one for one in shares if not (self.insists and one.endswith("-2"))]
        if self.protocol == COOPERATIVE and any(self.shares[o] - shares[o] for o in heard):
            self.beats.append(27)
        if self.taken:
            self.shares = shares
        return SyncResult(0)

    def leave(self, ids: tuple[str, ...]) -> LeaveResult:
        """Let ours go; members of the application come back under new ids, and own nothing."""
        self.lost += [one for one in ids if one == self.misses]
        for one in ids:
            if one in self.ours:
                self.ours.remove(one)
            elif (share := self.shares.pop(one, None)) is not None and one != self.stays_away:
                self.shares[f"{one[:-1]}{int(one[-1]) + 1}"] = (
                    share if self.insists else frozenset()
                )
        if not self.ours and self.state == "PreparingRebalance":
            self.state = "Stable"
        return LeaveResult(0, dict.fromkeys(ids, 0))

    @property
    def assigned(self) -> dict[str, tuple[TopicPartition, ...]]:
        """What everybody was given last."""
        return {one: assignment_from_bytes(data) for one, data in self.given.items()}


def carry_out(
    recipe: RecipeGenerator[None],
    answers: Coordinator,
    stop_at: int = -1,
    error: Exception | None = None,
) -> int:
    """Carry a recipe out, with an error instead of one of its answers; return how many it got."""
    answer, steps = None, 0
    with suppress(StopIteration):
        while True:
            stops = error and steps - 1 == stop_at
            step = recipe.throw(error) if error and stops else recipe.send(answer)
            answer = answers.take(step)
            steps += 1
            answers.last = step if steps - 1 == stop_at else answers.last
    return steps


def captured(
    protocol: str, *numbers: int, prefer: CaptureMode = CaptureMode.LOSSLESS
) -> tuple[ClassicHold, Coordinator]:
    """Return a hold of some partitions, and the coordinator."""
    hold = ClassicHold(note=HoldNote(who="ann"), prefer=prefer)
    answers = Coordinator(protocol)
    carry_out(hold.capture(orders(*numbers)), answers)
    return hold, answers


@each
def test_a_capture_gives_out_all_but_what_is_held(protocol: str, prefer: CaptureMode) -> None:
    """Every member gets valid bytes, ours the note, and of ids of ours only one stays."""
    hold, answers = captured(protocol, 1, 4, prefer=prefer)
    (mine,) = answers.ours

    assert orders(1, 4) == hold.held
    given = [one for share in answers.assigned.values() for one in share]
    assert sorted(orders(0, 2, 3, 5)) == sorted(given)
    assert {*answers.shares, mine} == answers.given.keys()
    assert all(answers.given.values())
    note = read_note(user_data_from_bytes(answers.given[mine]))
    assert (tuple(sorted(orders(1, 4))), "ann", 45) == (
        note.paused,
        note.note.who,
        note.note.survives_s,
    )


@each
def test_a_capture_leaves_with_all_it_has_wherever_it_is_stopped(
    protocol: str, prefer: CaptureMode
) -> None:
    """Whatever goes wrong at whichever step, every id that it got is left and nothing is held."""
    steps = carry_out(
        ClassicHold(note=HoldNote(), prefer=prefer).capture(orders(1)), Coordinator(protocol)
    )
    for stop_at in range(steps):
        error = Interrupted("enough") if stop_at % 2 else ClusterUnreachable("gone")
        hold, answers = ClassicHold(note=HoldNote(), prefer=prefer), Coordinator(protocol)
        with pytest.raises(type(error)):
            carry_out(hold.capture(orders(1)), answers, stop_at, error)
        # Ids that were just given out when the answer got lost are only ids yet.
        assert not set(answers.ours) & answers.joined, stop_at
        assert isinstance(answers.last, SendBatch) or [] == answers.ours, stop_at
        assert frozenset() == hold.held
        with pytest.raises(HoldLost):
            hold.state()


@each
def test_a_capture_of_more_that_is_stopped_leaves_what_was_held(
    protocol: str, prefer: CaptureMode
) -> None:
    """The member stays, and the next round says to all what is held now."""
    hold, answers = captured(protocol, 1, prefer=prefer)
    steps = carry_out(hold.capture(orders(4)), answers)
    for stop_at in range(steps):
        hold, answers = captured(protocol, 1, prefer=prefer)
        with pytest.raises(Interrupted):
            carry_out(hold.capture(orders(4)), answers, stop_at, Interrupted("enough"))
        for _ in range(3):
            carry_out(hold.keep(), answers)

        assert orders(1) == hold.held
        assert 1 == len(answers.ours)
        assert orders(0, 2, 3, 4, 5) == frozenset().union(*answers.shares.values())


def test_cooperative_members_have_let_go_before_a_capture_is_done() -> None:
    """It ends only when nobody says any more that it owns what is held."""
    hold, answers = (
        ClassicHold(note=HoldNote(), prefer=QUIET),
        Coordinator(COOPERATIVE, taken=False),
    )
    with pytest.raises(NotCaptured, match="orders:4"):
        carry_out(hold.capture(orders(4)), answers)

    assert [] == answers.ours
    assert frozenset() == hold.held


@pytest.mark.parametrize("when", ["faster", "unseen"])
def test_an_eager_group_is_stopped_again_if_its_leader_was_faster(when: str) -> None:
    """Then members own something again; after some tries nobody is removed."""
    once, always = Coordinator(EAGER, **{when: 1}), Coordinator(EAGER, **{when: 9})
    carry_out(ClassicHold(note=HoldNote()).capture(orders(1)), once)
    with pytest.raises(NotCaptured, match="no member was evicted"):
        carry_out(ClassicHold(note=HoldNote()).capture(orders(1)), always)

    assert {"a-2", "b-1"} == once.shares.keys()
    assert {"a-1", "b-1"} == always.shares.keys()
    assert [] == always.ours


@pytest.mark.parametrize(("polls_seldom", "after_s"), [(True, 15), (False, 0)])
def test_an_eager_group_waits_for_members_that_poll_seldom(
    *, polls_seldom: bool, after_s: int
) -> None:
    """Not for ever: one that hangs is removed as well."""
    hold, answers = ClassicHold(note=HoldNote()), Coordinator(EAGER, polls_seldom=polls_seldom)
    carry_out(hold.capture(orders(1)), answers)

    assert orders(1) == hold.held
    assert after_s <= answers.clock < after_s + 10


@each
@pytest.mark.parametrize(("wanted", "after_s"), [(orders(1), 45), (orders(4), 0)])
def test_an_owner_that_stays_away_is_waited_for_until_its_session_has_expired(
    protocol: str, prefer: CaptureMode, wanted: frozenset[TopicPartition], after_s: int
) -> None:
    """Until then it may read what it had; who did not have what is held is not waited for."""
    hold, answers = (
        ClassicHold(note=HoldNote(), prefer=prefer),
        Coordinator(protocol, stays_away="a-1"),
    )
    carry_out(hold.capture(wanted), answers)

    assert wanted == hold.held
    assert after_s <= answers.clock < after_s + 45


@pytest.mark.parametrize(
    ("first", "wanted"), [("", orders(1)), ("b-1", orders(4)), ("b-1", orders(1, 4))]
)
def test_who_was_removed_is_asked_again_what_it_owns(
    first: str, wanted: frozenset[TopicPartition]
) -> None:
    """It claims what it had, though it has let go of that, and does not join again by itself."""
    hold, answers = (
        ClassicHold(note=HoldNote(), prefer=QUIET),
        Coordinator(COOPERATIVE, insists=True),
    )
    answers.listed_first = first
    carry_out(hold.capture(wanted), answers)

    assert wanted == hold.held
    assert orders(*range(6)) - wanted == frozenset().union(*answers.shares.values())


@each
def test_a_group_that_another_member_leads_all_the_same_is_left(
    protocol: str, prefer: CaptureMode
) -> None:
    """Then nothing is held, and no member of ours may keep a share."""
    hold, answers = ClassicHold(note=HoldNote(), prefer=prefer), Coordinator(protocol, leads="c-1")
    with pytest.raises(NotCaptured, match="another member is the group leader"):
        carry_out(hold.capture(orders(1)), answers)

    assert [] == answers.ours


@each
def test_a_hold_of_a_group_that_another_member_leads_is_lost(
    protocol: str, prefer: CaptureMode
) -> None:
    """Our member leaves then, so that it does not keep the share that the leader gives it."""
    hold, answers = captured(protocol, 1, prefer=prefer)
    answers.leads, answers.beats = "c-1", [27]
    with pytest.raises(HoldLost, match="another member is the group leader"):
        carry_out(hold.keep(), answers)

    assert [] == answers.ours


def test_who_would_lead_before_ours_is_removed_with_the_leader() -> None:
    """Of a cooperative group, nobody else is: whoever is removed reads records again."""
    answers = Coordinator(COOPERATIVE, listed_first="c-1")
    answers.shares |= {"c-1": frozenset(), "d-1": frozenset()}
    carry_out(ClassicHold(note=HoldNote(), prefer=QUIET).capture(orders(1)), answers)

    assert {"a-2", "b-1", "c-2", "d-1"} == answers.shares.keys()


@pytest.mark.parametrize("protocol", [EAGER, COOPERATIVE])
def test_who_would_lead_before_a_second_member_of_ours_is_removed(protocol: str) -> None:
    """While they wait and own nothing, until they come back in another place of the table."""
    answers = Coordinator(protocol, listed_first="acb-1")  # of which acb-2 has the first place
    answers.shares |= {"acb-1": frozenset()}
    carry_out(ClassicHold(note=HoldNote()).capture(orders(1)), answers)

    assert {"a-2", "b-1", "acb-3"} == answers.shares.keys()


class Late(Coordinator):
    """A coordinator that a join takes long to reach."""

    def take(self, step: Any) -> Any:
        """Let time pass with each join."""
        self.clock += 5 if isinstance(step, SendAhead) else 0
        return super().take(step)


@each
@pytest.mark.parametrize(("made", "intruder"), [(Coordinator, "!x-1"), (Late, "x-1")])
def test_of_two_captures_at_once_one_gives_way_and_removes_nobody(
    protocol: str, prefer: CaptureMode, made: type[Coordinator], intruder: str
) -> None:
    """It leaves if the other one has the lower id, or can have missed it in its first look."""
    hold, answers = ClassicHold(note=HoldNote(), prefer=prefer), made(protocol, intruder=intruder)
    with pytest.raises(NotCaptured, match="another hold of the group exists"):
        carry_out(hold.capture(orders(1)), answers)

    assert {"a-1", "b-1"} == answers.shares.keys()
    assert [] == answers.ours


class BothLate(Late):
    """A coordinator of a group from which another capture leaves when ours does."""

    def leave(self, ids: tuple[str, ...]) -> LeaveResult:
        """Let the other one go as well."""
        if self.joined.intersection(ids):
            self.intruder = ""
        return super().leave(ids)


@each
@pytest.mark.parametrize("made", [Coordinator, BothLate])
def test_of_two_captures_at_once_one_goes_on(
    protocol: str, prefer: CaptureMode, made: type[Coordinator]
) -> None:
    """The one with the lowest id; where both took too long, and left, each begins anew."""
    hold, answers = ClassicHold(note=HoldNote(), prefer=prefer), made(protocol, intruder="x-1")
    carry_out(hold.capture(orders(1)), answers)

    assert orders(1) == hold.held
    assert 1 == len(answers.ours)


def test_nobody_is_removed_while_the_group_does_not_wait() -> None:
    """Where the rebalance of ours is not there, members read, and would lose what they read."""

    class Deaf(Coordinator):
        """A coordinator that does not get what is sent aside."""

        def take(self, step: Any) -> Any:
            return None if isinstance(step, SendAhead) else super().take(step)

    for protocol in (EAGER, COOPERATIVE):
        answers = Deaf(protocol)
        with pytest.raises(NotCaptured, match="before offsetbook could join"):
            carry_out(ClassicHold(note=HoldNote()).capture(orders(1)), answers)

        assert {"a-1", "b-1"} == answers.shares.keys()
        assert [] == answers.ours


@pytest.mark.parametrize(
    ("group", "word"),
    [
        (Coordinator(EAGER, state="PreparingRebalance"), "PreparingRebalance"),
        (Coordinator(EAGER, state="Dead", shares={}), "Dead"),
        (Coordinator(EAGER, holder_there=True), "another hold"),
    ],
)
def test_groups_that_cannot_be_held_are_refused_before_anything(
    group: Coordinator, word: str
) -> None:
    """Nothing but a description is asked for."""
    with pytest.raises(NotCaptured, match=word):
        carry_out(ClassicHold(note=HoldNote()).capture(orders(1)), group)

    assert {DescribeClassic} == {type(one) for one in group.asked}


def test_a_protocol_that_we_do_not_know_is_refused() -> None:
    """A leader that does not speak as the members do would break them."""
    group = Coordinator("custom")
    with pytest.raises(Blocked, match="'custom'"):
        carry_out(ClassicHold(note=HoldNote()).capture(orders(1)), group)

    assert [DescribeClassic()] == group.asked


@each
def test_a_hold_that_was_ended_by_others_is_lost_and_not_taken_again(
    protocol: str, prefer: CaptureMode
) -> None:
    """Somebody resumed: our member is gone, and no other one joins."""
    hold, answers = captured(protocol, 1, prefer=prefer)
    answers.ours.clear()
    answers.asked.clear()
    with pytest.raises(HoldLost):
        carry_out(hold.keep(), answers)
    with pytest.raises(HoldLost):
        carry_out(hold.keep(), answers)

    assert [ClassicHeartbeat] == [type(one) for one in answers.asked]


@each
@pytest.mark.parametrize("code", [22, 27])
def test_members_that_come_and_go_are_given_their_share(
    protocol: str, prefer: CaptureMode, code: int
) -> None:
    """When the group comes together again our member shares out again, all but what is held."""
    hold, answers = captured(protocol, 1, 4, prefer=prefer)
    answers.shares["c-1"] = frozenset()
    answers.beats = [code]
    carry_out(hold.keep(), answers)
    carry_out(hold.keep(), answers)

    given = [len(share) for one, share in answers.shares.items()]
    assert [1, 1, 2] == sorted(given)
    assert orders(0, 2, 3, 5) == frozenset().union(*answers.shares.values())


@each
def test_partitions_that_are_added_are_given_out(protocol: str, prefer: CaptureMode) -> None:
    """The topic is looked at now and then; a leader's own join makes the group share out again."""
    hold, answers = captured(protocol, 1, prefer=prefer)
    answers.counts = 8
    answers.clock += 6
    carry_out(hold.keep(), answers)
    carry_out(hold.keep(), answers)

    assert orders(0, 2, 3, 4, 5, 6, 7) == frozenset().union(*answers.shares.values())


@each
def test_what_is_released_is_given_out_and_the_last_release_leaves(
    protocol: str, prefer: CaptureMode
) -> None:
    """A part of it is given back while the rest stays held; then our member leaves."""
    hold, answers = captured(protocol, 1, 4, prefer=prefer)
    carry_out(hold.release(orders(4)), answers)

    assert orders(1) == hold.held
    assert orders(0, 2, 3, 4, 5) == frozenset().union(*answers.shares.values())
    carry_out(hold.release(orders(1)), answers)
    assert frozenset() == hold.held
    assert [] == answers.ours


def test_a_second_step_is_taken_though_nobody_asks_for_it() -> None:
    """What was withheld for an owner who had lost it without saying so is given out too."""
    hold, answers = captured(COOPERATIVE, 1, 4)
    answers.shares["d-1"] = frozenset()
    answers.beats = [27]
    carry_out(hold.keep(), answers)
    answers.beats.clear()  # nobody joins again
    carry_out(hold.keep(), answers)
    assert frozenset() == answers.shares["d-1"]

    answers.clock += 9
    carry_out(hold.keep(), answers)

    assert 2 == len(answers.shares["d-1"])  # of six, of which the others have one paused each
    assert orders(0, 2, 3, 5) == frozenset().union(*answers.shares.values())


@each
def test_a_release_that_nobody_hears_of_is_made_up_for(protocol: str, prefer: CaptureMode) -> None:
    """The last one leaves everything held; a part of it is given back as soon as that is heard."""
    hold, answers = captured(protocol, 1, 4, prefer=prefer)
    with pytest.raises(ClusterUnreachable):
        carry_out(hold.release(orders(1, 4)), answers, 0, ClusterUnreachable("gone"))
    assert orders(1, 4) == hold.held
    assert hold.state()["member_id"]

    hold, answers = captured(protocol, 1, 4, prefer=prefer)
    with pytest.raises(ClusterUnreachable):
        carry_out(hold.release(orders(4)), answers, 0, ClusterUnreachable("gone"))
    carry_out(hold.keep(), answers)

    assert orders(1) == hold.held
    assert orders(0, 2, 3, 4, 5) == frozenset().union(*answers.shares.values())


@each
def test_another_process_goes_on_with_a_hold(protocol: str, prefer: CaptureMode) -> None:
    """It has the same member in the same generation, and shares out what it finds."""
    hold, answers = captured(protocol, 1, 4, prefer=prefer)
    state = json.loads(json.dumps(hold.state()))
    second = ClassicHold.from_state(state, note=hold.note)
    answers.shares["c-1"] = frozenset()
    answers.beats = [27]
    carry_out(second.keep(), answers)
    carry_out(second.keep(), answers)

    assert hold.held == second.held
    assert state["member_id"] == second.state()["member_id"] == answers.ours[0]
    assert [] == [one for one in answers.asked[-6:] if isinstance(one, Join) and not one.member_id]
    assert orders(0, 2, 3, 5) == frozenset().union(*answers.shares.values())


def test_members_that_came_back_under_other_ids_have_what_they_had() -> None:
    """In an eager group, where nobody says what it had, as little as possible moves."""
    _, answers = captured(EAGER, 1, 4)

    assert {"a-2": orders(0, 2), "b-1": orders(3, 5)} == answers.shares


def test_a_cooperative_group_is_captured_while_its_members_own_nothing() -> None:
    """Only the leader is removed, when it has revoked all; everybody gets back what it had."""
    _, answers = captured(COOPERATIVE, 1, 4)

    assert {"a-2": orders(0, 2), "b-1": orders(3, 5)} == answers.shares
    first = [one for one in answers.asked if isinstance(one, Leave) and "a-1" in one.member_ids]
    assert [True] == [answers.freed_at < answers.asked.index(one) for one in first]


def test_a_cooperative_member_is_not_removed_before_it_knows_that_it_owns_nothing() -> None:
    """Where it stands before ours, it leads once, and everything is claimed again."""
    answers = Coordinator(COOPERATIVE, listed_first="b-1", misses="b-1")
    hold = ClassicHold(note=HoldNote())
    carry_out(hold.capture(orders(1, 4)), answers)

    assert [] == answers.lost
    assert orders(1, 4) == hold.held
    assert {"a-2", "b-2"} == answers.shares.keys()
    assert FetchCommits() not in answers.asked


class Overtaken(Coordinator):
    """A coordinator that takes up the first claim of the second try after all the others."""

    def take(self, step: Any) -> Any:
        """Leave that claim without an answer; the others have theirs."""
        is_late = isinstance(step, IsAnswered) and any(step.sent is one for one in self.claims[6:7])
        return not is_late and super().take(step)


def test_a_claim_that_comes_too_late_is_made_again() -> None:
    """The group assigned its partitions before it; then nobody is removed who may still read."""
    answers = Overtaken(COOPERATIVE, faster=1)
    carry_out(ClassicHold(note=HoldNote()).capture(orders(1, 4)), answers)

    assert FetchCommits() not in answers.asked
    assert {"a-2": orders(0, 2), "b-1": orders(3, 5)} == answers.shares
    assert 3 * 6 == len(answers.claims)


@pytest.mark.parametrize(
    "about", [{"believes": False}, {"faster": 3}, {"unseen": 3}, {"subscribes": "other"}]
)
def test_a_cooperative_group_that_does_not_let_go_is_captured_after_a_commit(
    about: dict[str, Any],
) -> None:
    """As is one whose members subscribe to different topics, which is not asked to."""
    answers = Coordinator(COOPERATIVE, **about)
    hold = ClassicHold(note=HoldNote())
    carry_out(hold.capture(orders(1, 4)), answers)

    assert orders(1, 4) == hold.held
    assert FetchCommits() in answers.asked
    assert ("subscribes" in about) == (len(answers.joined) < len(orders(*range(6))))


def test_ids_are_chosen_by_their_place_in_a_java_table() -> None:
    """As Java computes it: the hash code of "abc" is 96354, that of "hello" 99162322."""
    assert (96354 ^ 96354 >> 16) & 15 == place_in_table("abc", 3)[0]
    assert (96354 ^ 96354 >> 16) & 63 == place_in_table("abc", 40)[0]
    assert (99162322 ^ 99162322 >> 16) & 31 == place_in_table("hello", 3)[1]


def test_our_subscription_is_read_by_others() -> None:
    """Quiet members want nothing; the one that stays wants what the group reads."""
    hold, answers = captured(EAGER, 1)
    joins = [one for one in answers.asked if isinstance(one, Join) and one.member_id]
    last = read_subscription(dict(joins[-1].protocols)["range"])

    assert last
    assert frozenset({"orders"}) == last.topics
    assert 45_000 == joins[-1].session_timeout_ms
    assert {"orders"} == set(hold.state()["topics"])
