"""Pause, resume and move on the whole spine: plan, approval, keeper, record, and back."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from applications import PATIENCE_S, eventually
from deliveries.analysis import delivered_during, first_after, repeats
from deliveries.log import Delivery
from desks import Desk, once_at_rest
from holding import kill_keepers
from live_groups import LiveGroup
from processes import suspend

from toolkit.errors import Blocked, HoldLost
from toolkit.journeys.change.change_outcome import ChangeOutcome
from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.journeys.reset import target
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import DescribeClassic
from toolkit.live.keeper_socket import ask_keeper
from toolkit.model import HOLDER_CLIENT_ID, Cluster, Group, TopicPartition
from toolkit.operate.keeper_handle import KeeperHandle
from toolkit.operate.move import move
from toolkit.operate.orphaned_holds import find_orphaned_holds
from toolkit.plan import Action, ChangeStatus, Intent, Outcome, Plan
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import MoveRequest, move_back, plan_move
from toolkit.planning.changes.pause import plan_pause, plan_resume
from toolkit.planning.changes.targets import ShiftBy, ToOffset
from toolkit.planning.holds.hold_context import HoldFacts, HoldTerms
from toolkit.storage.audit import Event
from toolkit.storage.hold_files import HoldRecord, HoldStatus, has_live_keeper, hold_path, read_hold
from toolkit.storage.undo_records import read_undo_record

Eventually = Callable[[Callable[[], object]], object]
Places = frozenset[TopicPartition]

LIVE = ("librdkafka-consumer", "librdkafka-range")
SHORT = timedelta(seconds=3)


@dataclass(frozen=True)
class Holder:
    """Pauses and resumes what one live group reads, from one desk."""

    desk: Desk
    live: LiveGroup
    began: float = field(default_factory=time.time)

    @property
    def path(self) -> Path:
        """The hold file."""
        facts = self.desk.facts(self.live.group)
        return hold_path(self.desk.state, facts.cluster_id, self.live.group)

    @property
    def record(self) -> HoldRecord:
        """What the hold file says."""
        record = read_hold(self.path)
        assert record
        return record

    @property
    def group(self) -> Group:
        """The group as the broker shows it."""
        (group,) = self.desk.facts(self.live.group).groups
        return group

    @property
    def paused(self) -> Places:
        """What the broker shows as held."""
        return frozenset(self.group.paused)

    def pause(self, *numbers: int, terms: HoldTerms | None = None) -> Outcome:
        """Pause partitions of the first topic."""
        return once_at_rest(lambda: self.desk.apply(self.planned(*numbers, terms=terms)))

    def planned(self, *numbers: int, terms: HoldTerms | None = None) -> Plan:
        """Plan to pause partitions of the first topic."""
        return plan_pause(
            self.desk.facts(self.live.group, topics=self.live.topics),
            group=self.live.group,
            topics=[f"{self.live.topics[0]}:{','.join(map(str, numbers))}"],
            terms=terms or HoldTerms(),
            beside=HoldFacts(),
        )

    def pause_as_asked(self, *numbers: int) -> Outcome:
        """Pause partitions of the first topic, as every front end does."""
        wanted = f"{self.live.topics[0]}:{','.join(map(str, numbers))}"

        def attempt() -> Outcome:
            found = self.desk.session.pause(self.live.group, [wanted])
            assert found.plan.steps, found.plan.findings
            return self.desk.apply(found.plan)

        return once_at_rest(attempt)

    def move(self, request: MoveRequest) -> Outcome:
        """Move offsets of the group."""

        def attempt() -> Outcome:
            planned = plan_move(self.desk.facts(self.live.group, topics=self.live.topics), request)
            approval = Approval(planned.plan.fingerprint, "a test")
            return move(planned, self.desk.cluster, approval, state=self.desk.state).outcome

        return once_at_rest(attempt)

    def resume(self, *numbers: int) -> Outcome:
        """Resume partitions of the first topic, or all."""
        wanted = [f"{self.live.topics[0]}:{','.join(map(str, numbers))}"] if numbers else []
        facts = self.desk.facts(self.live.group, topics=self.live.topics)
        return self.desk.apply(plan_resume(facts, group=self.live.group, topics=wanted))

    def undo(self, run_id: str) -> dict[TopicPartition, int]:
        """Move back what a run moved, and return where to."""
        done = read_undo_record(self.desk.state, run_id)
        assert self.move(move_back(done, run_id)).is_done
        return {c.partition: c.before.offset for _, c in done.changes if c.before}

    def committed(self, place: TopicPartition) -> int:
        """Return where a partition would be read on."""
        position = self.desk.held(self.live.group)[self.live.group].get(place)
        return position.offset if position else -1


@pytest.fixture
def holder(
    desk: Desk, shared_group: Callable[[Cluster, str], LiveGroup]
) -> Callable[[str], Holder]:
    """Return a function that makes who pauses the live group of a kind, which tests share."""
    return lambda kind: Holder(desk, shared_group(desk.cluster, kind))


@pytest.mark.parametrize("kind", LIVE)
def test_pause_and_resume(
    holder: Callable[[str], Holder], kind: str, eventually: Eventually
) -> None:
    """Paused partitions are not delivered, others are; afterwards each goes on where it was."""
    one = holder(kind)
    applications, held = one.live.applications, one.live.places_of(1, 4)

    outcome = one.pause(1, 4)
    paused_at = time.time()

    assert outcome.is_done
    assert held == one.paused == frozenset(one.record.held)
    assert HoldStatus.HELD is one.record.status
    at = {place: one.committed(place) for place in held}
    applications.until_delivered(set(one.live.places) - held, since=paused_at)
    resumed_at = time.time()
    assert one.resume().is_done
    assert frozenset() == one.paused
    applications.until_delivered(one.live.places, since=resumed_at)
    told = applications.deliveries()
    assert [] == delivered_during(told, held, paused_at, resumed_at)
    assert at == {place: _first(told, place, resumed_at) for place in held}
    assert [] == repeats(told, start=one.began)
    eventually(lambda: not has_live_keeper(one.path))
    assert (HoldStatus.ENDED, "resumed") == (one.record.status, one.record.words)
    assert [Intent.PAUSE] * 2 + [Intent.RESUME] * 2 == [entry.intent for entry in one.desk.log]


def test_some_more_are_paused_and_some_resumed(
    holder: Callable[[str], Holder], eventually: Eventually
) -> None:
    """Pausing again adds to the hold, resuming some leaves the others held; both say what is so."""
    one = holder("librdkafka-consumer")
    one.pause(1)
    keeper = one.record.pid

    assert one.pause(1, 4).is_done
    assert one.live.places_of(1, 4) == one.paused == frozenset(one.record.held)
    assert one.record.pid == keeper
    assert one.resume(1).is_done
    assert one.live.places_of(4) == one.paused == frozenset(one.record.held)

    assert one.resume(4).is_done
    eventually(lambda: not has_live_keeper(one.path))


def test_a_hold_ends_when_its_time_is_over(
    holder: Callable[[str], Holder], eventually: Eventually
) -> None:
    """The keeper lets go by itself, and the audit log says that it did, when, and why."""
    one = holder("librdkafka-consumer")
    one.pause(2, terms=HoldTerms(pause_for=SHORT))
    until = one.record.note.until
    assert until

    eventually(lambda: not has_live_keeper(one.path))

    assert frozenset() == one.paused
    assert HoldStatus.ENDED is one.record.status
    resumed = [entry for entry in one.desk.log if entry.intent is Intent.RESUME]
    assert [Event.INTENT, Event.OUTCOME] == [entry.event for entry in resumed]
    ended = resumed[-1]
    assert Action.RELEASE is ended.steps[0].action
    assert "duration" in ended.run.reason
    assert until <= ended.at
    one.live.applications.until_delivered(one.live.places)


def test_what_somebody_else_resumed_stays_resumed(
    holder: Callable[[str], Holder], tmp_path: Path, eventually: Eventually
) -> None:
    """A keeper whose member was made to leave says so and ends; it does not capture again."""
    one = holder("librdkafka-consumer")
    one.pause(2)
    elsewhere = Holder(Desk(one.desk.cluster, tmp_path / "elsewhere"), one.live)

    assert elsewhere.resume(2).is_done

    eventually(lambda: not has_live_keeper(one.path))
    assert HoldStatus.ENDED is one.record.status
    assert "resumed" in one.record.words
    assert frozenset() == one.paused
    one.live.applications.until_delivered(one.live.places)


def test_a_hold_whose_process_was_killed_is_gone_on_with(
    holder: Callable[[str], Holder], eventually: Eventually
) -> None:
    """It is told that its processes are gone; pausing the same again goes on with it, ungapped."""
    one = holder("librdkafka-range")
    one.pause(2)
    first, paused_at, held = one.record.pid, time.time(), one.live.places_of(2)
    # One that the capture has sent away is back: who comes later would wait for the dead keeper.
    one.live.applications.until(
        lambda log: {"a", "b"} <= {d.consumer for d in log if d.at > paused_at}
    )
    assert [] == find_orphaned_holds(one.desk.cluster, one.desk.state)
    kill_keepers(one.path)

    renamed = replace(one.desk.cluster, name=one.desk.cluster.bootstrap_servers)
    (left,) = eventually(lambda: find_orphaned_holds(renamed, one.desk.state))
    assert (held, one.live.group) == (left.still_held, left.record.group_id)
    assert one.pause_as_asked(2).is_done

    assert has_live_keeper(one.path)
    assert one.record.pid not in {0, first}
    one.live.applications.until_delivered(set(one.live.places) - held, since=time.time())
    told = one.live.applications.deliveries()
    assert [] == delivered_during(told, held, paused_at, time.time())
    assert one.resume().is_done
    one.live.applications.until_delivered(one.live.places)


@pytest.mark.parametrize("broken", ["socket", "file"])
def test_what_a_keeper_holds_that_cannot_be_asked_is_resumed(
    holder: Callable[[str], Holder], broken: str, eventually: Eventually
) -> None:
    """Its member is made to leave; the keeper sees that and ends."""
    one = holder("librdkafka-range")
    one.pause(2)
    keeper = psutil.Process(one.record.pid)
    if broken == "socket":
        Path(one.record.socket).unlink()
    else:
        one.path.write_text("{")

    assert one.resume(2).is_done

    assert frozenset() == one.paused
    eventually(lambda: not keeper.is_running())
    one.live.applications.until_delivered(one.live.places)


def test_a_keeper_that_is_asked_to_end_lets_go(
    holder: Callable[[str], Holder], eventually: Eventually
) -> None:
    """A polite kill of the keeper, as at a shutdown, resumes and records it."""
    one = holder("librdkafka-range")
    one.pause(2)

    os.kill(one.record.pid, signal.SIGTERM)

    eventually(lambda: not has_live_keeper(one.path))
    assert (HoldStatus.ENDED, "stopped by SIGTERM") == (one.record.status, one.record.words)
    assert frozenset() == one.paused
    assert "stopped by SIGTERM" == one.desk.log[-1].run.reason


def test_a_group_may_change_its_assignor_while_it_is_held(
    desk: Desk, live_group: Callable[..., LiveGroup]
) -> None:
    """A newcomer that knows only the second of the members' two assignors is let in, and reads."""
    both = {"partition.assignment.strategy": "range,roundrobin"}
    one = Holder(desk, live_group(desk.cluster, "librdkafka-range", **both))
    one.pause(1)
    paused_at, held = time.time(), one.live.places_of(1)

    one.live.applications.start("c", **{"partition.assignment.strategy": "roundrobin"})
    one.live.applications.until(lambda told: "c" in {delivery.consumer for delivery in told})

    eventually(lambda: ("roundrobin", held) == (one.group.assignor, one.paused))
    one.live.applications.until_delivered(set(one.live.places) - held)
    told = one.live.applications.deliveries()
    assert [] == delivered_during(told, held, paused_at, time.time())
    assert one.resume().is_done
    one.live.applications.until_delivered(one.live.places)


def test_a_capture_that_is_interrupted_holds_nothing(
    holder: Callable[[str], Holder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C while partitions are being captured leaves the group consuming, and says so."""
    one, is_cut, cut = holder("librdkafka-range"), threading.Event(), KeeperHandle.cut

    def cutting(tie: KeeperHandle) -> None:
        cut(tie)
        is_cut.set()

    monkeypatch.setattr(KeeperHandle, "cut", cutting)
    with (
        GroupChannel(one.desk.cluster, one.live.group) as channel,
        ThreadPoolExecutor() as pool,
    ):
        channel.ask(DescribeClassic())  # a look takes no time from here on
        pressed = pool.submit(press_ctrl_c, one, channel, is_cut)
        outcome = one.pause(1, 4)
        pressed.result()

    assert (ChangeStatus.NOT_TRIED, "stopped by SIGINT") == (
        outcome.steps[0].status,
        outcome.steps[0].why,
    )
    assert frozenset() == one.paused
    assert not has_live_keeper(one.path)
    group = one.group
    assert group.members == group.readers
    one.live.applications.until_delivered(one.live.places)


def press_ctrl_c(one: Holder, channel: GroupChannel, is_cut: threading.Event) -> None:
    """Press Ctrl-C when members of ours are in the group; their keeper stands still meanwhile."""

    def has_joined() -> bool:
        return HOLDER_CLIENT_ID in {
            member.client_id for member in channel.ask(DescribeClassic()).members
        }

    eventually(has_joined)
    keeper = one.record.pid
    suspend(keeper)
    try:
        # So the operator waits for it, and holds signals back: this one does not end the tests.
        assert HoldStatus.STARTING is one.record.status
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        signal.raise_signal(signal.SIGINT)
        assert is_cut.wait(PATIENCE_S)
    finally:
        os.kill(keeper, signal.SIGCONT)


def test_two_pauses_at_once(holder: Callable[[str], Holder], tmp_path: Path) -> None:
    """Of two who pause a group from two machines each is told what is so, and none is half."""
    one = holder("librdkafka-consumer")
    other = Holder(Desk(one.desk.cluster, tmp_path / "elsewhere"), one.live)
    became: dict[str, Outcome | Blocked] = {}

    def pause(name: str, who: Holder, number: int) -> None:
        try:
            became[name] = who.pause(number)
        except Blocked as exc:
            became[name] = exc

    both = [threading.Thread(target=pause, args=args) for args in (("a", one, 1), ("b", other, 4))]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()

    done = {name for name, end in became.items() if isinstance(end, Outcome) and end.is_done}
    held = {"a": one.live.places_of(1), "b": one.live.places_of(4)}
    assert {"a", "b"} == became.keys()
    assert frozenset().union(*(held[name] for name in done)) == one.paused
    for who in (one, other):
        if has_live_keeper(who.path):
            with suppress(HoldLost):  # it may just be ending
                ask_keeper(who.record.socket, {"do": "release"})
    one.live.applications.until_delivered(one.live.places)


@pytest.mark.parametrize("kind", ["librdkafka-range", "librdkafka-cooperative-sticky"])
@pytest.mark.parametrize("numbers", [(1, 1), (1, 4)])
def test_of_two_pauses_of_a_classic_group_at_once_one_wins(
    holder: Callable[[str], Holder], tmp_path: Path, kind: str, numbers: tuple[int, int]
) -> None:
    """Exactly one of two operators on two machines pauses; the other is told who, what, since."""
    one = holder(kind)
    both = [one, Holder(Desk(one.desk.cluster, tmp_path / "elsewhere"), one.live)]
    plans = [who.planned(number) for who, number in zip(both, numbers, strict=True)]

    with ThreadPoolExecutor() as pool:
        outcomes = list(pool.map(lambda who, plan: who.desk.apply(plan), both, plans))

    (first,) = (at for at, outcome in enumerate(outcomes) if outcome.is_done)
    assert one.live.places_of(numbers[first]) == one.paused
    lost = outcomes[1 - first].steps[0]
    note = both[first].record.note
    assert note.since
    assert ChangeStatus.REFUSED is lost.status
    who = f"{note.who} @ {note.host} since {note.since:%Y-%m-%d %H:%M:%S} UTC"
    assert f"{who} has already paused {one.live.topics[0]}:{numbers[first]}" in lost.why
    assert not has_live_keeper(both[1 - first].path)
    assert both[first].resume().is_done
    one.live.applications.until_delivered(one.live.places)


@pytest.mark.parametrize("kind", LIVE)
def test_offsets_of_a_live_group_are_moved(
    holder: Callable[[str], Holder], kind: str, eventually: Eventually
) -> None:
    """Every moved partition is read from its new offset, once; nothing else is disturbed."""
    one = holder(kind)
    group, moved = one.live.group, one.live.places_of(1, 4)
    eventually(lambda: all(one.committed(place) > 3 for place in moved))
    begun = time.time()

    outcome = one.move(MoveRequest(ToOffset(3), group, (f"{one.live.topics[0]}:1,4",)))

    assert outcome.is_done
    assert [Action.HOLD, Action.MOVE, Action.RELEASE] == [step.action for step in outcome.steps]
    applications = one.live.applications
    applications.until_delivered(one.live.places)
    told = [delivery for delivery in applications.deliveries() if delivery.at > begun]
    back = {p: next(d.at for d in told if d.place == p and d.offset == 3) for p in moved}
    assert [] == repeats(applications.deliveries(), start=begun, moved=back)
    assert moved == {d.place for d in told if d.offset == 3}
    assert frozenset() == one.paused
    # What was seen of the application since the release is a second outcome of the move.
    intents = [Intent.PAUSE] * 2 + [Intent.MOVE] * 2 + [Intent.RESUME] * 2 + [Intent.MOVE]
    assert intents == [entry.intent for entry in one.desk.log]

    undone_at = time.time()
    before, done_at = one.undo(outcome.run_id), time.time()
    applications.until(lambda all_: all(_is_past_all(all_, p, done_at) for p in moved))
    told = [delivery for delivery in applications.deliveries() if delivery.at > undone_at]
    for place in moved:  # what it had read since the move, then where the move had found it
        offsets = [delivery.offset for delivery in told if delivery.place == place]
        assert before[place] in offsets
        assert [] == [n for n in offsets[offsets.index(before[place]) :] if n < before[place]]


def test_a_saved_move_is_applied_and_its_undo_too(
    holder: Callable[[str], Holder], eventually: Eventually, tmp_path: Path
) -> None:
    """A move in a plan file moves the live group, and so does the plan file of its undo."""
    one = holder("librdkafka-range")
    session, group, place = one.desk.session, one.live.group, one.live.places[1]
    eventually(lambda: one.committed(place) > 5)

    def applied(change: PlannedChange) -> ChangeOutcome:
        saved = session.saved_change(change.save(tmp_path / "plan.json"))
        assert (change.fingerprint, Intent.MOVE) == (saved.fingerprint, saved.plan.intent)
        # Going back to where it was may skip what it has read again since.
        approval = {"approve": saved.fingerprint, "overrides": ["skips-unread-records"]}
        decision = saved.decide(dry_run=False, reason="a test", **approval)
        if decision.blocked_by:
            raise Blocked(" ".join(f"{rule} ({group})" for rule in decision.blocked_by))
        return decision.apply()

    scope, before = f"{place.topic}:{place.partition}", one.committed(place)
    moved = once_at_rest(
        lambda: applied(session.move(group, to=target("to-offset", "3"), topics=[scope]))
    )
    assert moved.is_done
    found = [
        result.found for step in moved.outcome.steps for result in step.results if result.found
    ]
    assert {3} == {position.offset for position in found}

    back = once_at_rest(lambda: applied(session.undo(moved.run_id)))
    assert back.is_done
    assert before <= min(offsets_of(back))


def offsets_of(done: ChangeOutcome) -> set[int]:
    """Return the offsets that were read back."""
    assert done.outcome
    results = [result for step in done.outcome.steps for result in step.results]
    return {result.found.offset for result in results if result.found}


def test_a_move_that_a_rule_stops_moves_nothing(
    holder: Callable[[str], Holder], eventually: Eventually
) -> None:
    """What blocks once the partitions stand still blocks the move, and they are let go."""
    one = holder("librdkafka-consumer")
    group = one.live.group
    eventually(lambda: one.committed(one.live.places[1]) > 5)
    strict = Holder(one.desk.with_policy(max_records_repeated=4), one.live)

    with pytest.raises(Blocked, match="too-many-records"):
        strict.move(MoveRequest(ShiftBy(-5), group, (f"{one.live.topics[0]}:1",)))

    assert frozenset() == one.paused
    one.live.applications.until_delivered(one.live.places)


def test_a_python_caller_pauses_lists_and_resumes(holder: Callable[[str], Holder]) -> None:
    """A session plans, the caller approves; what is so already leaves nothing to do."""
    one = holder("librdkafka-range")
    session, group, wanted = one.desk.session, one.live.group, one.live.places_of(1, 4)
    scopes = [f"{one.live.topics[0]}:1,4"]

    def carried_out(change: PlannedChange) -> ChangeOutcome:
        return change.decide(dry_run=False, approve=change.fingerprint, reason="a test").apply()

    done = once_at_rest(lambda: carried_out(session.pause(group, scopes)))
    assert done.is_done
    assert carried_out(session.pause(group, scopes)).outcome is None
    rows = session.paused(group).rows
    places = zip(rows["topic"], rows["partition"], strict=True)
    assert wanted == {TopicPartition(topic, int(number)) for topic, number in places}
    assert {"a test"} == {*rows["reason"]}
    assert carried_out(session.resume(group, scopes)).is_done
    assert carried_out(session.resume(group)).outcome is None

    missing = session.pause("no-such-group", scopes).decide(dry_run=False)
    assert "no-such-group" in missing.blocked_by


def _is_past_all(told: list[Delivery], place: TopicPartition, instant: float) -> bool:
    """Whether more of a partition was delivered since an instant than ever before."""
    offsets = [(one.at > instant, one.offset) for one in told if one.place == place]
    before, since = ([n for late, n in offsets if late is wanted] for wanted in (False, True))
    return max(since, default=-1) > max(before)


def _first(told: list[Delivery], place: TopicPartition, since: float) -> int:
    """Return the offset of the first record of a partition since an instant."""
    found = first_after(told, place, since)
    assert found
    return found.offset
