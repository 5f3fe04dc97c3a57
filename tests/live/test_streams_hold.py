"""Partitions of a Kafka Streams application on the classic protocol, held on a real broker."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from applications import PATIENCE_S, eventually
from consumer_processes.analysis import delivered_during, first_after, two_at_once
from live_groups import together
from operators import Operator, once_at_rest
from streams_app import StreamsApplication

from toolkit.errors import Blocked, HoldLost, Interrupted, NotCaptured
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.describe_groups import describe_groups
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import ClassicFacts, DescribeClassic, Leave
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter, WriteResult
from toolkit.live.recipe_steps import RecipeGenerator, SendBatch, Sleep, Yielded, run_recipe
from toolkit.live.streams_hold import StreamsHold
from toolkit.model import HOLDER_CLIENT_ID, Cluster, Group, HoldNote, Snapshot, TopicPartition
from toolkit.operate import watch_move
from toolkit.operate.move import move
from toolkit.plan import ChangeStatus, Position
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import MoveRequest, plan_move
from toolkit.planning.changes.pause import plan_pause, plan_resume
from toolkit.planning.changes.targets import ToOffset

pytestmark = pytest.mark.live("a Streams application runs")

NOTE = HoldNote(who="ann", host="desk", reason="a test")
PAUSED = (1, 4)
HELD_S = 3
BEAT_S = 0.2

Start = Callable[..., StreamsApplication]


class Holder:
    """A hold on an application, and its channel to the group."""

    def __init__(self, app: StreamsApplication, channel: GroupChannel) -> None:
        """Hold nothing yet."""
        self.app, self.channel = app, channel
        self.hold = StreamsHold(note=NOTE)

    def capture(self, *numbers: int) -> float:
        """Hold partitions, and return when that was confirmed."""
        wanted = self.app.places_of(*numbers)
        once_at_rest(lambda: run_recipe(self.hold.capture(wanted), self.channel))
        return time.time()

    def release(self, *numbers: int) -> float:
        """Give partitions back, and return from when on they may be read."""
        at = time.time()
        run_recipe(self.hold.release(self.app.places_of(*numbers)), self.channel)
        return at

    def keep(self, *, until: Callable[[], Any]) -> None:
        """Keep the hold until something is so."""

        def is_so() -> bool:
            run_recipe(self.hold.keep(), self.channel)
            time.sleep(BEAT_S)
            return bool(until())

        eventually(is_so)

    def keep_for(self, seconds: float) -> None:
        """Keep the hold for some time."""
        end = time.time() + seconds
        self.keep(until=lambda: time.time() > end)

    def facts(self) -> ClassicFacts:
        """Look at the group as members see it."""
        found: ClassicFacts = self.channel.ask(DescribeClassic())
        return found

    def others_flow(self, *numbers: int) -> None:
        """Keep the hold until every partition that is not held was delivered."""
        at, others = time.time(), set(self.app.places) - self.app.places_of(*numbers)
        self.keep(
            until=lambda: others <= {d.place for d in self.app.deliveries() if d.at > at},
        )


@pytest.fixture
def held(bare_cluster: Cluster, streams_app: Start) -> Callable[..., Any]:
    """Return a function that starts an application, and returns who holds its partitions."""
    return lambda **wanted: holding(streams_app(bare_cluster, "classic", **wanted))


@contextmanager
def holding(app: StreamsApplication) -> Iterator[Holder]:
    """Yield who holds an application's partitions, which does not end it."""
    with GroupChannel(app.cluster, app.group) as channel:
        yield Holder(app, channel)
        assert set(app.states().values()) <= {"RUNNING", "REBALANCING"}


@pytest.fixture(scope="module")
def shared_app(bare_cluster: Cluster, shared_streams_app: Start) -> StreamsApplication:
    """Return an application that tests here share."""
    return shared_streams_app(bare_cluster, "classic")


@pytest.fixture
def shared_hold(shared_app: StreamsApplication) -> Iterator[Holder]:
    """Return who holds partitions of the shared application, which is at rest."""
    shared_app.until_at_rest()
    try:
        with holding(shared_app) as holder:
            yield holder
    finally:
        shared_app.end_holds()


def group_of(app: StreamsApplication) -> Group:
    """Return a group as everybody can see it."""
    with Connection(app.cluster) as connection:
        listed = [one for one in list_groups(connection)[0] if one.group_id == app.group]
        (found,) = describe_groups(connection, listed)
    assert isinstance(found, Group)
    return found


def test_pause_move_resume(bare_cluster: Cluster, kafka_39: Cluster, streams_app: Start) -> None:
    """
    Held partitions stand still while others flow, and are read on where they were moved to.

    Also those of tasks that keep state, and on the oldest Kafka that is supported.
    """

    def is_so(cluster: Cluster, shape: dict[str, Any]) -> None:
        with holding(streams_app(cluster, "classic", **shape)) as holder:
            app, places = holder.app, holder.app.places_of(*PAUSED)
            others = set(app.places) - places

            confirmed = holder.capture(*PAUSED)
            holder.keep_for(HELD_S)
            holder.others_flow(*PAUSED)
            holder.keep(until=lambda: places == group_of(app).paused.keys())
            (note,) = {one.hold_note for one in group_of(app).paused.values()}
            assert (NOTE.who, NOTE.reason) == (note.who, note.reason)
            with Connection(app.cluster) as connection:
                writer = GroupWriter(connection)
                assert WriteResult() == writer.move(app.group, {one: Position(7) for one in places})
            resumed = holder.release(*PAUSED)
            app.until_delivered([*places], since=resumed)
            app.until_running()

            app.until_nothing_is_missing(others, first=0)
            log = app.deliveries()
            assert [] == delivered_during(log, places, confirmed, resumed)
            assert {7} == {one.offset for p in places if (one := first_after(log, p, resumed))}
            assert [] == two_at_once(log)

    shapes: tuple[dict[str, Any], ...] = ({}, {"topics": 2}, {"stateful": True})
    together(is_so, (*[bare_cluster] * 3, kafka_39), (*shapes, {}))


def test_more_and_less(shared_hold: Holder) -> None:
    """What is added is given back by its owner, which goes on; what is given back is read again."""
    holder, app = shared_hold, shared_hold.app
    holder.capture(1)
    added = holder.capture(4)
    holder.others_flow(1, 4)
    given = holder.release(1)
    holder.others_flow(4)
    holder.keep(until=lambda: app.places_of(4) == group_of(app).paused.keys())
    log = app.deliveries()

    assert app.places_of(4) == holder.hold.held
    assert [] == delivered_during(log, app.places_of(4), added, time.time())
    assert [] == delivered_during(log, app.places_of(1), added, given)
    holder.release(4)
    app.until_delivered(app.places)


def test_instances_come_and_go(held: Callable[..., Any]) -> None:
    """A new instance runs without a task, takes over those of one that leaves, and none is held."""
    with held() as holder:
        app = holder.app
        confirmed = holder.capture(*PAUSED)
        app.start("c")
        holder.keep(until=lambda: app.states()["c"] == "RUNNING")
        (gone,) = (m.member_id for m in holder.facts().members if m.client_id.startswith("a-"))
        app.stop("a")
        holder.channel.ask(Leave((gone,)))  # as the broker has it do after its session timeout
        stopped = time.time()
        holder.others_flow(*PAUSED)
        resumed = holder.release(*PAUSED)
        app.until_delivered(app.places, since=resumed)

        app.until_nothing_is_missing(app.places, first=0)
        log = app.deliveries()
        assert [] == delivered_during(log, app.places_of(*PAUSED), confirmed, resumed)
        assert {"b", "c"} == {one.consumer for one in log if one.at > stopped}


def test_another_process_goes_on(held: Callable[..., Any]) -> None:
    """A hold goes on from what was written down of it, and no record is delivered meanwhile."""
    with held() as holder:
        confirmed = holder.capture(*PAUSED)
        written = json.loads(json.dumps(holder.hold.state()))
        holder.hold = StreamsHold.from_state(written, note=NOTE)
        holder.keep_for(1)
        holder.app.start("c")
        holder.keep(until=lambda: holder.app.states()["c"] == "RUNNING")
        holder.others_flow(*PAUSED)
        resumed = holder.release(*PAUSED)
        holder.app.until_delivered(holder.app.places)

        places = holder.app.places_of(*PAUSED)
        assert [] == delivered_during(holder.app.deliveries(), places, confirmed, resumed)


def test_somebody_else_resumes(shared_hold: Holder) -> None:
    """Who finds that it was made to leave says so, and does not come back."""
    holder = shared_hold
    holder.capture(*PAUSED)
    (ours,) = (m.member_id for m in holder.facts().members if m.client_id == HOLDER_CLIENT_ID)
    holder.channel.ask(Leave((ours,)))

    with pytest.raises(HoldLost, match="hold lost"):
        holder.keep_for(HELD_S)

    assert frozenset() == holder.hold.held
    holder.app.until_delivered(holder.app.places)
    assert not [m for m in holder.facts().members if m.client_id == HOLDER_CLIENT_ID]


@dataclass
class Watched:
    """A recipe, and how often it has begun to ask for something else than before."""

    recipe: RecipeGenerator[None]
    changes: int = 0
    asks: list[str] = field(default_factory=list)

    def __iter__(self) -> RecipeGenerator[None]:
        """Yield what the recipe yields."""
        go_on = partial(next, self.recipe)
        while True:
            try:
                step = go_on()
            except StopIteration:
                return
            self._note(step)
            try:
                go_on = partial(self.recipe.send, (yield step))
            except BaseException as exc:  # noqa: BLE001  # the recipe is to hear of it
                go_on = partial(self.recipe.throw, exc)

    def _note(self, step: Yielded) -> None:
        requests = step.requests if isinstance(step, SendBatch) else (step,)
        asks = [type(one).__name__ for one in requests]
        if not isinstance(step, Sleep) and asks != self.asks:
            self.asks, self.changes = asks, self.changes + 1


def test_interrupted_at_every_step(shared_hold: Holder) -> None:
    """Wherever a capture is interrupted, no member of ours is left, and everything is read."""
    holder, step = shared_hold, 1
    while interrupted(holder, step):
        assert frozenset() == holder.hold.held
        left = [m for m in holder.facts().members if m.client_id == HOLDER_CLIENT_ID]
        assert (step, []) == (step, left)
        holder.app.until_at_rest()
        step += 1
    assert step > 8
    holder.release(*PAUSED)
    holder.app.until_delivered(holder.app.places)


def interrupted(holder: Holder, step: int) -> bool:
    """Capture until the recipe asks for the nth thing, and return whether it did."""

    def tried() -> bool:
        watched = Watched(holder.hold.capture(holder.app.places_of(*PAUSED)))

        def check() -> None:
            if watched.changes == step:
                raise Interrupted("enough")

        try:
            run_recipe(iter(watched), holder.channel, check=check)
        except Interrupted:
            return True
        return False

    return bool(once_at_rest(tried))  # a member that the last capture sent away may just come back


def test_tasks_of_several_partitions(held: Callable[..., Any]) -> None:
    """What one task reads together is held and given back together, or not at all."""
    with held(topics=2, together=True) as holder:
        app, hold = holder.app, holder.hold
        pair = app.places_of(1) | app.places_of(1, topic=1)
        with pytest.raises(NotCaptured, match="belongs to the same task"):
            holder.capture(1)
        assert not [m for m in holder.facts().members if m.client_id == HOLDER_CLIENT_ID]

        run_recipe(hold.capture(pair), holder.channel)
        confirmed = time.time()
        others = set(app.places) - pair
        holder.keep(until=lambda: others <= {d.place for d in app.deliveries() if d.at > confirmed})
        with pytest.raises(Blocked, match="belongs to the same task"):
            holder.release(1)
        assert pair == hold.held
        resumed = time.time()
        run_recipe(hold.release(pair), holder.channel)
        app.until_delivered(app.places)

        assert [] == delivered_during(app.deliveries(), pair, confirmed, resumed)


def test_standby_tasks_are_not_touched(held: Callable[..., Any]) -> None:
    """An application with standby tasks is refused, and goes on undisturbed."""
    with held(stateful=True, num_standby_replicas=1) as holder:
        before = holder.facts()
        with pytest.raises(NotCaptured, match="standby"):
            holder.capture(*PAUSED)

        assert before == holder.facts()


def test_what_is_not_held(shared_hold: Holder) -> None:
    """What nobody reads, and what somebody else holds, is refused, and nothing is done."""
    holder, other = shared_hold, Holder(shared_hold.app, shared_hold.channel)
    with pytest.raises(NotCaptured, match="no thread is assigned"):
        run_recipe(holder.hold.capture(frozenset({TopicPartition("no", 0)})), holder.channel)
    holder.capture(1)
    with pytest.raises(NotCaptured, match="ann @ desk has already paused"):
        other.capture(4)

    holder.others_flow(1)
    holder.release(1)


def test_paused_and_moved_as_any_other_group(
    bare_cluster: Cluster, streams_app: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A keeper holds it, a move is made while it is held, and the application never fails."""
    app, operator = streams_app(bare_cluster, "classic"), Operator(bare_cluster, tmp_path / "state")
    words = [f"{app.topics[0]}:1,4"]
    places = app.places_of(*PAUSED)

    def facts() -> Snapshot:
        return operator.facts(app.group, topics=app.topics)

    assert once_at_rest(
        lambda: operator.apply(plan_pause(facts(), group=app.group, topics=words))
    ).is_done
    confirmed = time.time()
    app.until_delivered(sorted(set(app.places) - places))
    eventually(lambda: places == group_of(app).paused.keys())
    resumed = time.time()
    assert operator.apply(plan_resume(facts(), group=app.group, topics=words)).is_done
    app.until_at_rest()
    assert [] == delivered_during(app.deliveries(), places, confirmed, resumed)

    planned = plan_move(facts(), MoveRequest(ToOffset(3), app.group, tuple(words)))
    approval = Approval(planned.plan.fingerprint, reason="a test")
    began = time.time()
    monkeypatch.setattr(watch_move, "WATCH_S", PATIENCE_S)  # however late a busy machine commits
    outcome = move(planned, bare_cluster, approval, state=operator.state).outcome
    app.until_delivered(app.places)

    # Who has read all there is by the first commit leaves it open; what was delivered does not.
    results = [result for step in outcome.steps for result in step.results]
    assert all(r.status is ChangeStatus.DONE or "read up to there" in r.why for r in results)
    log = [one for one in app.deliveries() if one.at > began]
    for place in places:
        offsets = [one.offset for one in log if one.place == place]
        assert 3 == next(here for last, here in pairwise(offsets) if here < last)
    assert [] == two_at_once(log)
    app.until_running()
