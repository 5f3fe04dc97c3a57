"""The recipes for classic groups step by step: interrupted at each of them, refused, and lost."""

import json
import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pytest
from recipe_runs import ScriptedChannel, SentAhead, orders

from toolkit.errors import (
    Blocked,
    BrokerRefused,
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
from toolkit.kafka_io.membership.request import ErrorCodeResult
from toolkit.kafka_io.membership.topics_and_commits import (
    CommitsFound,
    FetchCommits,
    FetchTopics,
    Topic,
    TopicsFound,
)
from toolkit.kafka_io.wire.fields import (
    int16,
    optional_bytes,
    partitions,
    strings,
)
from toolkit.live.classic_hold import ClassicHold
from toolkit.live.classic_member import place_in_table
from toolkit.model import HOLDER_CLIENT_ID, CaptureMode, HoldNote, TopicPartition


class Mode(NamedTuple):
    """A protocol of a group, and how its partitions are captured."""

    protocol: str
    prefer: CaptureMode = CaptureMode.LOSSLESS


EAGER, COOPERATIVE = Mode("range"), Mode("cooperative-sticky")
UNDRAWN = random.Random(1).getstate()  # noqa: S311 - ids
QUIET = Mode("cooperative-sticky", CaptureMode.QUIET)
each = pytest.mark.parametrize(
    "mode", [EAGER, COOPERATIVE, QUIET], ids=["eager", "cooperative", "quiet"]
)


def owning(
    protocol: str, owned: frozenset[TopicPartition], topics: Sequence[str] = ("orders",)
) -> bytes:
    if protocol == EAGER.protocol:
        return int16(0) + strings(topics) + optional_bytes(None)
    return int16(1) + strings(topics) + optional_bytes(None) + partitions(owned)


@dataclass
class Coordinator(ScriptedChannel):
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
    is_old: bool = False  # a broker before 4.0, of which ours ask before one of them leaves
    faster: int = 0  # how often the leader assigns again before ours can stop it
    unseen: int = 0  # how often it does so just after the look
    believes: bool = True  # whether the leader leaves to ours what they say they own
    subscribes: str = ""  # what `b-1` subscribes to besides
    # What the members had before they let go.
    shares_before: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    freed_at: int = 0  # after so many requests nobody owned anything; 0: never
    misses: str = ""  # who does not hear that it owns nothing, unless it leads
    lost: list[str] = field(default_factory=list)  # who was removed while it did not know that
    insists: bool = False  # whether who was removed claims what it had; nothing more comes of it
    claims: list[Join] = field(default_factory=list)  # those of ours
    heartbeat_errors: list[int] = field(default_factory=list)  # of the next ones
    join_errors: list[int] = field(default_factory=list)
    leave_error: int = 0
    counts: int = 6
    holders: list[str] = field(default_factory=list)  # ids of ours that are out
    joined: set[str] = field(default_factory=set)
    waiting: dict[str, SentAhead] = field(default_factory=dict)  # joins by their member
    answers: dict[SentAhead, JoinResult] = field(default_factory=dict)  # of those who left again
    stopped: bool = False  # the last rebalance took away all assignments
    generation: int = 4
    given: dict[str, bytes] = field(default_factory=dict)
    # Which ids are given out decides how many are drawn: each coordinator gives out the same.
    drawn: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - ids

    def take_up(self, sent: SentAhead) -> None:
        """Begin a rebalance with a join; anything else only opens a connection, or comes later."""
        if isinstance(sent.request, Join):
            self.state = "PreparingRebalance"
            self.joined.add(sent.request.member_id)
            self.waiting[sent.request.member_id] = sent
            self.revoke(sent.request)

    def has_answer(self, _sent: SentAhead) -> bool:
        """Answer a join as soon as all others have joined."""
        return not self.polls_seldom

    def answer_ahead(self, sent: SentAhead) -> Any:
        """Answer a join as any other; what was sent behind it, on its connection, comes then."""
        if sent in self.answers:
            return self.answers.pop(sent)
        behind = next((one for one in self.steps if getattr(one, "after", None) is sent), None)
        if not isinstance(sent.request, DescribeClassic):
            answer = super().answer_ahead(sent)
            if behind and isinstance(behind.request, Leave):
                assert not self.is_old
                self.leave_again(behind.request)
            return answer
        assert self.is_old
        assert sent.after
        assert behind
        assert [Join, Leave] == [type(one.request) for one in (sent.after, behind)]
        is_late = self.leave_again(behind.request)
        return ClassicFacts(0, state="Stable" if is_late else "CompletingRebalance")

    def leave_again(self, leave: Leave) -> bool:
        """Let a member go that has joined, and return whether the leader was faster, as is seen."""
        (member_id,) = leave.member_ids
        join = self.waiting.get(member_id)
        if join and join not in self.answers and not self.is_old:
            self.answers[join] = super().answer_ahead(join)  # with the others, before it leaves
        self._hear(leave)
        return self.rebalance_again()

    def rebalance_again(self) -> bool:
        """Begin the next rebalance, and return whether the leader was faster, as can be seen."""
        self.faster, is_late = max(0, self.faster - 1), self.faster > 0
        self.unseen, is_unseen = max(0, self.unseen - 1), self.unseen > 0
        self.stopped = not (is_late or is_unseen)
        self.shares = self.shares if self.stopped else self.shares_before or self.shares
        self.state = "PreparingRebalance"
        return is_late

    def revoke(self, join: Join) -> None:
        """Have the members let go of what a member of ours says it owns."""
        claim = read_subscription(dict(join.protocols).get(self.protocol, b""))
        self.claims += [join] if claim and claim.owned else []
        if self.believes and claim and claim.owned:
            self.shares_before = self.shares_before or self.shares
            self.shares = {one: share - claim.owned for one, share in self.shares.items()}
            is_free = not any(self.shares.values())
            self.freed_at = self.freed_at or (len(self.requests) if is_free else 0)

    def answer(self, request: Any) -> Any:
        answer: Any
        match request:
            case DescribeClassic():
                members = tuple(map(self.described, self.ids))
                shows = not self.is_old
                answer = ClassicFacts(0, "", self.state, "consumer", self.protocol, members, shows)
            case FetchTopics(names):
                topic = Topic(uuid.UUID(int=1), self.counts)
                answer = TopicsFound(0, dict.fromkeys(names, topic))
            case FetchCommits():
                answer = CommitsFound(0, dict.fromkeys(orders(*range(6)), int(self.clock * 10)))
            case Join() if self.join_errors:
                answer = JoinResult(self.join_errors.pop(0))
            case Join():
                answer = self.join(request)
            case Sync():
                answer = self.sync(request)
            case Leave(ids):
                answer = self.leave(ids)
            case ClassicHeartbeat(member_id):
                known = self.heartbeat_errors.pop(0) if self.heartbeat_errors else 0
                answer = ErrorCodeResult(known if member_id in self.holders else 25)
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
        holders = [one for one in self.holders if one in self.joined]
        holders += [self.intruder] if self.intruder and self.joined else []
        first = [one for one in self.shares if one == self.listed_first]
        return [*first, *holders, *(one for one in self.shares if one not in first)]

    def described(self, member_id: str) -> DescribedClassicMember:
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
            self.holders.append(f"{HOLDER_CLIENT_ID}-{uuid.UUID(int=self.drawn.getrandbits(128))}")
            return JoinResult(79, self.holders[-1])
        if join.member_id not in self.holders:
            return JoinResult(25)
        self.joined.add(join.member_id)
        self.state = "Stable"
        self.generation += 1
        leader = self.leader or join.member_id
        self.misses = "" if self.misses == leader else self.misses
        members = {one: owning(self.protocol, share) for one, share in self.shares.items()}
        members |= {join.member_id: dict(join.protocols)[self.protocol]}
        known = members if leader == join.member_id else {}
        return JoinResult(0, join.member_id, self.generation, leader, self.protocol, known)

    def sync(self, sync: Sync) -> SyncResult:
        """Hand out what a leader says; who has to let go of something joins again."""
        if not sync.assignments:
            return SyncResult(0)
        self.given = dict(sync.assignments)
        shares = {one: frozenset(assignment_from_bytes(self.given[one])) for one in self.shares}
        heard = [one for one in shares if not (self.insists and one.endswith("-2"))]
        if self.protocol == COOPERATIVE.protocol and any(self.shares[o] - shares[o] for o in heard):
            self.heartbeat_errors.append(27)
        if self.taken:
            self.shares = shares
        return SyncResult(0)

    def leave(self, ids: tuple[str, ...]) -> LeaveResult:
        """Let ours go; members of the application come back under new ids, and own nothing."""
        self.lost += [one for one in ids if one == self.misses]
        known = {*self.holders, *self.shares}
        for one in () if self.leave_error else ids:
            if one in self.holders:
                self.holders.remove(one)
            elif (share := self.shares.pop(one, None)) is not None and one != self.stays_away:
                self.shares[f"{one[:-1]}{int(one[-1]) + 1}"] = (
                    share if self.insists else frozenset()
                )
        if not self.holders and self.state == "PreparingRebalance":
            self.state = "Stable"
        return LeaveResult(self.leave_error, {one: 0 if one in known else 25 for one in ids})

    @property
    def given_out(self) -> frozenset[TopicPartition]:
        return frozenset().union(*self.shares.values())

    @property
    def evicted(self) -> bool:
        """Whether a member of the application was removed, and came back under another id."""
        return {"a-1", "b-1"} != self.shares.keys()


def check_shared_out(hold: ClassicHold, group: Coordinator, *numbers: int) -> None:
    """Check that one member holds some partitions, and the application has all others."""
    others = orders(*range(group.counts)) - orders(*numbers)
    assert (orders(*numbers), 1) == (hold.held, len(group.holders))
    assert others == group.given_out


def captured(
    mode: Mode, *numbers: int, make: type[Coordinator] = Coordinator, **about: Any
) -> tuple[ClassicHold, Coordinator]:
    group = make(mode.protocol, **about)
    hold = ClassicHold(note=HoldNote(who="ann"), prefer=mode.prefer)
    hold.capture(group, orders(*numbers))
    assert (orders(*numbers), 1) == (hold.held, len(group.holders))
    assert not hold.held & group.given_out
    return hold, group


def refused(
    mode: Mode, words: str, number: int = 1, make: type[Coordinator] = Coordinator, **about: Any
) -> Coordinator:
    """Check that a capture is given up for a reason, and that nobody of ours stays."""
    group = make(mode.protocol, **about)
    hold = ClassicHold(note=HoldNote(), prefer=mode.prefer)
    with pytest.raises((NotCaptured, Blocked), match=words):
        hold.capture(group, orders(number))
    assert ([], frozenset()) == (group.holders, hold.held)
    return group


def keep_twice(hold: ClassicHold, group: Coordinator) -> None:
    """Keep a hold for so long that the group has shared its partitions out again."""
    hold.keep(group)
    hold.keep(group)


@each
def test_a_capture_assigns_all_partitions_but_the_held_ones(mode: Mode) -> None:
    """Every member gets valid bytes, the sentinel gets the note, and only one sentinel stays."""
    _, group = captured(mode, 1, 4)
    (holder,) = group.holders

    given = [one for data in group.given.values() for one in assignment_from_bytes(data)]
    assert sorted(orders(0, 2, 3, 5)) == sorted(given)
    assert {*group.shares, holder} == group.given.keys()
    assert all(group.given.values())
    note = read_note(user_data_from_bytes(group.given[holder]))
    assert (tuple(sorted(orders(1, 4))), HoldNote(who="ann", survives_s=45)) == (
        note.paused,
        note.note,
    )


def is_draw(step: Any) -> bool:
    return isinstance(step, tuple) and any(isinstance(r, Join) and not r.member_id for r in step)


@each
@pytest.mark.parametrize(
    "error", [Interrupted("enough"), ClusterUnreachable("gone"), KeyError("a defect")], ids=type
)
@pytest.mark.parametrize("is_heard", [False, True], ids=["unsent", "sent"])
def test_all_sentinels_leave_wherever_a_capture_is_stopped(
    mode: Mode, error: Exception, *, is_heard: bool
) -> None:
    """After an error at any step all drawn ids have left, and nothing is held."""
    _, whole = captured(mode, 1)
    for at, step in enumerate(whole.steps):
        hold, group = ClassicHold(note=HoldNote(), prefer=mode.prefer), Coordinator(mode.protocol)
        group.fail(error, at=at, is_heard=is_heard)
        with pytest.raises(type(error)):
            hold.capture(group, orders(1))
        # Ids that were just given out when the answer got lost are only ids yet.
        assert not group.joined.intersection(group.holders), at
        assert (is_heard and is_draw(step)) or [] == group.holders, at
        assert frozenset() == hold.held
        with pytest.raises(HoldLost):
            hold.state()


def test_sentinels_leave_despite_a_second_interruption() -> None:
    """A second Ctrl-C while sentinels leave does not keep them in the group."""
    _, whole = captured(EAGER, 1)
    hold, group = ClassicHold(note=HoldNote()), Coordinator(EAGER.protocol)
    at = len(whole.steps) - 1
    for step in (at, at + 1):
        group.fail(KeyboardInterrupt(), at=step, is_heard=False)

    with pytest.raises(KeyboardInterrupt):
        hold.capture(group, orders(1))

    leaving, again = group.steps[at + 1 :]
    assert leaving == again
    assert [] == group.holders


@each
def test_a_capture_that_cannot_leave_reports_it(mode: Mode) -> None:
    """If no broker responds, the error has the reason first, then what stays in the group."""
    _, whole = captured(mode, 1)
    hold, group = ClassicHold(note=HoldNote(), prefer=mode.prefer), Coordinator(mode.protocol)
    at = len(whole.steps) - 1
    group.fail(NotCaptured("refused", hint="wait"), at=at, is_heard=True)
    group.fail(ClusterUnreachable("nobody is there"), at=at + 1, is_heard=False)

    with pytest.raises(NotCaptured, match=r"^refused; \d+ offsetbook members? may stay") as raised:
        hold.capture(group, orders(1))

    assert "wait" == raised.value.hint


@each
def test_a_stopped_capture_of_more_keeps_what_was_held(mode: Mode) -> None:
    """The sentinel stays, and the next rebalance publishes what is held."""
    hold, group = captured(mode, 1)
    first = len(group.steps)
    hold.capture(group, orders(4))
    for at in range(len(group.steps) - first):
        hold, group = captured(mode, 1)
        group.fail(Interrupted("enough"), at=at, is_heard=True)
        with pytest.raises(Interrupted):
            hold.capture(group, orders(4))
        hold.keep(group)
        keep_twice(hold, group)

        check_shared_out(hold, group, 1)


def test_a_cooperative_capture_ends_when_members_have_revoked() -> None:
    """It ends only when no member claims a held partition."""
    refused(QUIET, "orders:4", 4, taken=False)


@pytest.mark.parametrize(
    ("when", "is_old"), [("faster", False), ("faster", True), ("unseen", True)]
)
def test_an_eager_group_is_stopped_again_if_its_leader_was_faster(
    when: str, *, is_old: bool
) -> None:
    """Then members own partitions again; after some tries the capture fails and removes nobody."""
    _, once = captured(EAGER, 1, is_old=is_old, **{when: 1})
    always = refused(EAGER, "no member was evicted", is_old=is_old, **{when: 9})

    assert {"a-2", "b-1"} == once.shares.keys()
    assert not always.evicted


class NotAgain(Coordinator):
    """A coordinator that begins no other rebalance when ours leaves: the group does not stop."""

    def rebalance_again(self) -> bool:
        """Leave the group to its leader, who is about to assign partitions."""
        self.state = "CompletingRebalance"
        return False

    def described(self, member_id: str) -> DescribedClassicMember:
        """Show no assignment: none is given out yet."""
        return replace(super().described(member_id), assignment=b"")


def test_a_group_that_does_not_rebalance_again_loses_no_member() -> None:
    """Its members read on, so none is removed, however often it is tried."""
    group = refused(EAGER, "no member was evicted", make=NotAgain)

    assert not group.evicted


@dataclass
class LostLeave(Coordinator):
    """A coordinator that does not get the first removal of a sentinel: its connection was lost."""

    is_lost: bool = False

    def leave_again(self, leave: Leave) -> bool:
        """Let the sentinel stay, the first time."""
        if self.is_lost:
            return super().leave_again(leave)
        self.is_lost = True
        return True


def test_a_sentinel_whose_removal_was_lost_is_removed_before_the_next_try() -> None:
    """It would be taken for another capture, and its group would wait for its session to expire."""
    _, group = captured(EAGER, 1, make=LostLeave)

    assert group.is_lost
    (holder,) = group.holders
    joins = [one for one in group.requests if isinstance(one, Join) and one.member_id == holder]
    assert 3 == len({one.protocols for one in joins})  # one like the last is answered at once


@pytest.mark.parametrize(("polls_seldom", "after_s"), [(True, 15), (False, 0)])
def test_an_eager_capture_waits_for_members_that_poll_seldom(
    *, polls_seldom: bool, after_s: int
) -> None:
    """Not for ever: a member that hangs is removed as well."""
    _, group = captured(EAGER, 1, polls_seldom=polls_seldom)

    assert after_s <= group.clock < after_s + 10


@each
@pytest.mark.parametrize(("number", "after_s"), [(1, 45), (4, 0)], ids=["owner", "other"])
def test_an_absent_owner_is_waited_for_until_its_session_expires(
    mode: Mode, number: int, after_s: int
) -> None:
    """Until then it may read its partitions; members without held partitions are not waited for."""
    _, group = captured(mode, number, stays_away="a-1")

    assert after_s <= group.clock < after_s + 45


@pytest.mark.parametrize(("first", "numbers"), [("", (1,)), ("b-1", (4,)), ("b-1", (1, 4))])
def test_a_removed_member_that_claims_its_partitions_rejoins(
    first: str, numbers: tuple[int, ...]
) -> None:
    """It claims partitions that it has revoked, and does not rejoin by itself."""
    hold, group = captured(QUIET, *numbers, insists=True, listed_first=first)

    check_shared_out(hold, group, *numbers)


@each
def test_a_group_that_a_consumer_leads_is_left(mode: Mode) -> None:
    """Nothing is held, and no sentinel keeps a partition."""
    words = "another member is the group leader"
    refused(mode, words, leads="c-1")

    hold, group = captured(mode, 1)
    group.leads, group.heartbeat_errors = "c-1", [27]
    with pytest.raises(HoldLost, match=words):
        hold.keep(group)
    assert [] == group.holders


@each
@pytest.mark.parametrize("code", [14, 15, 16])
def test_a_coordinator_that_moves_during_a_rebalance_ends_no_hold(mode: Mode, code: int) -> None:
    """The sentinel rejoins with the next heartbeat; until then the group waits for it."""
    hold, group = captured(mode, 1)
    group.heartbeat_errors, group.join_errors = [27], [code]

    with pytest.raises(BrokerRefused, match="goes on later"):
        hold.keep(group)
    hold.keep(group)

    check_shared_out(hold, group, 1)


@each
def test_a_sentinel_that_may_not_join_any_more_leaves(mode: Mode) -> None:
    """Members would wait for it until its session expires."""
    hold, group = captured(mode, 1)
    group.heartbeat_errors, group.join_errors = [27], [30]

    with pytest.raises(HoldLost, match="no longer group leader"):
        hold.keep(group)

    assert [] == group.holders


@pytest.mark.parametrize(
    ("mode", "others", "members"),
    [
        (QUIET, ("c-1", "d-1"), {"a-2", "b-1", "c-2", "d-1"}),
        # acb-2 has the first place in the table, so it is removed until it is acb-3.
        (EAGER, ("acb-1",), {"a-2", "b-1", "acb-3"}),
        (COOPERATIVE, ("acb-1",), {"a-2", "b-1", "acb-3"}),
    ],
    ids=["quiet", "eager", "cooperative"],
)
def test_members_before_the_sentinel_are_removed_with_the_leader(
    mode: Mode, others: tuple[str, ...], members: set[str]
) -> None:
    """No other member is, and none that owns partitions: its records would be read again."""
    shares = {"a-1": orders(0, 1, 2), "b-1": orders(3, 4, 5), **dict.fromkeys(others, orders())}
    _, group = captured(mode, 1, listed_first=others[0], shares=shares)

    assert members == group.shares.keys()


class Late(Coordinator):
    """A coordinator that a join takes long to reach."""

    def take_up(self, sent: SentAhead) -> None:
        """Let time pass with each join."""
        self.clock += 5
        super().take_up(sent)


class Deaf(Coordinator):
    """A coordinator that does not get what is sent aside."""

    def take_up(self, sent: SentAhead) -> None:
        """Let no join arrive, so that the group does not wait for it."""


@each
@pytest.mark.parametrize(
    ("make", "intruder", "words"),
    [
        pytest.param(Coordinator, "!x-1", "another hold of the group exists", id="lower id"),
        pytest.param(Late, "x-1", "another hold of the group exists", id="missed in the look"),
        pytest.param(Deaf, "", "before offsetbook could join", id="no rebalance"),
    ],
)
def test_a_capture_that_gives_way_removes_no_member(
    mode: Mode, make: type[Coordinator], intruder: str, words: str
) -> None:
    """Another capture goes first, or the group does not wait: members keep reading."""
    assert not refused(mode, words, make=make, intruder=intruder).evicted


@dataclass
class RivalFirst(Coordinator):
    """A coordinator of a group which another capture joins while ours draws its ids."""

    intruder: str = "x-1"
    delayed_s: float = 0.0  # for how long the rebalance of the other waited for ids of ours

    @property
    def ids(self) -> list[str]:
        """Return the other one from the first id of ours on."""
        return [*super().ids, *([self.intruder] if self.drawn.getstate() != UNDRAWN else [])]

    def sleep(self, seconds: float) -> float:
        """Count the time in which an id is out with which no member joins."""
        self.delayed_s += seconds if set(self.holders) - self.joined else 0
        return super().sleep(seconds)


@each
def test_the_second_capture_does_not_delay_the_first(mode: Mode) -> None:
    """Its ids leave before it waits for the other: no rebalance ends while an id has not joined."""
    group = refused(mode, "another hold of the group exists", make=RivalFirst)

    assert (0, False) == (group.delayed_s, group.evicted)


class BothLate(Late):
    """A coordinator of a group from which another capture leaves when ours does."""

    def leave(self, ids: tuple[str, ...]) -> LeaveResult:
        """Let the other one go as well."""
        if self.joined.intersection(ids):
            self.intruder = ""
        return super().leave(ids)


@each
@pytest.mark.parametrize("make", [Coordinator, BothLate])
def test_of_two_captures_at_once_one_goes_on(mode: Mode, make: type[Coordinator]) -> None:
    """The one with the lowest id; if both were late and left, each starts again."""
    captured(mode, 1, make=make, intruder="x-1")


@pytest.mark.parametrize(
    ("mode", "about", "words"),
    [
        (EAGER, {"state": "PreparingRebalance"}, "PreparingRebalance"),
        (EAGER, {"state": "Dead", "shares": {}}, "Dead"),
        (EAGER, {"holder_there": True}, "another hold"),
        (Mode("custom"), {}, "'custom'"),  # a leader that does not speak it would break them
    ],
    ids=["rebalancing", "dead", "held", "unknown protocol"],
)
def test_groups_that_cannot_be_held_are_only_described(
    mode: Mode, about: dict[str, Any], words: str
) -> None:
    """They are refused before any member joins."""
    group = refused(mode, words, **about)

    assert {DescribeClassic} == {type(one) for one in group.requests}


@each
def test_a_hold_that_others_ended_is_lost(mode: Mode) -> None:
    """After a resume by another operator the sentinel is gone, and none joins."""
    hold, group = captured(mode, 1)
    group.holders.clear()
    group.requests.clear()
    for _ in range(2):
        with pytest.raises(HoldLost):
            hold.keep(group)

    assert [ClassicHeartbeat] == [type(one) for one in group.requests]


@each
@pytest.mark.parametrize(
    ("code", "takes_over"), [(22, False), (27, False), (27, True)], ids=["22", "27", "taken over"]
)
def test_members_that_come_and_go_are_assigned_partitions(
    mode: Mode, code: int, *, takes_over: bool
) -> None:
    """In each rebalance the sentinel assigns again, also after another process has taken over."""
    hold, group = captured(mode, 1, 4)
    state = json.loads(json.dumps(hold.state()))
    if takes_over:
        hold = ClassicHold.from_state(state, note=hold.note)
    group.shares["c-1"] = frozenset()
    group.heartbeat_errors = [code]
    keep_twice(hold, group)

    assert [1, 1, 2] == sorted(map(len, group.shares.values()))
    check_shared_out(hold, group, 1, 4)
    assert state["member_id"] == hold.state()["member_id"] == group.holders[0]
    assert [] == [r for r in group.requests[-6:] if isinstance(r, Join) and not r.member_id]


@each
def test_added_partitions_are_assigned(mode: Mode) -> None:
    """The topic is checked at intervals; a join of the leader starts a rebalance."""
    hold, group = captured(mode, 1)
    before = group.requests.count(FetchTopics(("orders",)))
    hold.keep(group)
    assert before == group.requests.count(FetchTopics(("orders",)))
    group.counts = 8
    group.clock += 6
    keep_twice(hold, group)

    check_shared_out(hold, group, 1)


@each
def test_released_partitions_are_assigned(mode: Mode) -> None:
    """Some are released while others stay held; with the last one the sentinel leaves."""
    hold, group = captured(mode, 1, 4)
    hold.release(group, orders(4))

    check_shared_out(hold, group, 1)
    hold.release(group, orders(1))
    assert (frozenset(), []) == (hold.held, group.holders)


def test_the_sentinel_rejoins_if_no_member_does() -> None:
    """Partitions withheld for an owner that had lost them are assigned then."""
    hold, group = captured(COOPERATIVE, 1, 4)
    group.shares["d-1"] = frozenset()
    group.heartbeat_errors = [27]
    hold.keep(group)
    group.heartbeat_errors.clear()  # nobody joins again
    hold.keep(group)
    assert frozenset() == group.shares["d-1"]

    group.clock += 9
    hold.keep(group)

    assert 2 == len(group.shares["d-1"])  # of six, of which the others have one paused each
    check_shared_out(hold, group, 1, 4)


@each
def test_a_lost_release_is_repeated(mode: Mode) -> None:
    """If a full release is lost, everything stays held; a partial one is repeated by `keep`."""
    lost = ClusterUnreachable("gone")
    hold, group = captured(mode, 1, 4)
    group.fail(lost, at=0, is_heard=True)
    with pytest.raises(ClusterUnreachable):
        hold.release(group, orders(1, 4))
    assert orders(1, 4) == hold.held
    assert hold.state()["member_id"]

    hold, group = captured(mode, 1, 4)
    group.fail(lost, at=0, is_heard=True)
    with pytest.raises(ClusterUnreachable):
        hold.release(group, orders(4))
    hold.keep(group)

    check_shared_out(hold, group, 1)


@each
def test_a_keeper_that_takes_over_publishes_what_is_new(mode: Mode) -> None:
    """A changed note, such as a new end, or fewer held partitions; otherwise nothing."""
    hold, group = captured(mode, 1, 4)

    def taken_over(**about: str) -> list[Any]:
        state, before = json.loads(json.dumps(hold.state())), len(group.requests)
        other = ClassicHold.from_state(state, note=replace(hold.note, **about))
        other.keep(group)
        return [one for one in group.requests[before:] if isinstance(one, Join)]

    assert [] == taken_over()
    assert [] != taken_over(reason="longer")
    note = read_note(user_data_from_bytes(group.given[group.holders[0]])).note
    assert ("ann", "longer") == (note.who, note.reason)

    group.fail(ClusterUnreachable("gone"), at=0, is_heard=False)
    with pytest.raises(ClusterUnreachable):
        hold.release(group, orders(4))
    assert [] != taken_over()
    assert orders(4) <= group.given_out


@each
def test_a_release_reports_that_the_hold_was_lost_before(mode: Mode) -> None:
    """For all partitions or some; partitions that a broker does not release stay held."""
    for some in (orders(1, 4), orders(4)):
        hold, group = captured(mode, 1, 4)
        group.holders.clear()
        group.join_errors = [25]
        with pytest.raises(HoldLost, match="its member is no longer in the group"):
            hold.release(group, some)
        assert orders() == hold.held

    hold, group = captured(mode, 1)
    group.leave_error = 30
    with pytest.raises(BrokerRefused, match="GROUP_AUTHORIZATION_FAILED"):
        hold.release(group, orders(1))
    assert orders(1) == hold.held


@pytest.mark.parametrize("mode", [EAGER, COOPERATIVE], ids=["eager", "cooperative"])
def test_members_keep_their_partitions(mode: Mode) -> None:
    """Only the leader is removed; it rejoins under another id, and few partitions move."""
    _, group = captured(mode, 1, 4)

    assert {"a-2": orders(0, 2), "b-1": orders(3, 5)} == group.shares
    if mode is COOPERATIVE:  # it is removed when it has revoked all
        first = [r for r in group.requests if isinstance(r, Leave) and "a-1" in r.member_ids]
        assert [True] == [group.freed_at < group.requests.index(one) for one in first]


def test_a_cooperative_member_is_not_removed_before_it_knows_that_it_owns_nothing() -> None:
    """A member before the sentinel leads once, and everything is claimed again."""
    _, group = captured(COOPERATIVE, 1, 4, listed_first="b-1", misses="b-1")

    assert [] == group.lost
    assert {"a-2", "b-2"} == group.shares.keys()
    assert FetchCommits() not in group.requests


class Overtaken(Coordinator):
    """A coordinator that takes up the first claim of the second try after all the others."""

    def has_answer(self, sent: SentAhead) -> bool:
        """Leave that claim without an answer; the others have theirs."""
        is_late = any(sent.request is one for one in self.claims[6:7])
        return not is_late and super().has_answer(sent)


def test_a_late_claim_is_made_again() -> None:
    """The group assigned its partitions before it; no member that may still read is removed."""
    _, group = captured(COOPERATIVE, 1, 4, make=Overtaken, faster=1)

    assert FetchCommits() not in group.requests
    assert {"a-2": orders(0, 2), "b-1": orders(3, 5)} == group.shares
    assert 3 * 6 == len(group.claims)


@pytest.mark.parametrize(
    "about",
    [
        {"believes": False},
        {"faster": 3},
        {"faster": 3, "is_old": True},
        {"unseen": 3, "is_old": True},
        {"subscribes": "other"},
    ],
    ids=["claims are not believed", "faster", "faster, old", "unseen, old", "other subscriptions"],
)
def test_a_cooperative_group_that_does_not_revoke_is_captured_after_a_commit(
    about: dict[str, Any],
) -> None:
    """So is a group whose members subscribe to different topics."""
    _, group = captured(COOPERATIVE, 1, 4, **about)

    assert FetchCommits() in group.requests
    assert ("subscribes" in about) == (len(group.joined) < len(orders(*range(6))))


def test_ids_are_chosen_by_their_bucket_in_a_java_hash_map() -> None:
    """The hash code of "abc" in Java is 96354, that of "hello" 99162322."""
    assert (96354 ^ 96354 >> 16) & 15 == place_in_table("abc", 3)[0]
    assert (96354 ^ 96354 >> 16) & 63 == place_in_table("abc", 40)[0]
    assert (99162322 ^ 99162322 >> 16) & 31 == place_in_table("hello", 3)[1]


def test_subscriptions_of_sentinels() -> None:
    """Quiet sentinels subscribe to nothing; the one that stays subscribes to the group's topics."""
    hold, group = captured(EAGER, 1)
    joins = [one for one in group.requests if isinstance(one, Join) and one.member_id]
    last = read_subscription(dict(joins[-1].protocols)["range"])

    assert last
    assert frozenset({"orders"}) == last.topics
    assert 45_000 == joins[-1].session_timeout_ms
    assert {"orders"} == set(hold.state()["topics"])
