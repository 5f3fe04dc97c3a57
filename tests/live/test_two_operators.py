"""Two operators pause partitions of one group from two machines, which share no files."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Self

import pytest
from applications import eventually
from consumer_processes.analysis import delivered_during, repeats
from holding import Holding, MakeHolding, is_rebalancing
from live_groups import LiveGroup, together
from recipe_holds import NOTE, RecipeHold

from toolkit.errors import Blocked, HoldLost, NotCaptured
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.live import classic_hold
from toolkit.live.classic_hold import ClassicHold
from toolkit.live.keeper_socket import ask_keeper
from toolkit.model import HoldNote, TopicPartition
from toolkit.plan import ChangeStatus, Outcome
from toolkit.planning.changes.move import MoveRequest
from toolkit.planning.changes.targets import ToOffset
from toolkit.storage.hold_files import HoldStatus, has_live_keeper

pytestmark = pytest.mark.live("keepers of two operators run")


SURVIVES_S = 6.0  # the shortest that brokers allow
CLASSIC = ("librdkafka-range", "librdkafka-cooperative-sticky")


def test_two_pauses_at_once(shared_holding: MakeHolding) -> None:
    """Of two who pause a group from two machines each gets a true result, and none is half."""
    one = shared_holding("librdkafka-consumer")
    both = one, one.elsewhere()

    def pause(who: Holding, number: int) -> frozenset[TopicPartition]:
        with suppress(Blocked):
            if who.try_to_pause(number).is_done:
                return one.live.places_of(number)
        return frozenset()

    with ThreadPoolExecutor() as pool:
        done = pool.map(pause, both, (1, 4))

    assert frozenset().union(*done) == one.paused
    for who in both:
        if has_live_keeper(who.path):
            with suppress(HoldLost):  # it may just be ending
                ask_keeper(who.record.socket, {"do": "release"})
    one.live.applications.until_delivered(one.live.places)


def test_of_two_pauses_of_a_partition_at_once_one_wins(shared_holding: MakeHolding) -> None:
    """Exactly one of two operators pauses; the other learns who did, what and since when."""

    def is_so(kind: str) -> None:
        one = shared_holding(kind)
        both = [one, one.elsewhere()]
        outcomes = pause_at_once(both, (1, 1))

        (first,) = (at for at, outcome in enumerate(outcomes) if outcome.is_done)
        assert one.live.places_of(1) == one.paused
        lost = outcomes[1 - first].steps[0]
        note = both[first].record.note
        assert note.since
        assert ChangeStatus.REFUSED is lost.status
        who = f"{note.who} @ {note.host} since {note.since:%Y-%m-%d %H:%M:%S} UTC"
        assert f"{who} has already paused {one.live.topics[0]}:1" in lost.why
        assert not has_live_keeper(both[1 - first].path)
        both[first].resume()
        one.live.applications.until_delivered(one.live.places)

    together(is_so, (*CLASSIC, "librdkafka-consumer"))


def test_a_plan_in_the_rebalance_of_another_waits_for_its_end(shared_holding: MakeHolding) -> None:
    """One that is applied then is refused with whose pause that is; one that is made names it."""

    def is_so(kind: str) -> None:
        one = shared_holding(kind)
        other = one.elsewhere()
        plan, late = one.plan(1), other.plan(1)

        with ThreadPoolExecutor() as pool, one.describing() as describe:
            first = pool.submit(one.operator.apply, plan)
            eventually(lambda: first.done() or is_rebalancing(describe()))
            scope = [other.live.scope(1)]
            made = pool.submit(other.operator.session.pause, other.live.group, scope)
            (step,) = other.operator.apply(late).steps

        assert first.result().is_done
        assert "not-stable" not in [finding.rule for finding in made.result().plan.findings]
        assert ChangeStatus.REFUSED is step.status
        assert " since " in step.why
        one.resume()
        one.live.applications.until_delivered(one.live.places)

    together(is_so, (*CLASSIC, "librdkafka-consumer"))


@pytest.mark.parametrize(("at_once", "kinds"), [(True, CLASSIC), (False, CLASSIC[:1])])
def test_two_operators_pause_different_partitions(
    shared_holding: MakeHolding, kinds: tuple[str, ...], *, at_once: bool
) -> None:
    """Each resumes its own, whoever leads; for a killed keeper the standby takes over."""

    def is_so(kind: str) -> None:
        one = shared_holding(kind)
        other = one.elsewhere()
        applications, held = one.live.applications, one.live.places_of(1, 4)

        if at_once:
            outcomes = beside(one, other, lambda: pause_at_once([one, other], (1, 4)))
            assert all(outcome.is_done for outcome in outcomes), [one.steps for one in outcomes]
        else:
            one.pause(1)
            other.pause(4)
        paused_at = time.time()

        assert held == one.paused
        assert (HoldStatus.HELD,) * 2 == (one.record.status, other.record.status)
        assert 2 == len({member.member_id for member in one.group.paused.values()})
        first, second = (other, one) if at_once else (one, other)  # who came first leads
        mine, left = frozenset(first.record.held), frozenset(second.record.held)
        first_resumed_at = first.resume(*(number for _, number in mine))
        assert left == one.paused
        applications.until_delivered(set(one.live.places) - left, since=first_resumed_at)
        killed = second.record.pid
        second.kill_keeper()
        eventually(lambda: second.record.pid != killed)
        assert left == one.paused
        second_resumed_at = second.resume()
        applications.until_delivered(one.live.places, since=second_resumed_at)

        log = applications.deliveries()
        assert [] == delivered_during(log, mine, paused_at, first_resumed_at)
        assert [] == delivered_during(log, left, paused_at, second_resumed_at)
        assert [] == repeats(log, start=one.began)
        applications.until_nothing_is_missing(one.live.places)
        assert ["resumed"] * 2 == [first.last_words(), second.last_words()]

    together(is_so, kinds)


def test_a_move_beside_the_pause_of_another_operator(shared_holding: MakeHolding) -> None:
    """It is read from its new offset, and what the other has paused is not read meanwhile."""
    one = shared_holding(CLASSIC[1])
    other = one.elsewhere()
    (moved,), held = one.live.places_of(4), one.live.places_of(1)
    eventually(lambda: one.committed(4)[moved] > 3)

    def move() -> list[Outcome]:
        one.pause(1)
        return [other.move(MoveRequest(ToOffset(3), one.live.group, (one.live.scope(4),)))]

    (outcome,) = beside(one, other, move)
    paused_at = one.confirmed
    assert outcome.is_done
    one.live.applications.until(
        lambda log: any(d.place == moved and d.offset == 3 and d.at > paused_at for d in log)
    )

    assert held == one.paused
    resumed_at = one.resume()
    one.live.applications.until_delivered(one.live.places, since=resumed_at)
    log = one.live.applications.deliveries()
    assert [] == delivered_during(log, held, paused_at, resumed_at)


def test_a_second_hold_goes_on_when_the_first_is_gone(shared_holding: MakeHolding) -> None:
    """Each can be extended, but not by partitions of the other; a dead one leaves nothing."""

    def is_so(kind: str) -> None:
        one, note = shared_holding(kind), replace(NOTE, who="bob")
        applications, (topic, *_) = one.live.applications, one.live.topics
        held, lost = one.live.places_of(4, 5), one.live.places_of(1, 2)
        with KeptHold(one.live, survives_s=SURVIVES_S) as first, KeptHold(one.live, note) as second:
            first.capture(*one.live.places_of(1))
            second.capture(*one.live.places_of(4))
            second.capture(*one.live.places_of(5))
            first.capture(*one.live.places_of(2))
            with pytest.raises(NotCaptured, match=f"^ann @ desk has already paused {topic}:1-2"):
                second.capture(*one.live.places_of(2, 3))
            with pytest.raises(NotCaptured, match=f"^bob @ desk has already paused {topic}:4-5"):
                first.capture(*one.live.places_of(4))
            with (
                GroupChannel(one.live.cluster, one.live.group) as channel,
                pytest.raises(NotCaptured, match=f"bob @ desk has already paused {topic}:4-5"),
            ):
                ClassicHold(note=NOTE).capture(channel, held)
            assert held | lost == one.paused
            first.dies()
            applications.until_delivered(set(one.live.places) - held, since=time.time())

            assert {held: note} == {
                frozenset(m.holds): replace(m.hold_note or note, survives_s=None)
                for m in one.group.paused.values()
            }
            second.release(*held)
            applications.until_delivered(one.live.places)
        assert [] == repeats(second.check_deliveries(), start=one.began)

    together(is_so, CLASSIC)


def test_a_second_pause_is_refused_if_a_consumer_would_lead_next(
    shared_holding: MakeHolding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the first operator, whose pause goes on."""
    one, bob = shared_holding("librdkafka-range"), replace(NOTE, who="bob")
    with KeptHold(one.live) as first, KeptHold(one.live, bob) as second:
        first.capture(*one.live.places_of(1))
        monkeypatch.setattr(classic_hold, "leads_next", lambda *_: False)
        paused = f"^ann @ desk has already paused {one.live.topics[0]}:1, and a consumer would lead"
        with pytest.raises(NotCaptured, match=paused):
            second.capture(*one.live.places_of(4))
        assert one.live.places_of(1) == one.paused
        first.release(*one.live.places_of(1))


class KeptHold(RecipeHold):
    """A hold that is kept by a thread, as a keeper does."""

    def __init__(self, live: LiveGroup, note: HoldNote = NOTE, *, survives_s: float = 45.0) -> None:
        super().__init__(live, GroupChannel(live.cluster, live.group))
        self.hold = ClassicHold(note=note, session_timeout_s=survives_s)
        self._busy, self._ended = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._keep)

    def __enter__(self) -> Self:
        self.channel.__enter__()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.dies()
        self.channel.__exit__(None, None, None)

    def capture(self, *places: TopicPartition) -> float:
        with self._busy:
            return super().capture(*places)

    def release(self, *places: TopicPartition) -> float:
        with self._busy:
            return super().release(*places)

    def dies(self) -> None:
        self._ended.set()
        self._thread.join()

    def _keep(self) -> None:
        while not self._ended.wait(self.hold.beat_every_s):
            with self._busy:
                if self.hold.held:
                    self.hold.keep(self.channel)


def beside(one: Holding, other: Holding, attempt: Callable[[], list[Outcome]]) -> list[Outcome]:
    """
    Return what an attempt leads to beside a pause that is followed by another sentinel.

    Of cooperative groups one in some dozens has a consumer that would lead next, and refuses the
    second. The pause is resumed then and made again, as the refusal says: ids are drawn again.
    """
    while True:
        outcomes = attempt()
        if not any("would lead the group next" in s.why for each in outcomes for s in each.steps):
            return outcomes
        (one if has_live_keeper(one.path) else other).resume()
        one.live.until_at_rest()


def pause_at_once(both: list[Holding], numbers: tuple[int, int]) -> list[Outcome]:
    plans = [who.plan(number) for who, number in zip(both, numbers, strict=True)]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda who, plan: who.operator.apply(plan), both, plans))
