"""Partitions of a Kafka Streams application on the classic protocol, held on a real broker."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from applications import PATIENCE_S, eventually
from consumer_processes.analysis import delivered_during, two_at_once
from live_groups import together
from operators import Operator, once_at_rest
from recipe_holds import NOTE, RecipeHold
from streams_app import STATEFUL, TOGETHER, StreamsApplication

from toolkit.errors import Blocked, HoldLost, Interrupted, NotCaptured
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.groups.describe_groups import describe_groups
from toolkit.kafka_io.groups.listing import list_groups
from toolkit.kafka_io.membership.channel import GroupChannel, PendingAnswer
from toolkit.kafka_io.membership.classic import Leave
from toolkit.kafka_io.membership.request import AnswerT, MemberRequest
from toolkit.kafka_io.writes.commit_and_delete import GroupWriter, WriteResult
from toolkit.live.recipe_steps import CheckedChannel, RecipeChannel
from toolkit.model import Cluster, Group, Snapshot
from toolkit.operate import watch_move
from toolkit.operate.move import move
from toolkit.plan import ChangeStatus, Position
from toolkit.plan.approvals import Approval
from toolkit.planning.changes.move import MoveRequest, plan_move
from toolkit.planning.changes.pause import plan_pause, plan_resume
from toolkit.planning.changes.targets import ToOffset

pytestmark = pytest.mark.live("a Streams application runs")

PAUSED = (1, 4)
HELD_S = 3

Start = Callable[..., StreamsApplication]
Held = Callable[..., AbstractContextManager[RecipeHold]]


@pytest.fixture
def held(bare_cluster: Cluster, streams_app: Start) -> Held:
    """Return a function that starts an application, and returns who holds its partitions."""
    return lambda **shape: holding(streams_app(bare_cluster, "classic", **shape))


@contextmanager
def holding(app: StreamsApplication) -> Iterator[RecipeHold]:
    """Yield who holds an application's partitions, which does not end it."""
    with GroupChannel(app.cluster, app.group) as channel:
        yield RecipeHold(app, channel)
        assert set(app.states().values()) <= {"RUNNING", "REBALANCING"}


@pytest.fixture(scope="module")
def shared_app(bare_cluster: Cluster, shared_streams_app: Start) -> StreamsApplication:
    return shared_streams_app(bare_cluster, "classic")


@pytest.fixture
def shared_hold(shared_app: StreamsApplication) -> Iterator[RecipeHold]:
    """Return who holds partitions of the shared application, which is at rest."""
    shared_app.until_at_rest()
    try:
        with holding(shared_app) as group:
            yield group
    finally:
        shared_app.end_holds()


def group_of(app: StreamsApplication) -> Group:
    with Connection(app.cluster) as connection:
        listed = [one for one in list_groups(connection)[0] if one.group_id == app.group]
        (found,) = describe_groups(connection, listed)
    assert isinstance(found, Group)
    return found


def keep_for(group: RecipeHold, seconds: float) -> None:
    end = time.time() + seconds
    group.until(lambda _: time.time() > end)


def test_pause_move_resume(bare_cluster: Cluster, kafka_39: Cluster, streams_app: Start) -> None:
    """
    Held partitions stand still while others flow, and are read from their new offset.

    Also those of tasks that keep state, and on the oldest Kafka that is supported.
    """

    def is_so(cluster: Cluster, shape: dict[str, Any]) -> None:
        with holding(streams_app(cluster, "classic", **shape)) as group:
            app, places = group.live, group.live.places_of(*PAUSED)

            group.capture(*places)
            keep_for(group, HELD_S)
            group.until_others_are_read()
            group.until(lambda _: places == group_of(app).paused.keys())
            (note,) = {one.hold_note for one in group_of(app).paused.values()}
            assert (NOTE.who, NOTE.reason) == (note.who, note.reason)
            others = group.others
            with Connection(app.cluster) as connection:
                writer = GroupWriter(connection)
                assert WriteResult() == writer.move(app.group, {one: Position(7) for one in places})
            group.release(*places)
            app.until_running()

            app.until_nothing_is_missing(others, first=0)
            log = group.check_deliveries()
            assert dict.fromkeys(places, 7) == group.first_offsets()
            assert [] == two_at_once(log)

    shapes: tuple[dict[str, Any], ...] = ({}, {"topics": 2}, {"kind": STATEFUL})
    together(is_so, (*[bare_cluster] * 3, kafka_39), (*shapes, {}))


def test_more_and_less(shared_hold: RecipeHold) -> None:
    """
    An added partition is revoked by its owner, which continues; a released one is read again.

    What somebody else holds is refused, and nothing is done.
    """
    group, app = shared_hold, shared_hold.live
    (first,), (second,) = app.places_of(1), app.places_of(4)
    group.capture(first)
    with pytest.raises(NotCaptured, match="ann @ desk has already paused"):
        RecipeHold(app, group.channel).capture(second)
    group.capture(second)
    group.until_others_are_read()
    group.release(first)
    group.until_others_are_read()
    group.until(lambda _: {second} == group_of(app).paused.keys())

    assert {second} == group.hold.held
    group.release(second)
    group.check_deliveries()


def test_instances_come_and_go(held: Held) -> None:
    """
    A new instance runs without a task and takes over those of one that leaves.

    Also where another process goes on with the hold from what was written down of it.
    """
    with held() as first:
        app = first.live
        first.capture(*app.places_of(*PAUSED))
        group = first.taken_over(first.channel)
        keep_for(group, 1)
        app.start("c")
        group.until(lambda _: app.states()["c"] == "RUNNING")
        (gone,) = (m.member_id for m in group.facts().members if m.client_id.startswith("a-"))
        app.stop("a")
        group.channel.ask(Leave((gone,)))  # as the broker has it do after its session timeout
        stopped = time.time()
        group.until_others_are_read()
        group.release(*group.hold.held)
        app.until_delivered(app.places)

        app.until_nothing_is_missing(app.places, first=0)
        log = group.check_deliveries()
        assert {"b", "c"} == {one.consumer for one in log if one.at > stopped}


def test_another_operator_resumes(shared_hold: RecipeHold) -> None:
    """A sentinel that was removed is reported as lost, and does not rejoin."""
    group = shared_hold
    group.capture(*group.live.places_of(*PAUSED))
    (holder,) = group.holders()
    group.channel.ask(Leave((holder.member_id,)))

    with pytest.raises(HoldLost, match="hold lost"):
        keep_for(group, HELD_S)

    assert frozenset() == group.hold.held
    group.live.until_delivered(group.live.places)
    assert [] == group.holders()


class Watched(CheckedChannel):
    """Notes what a recipe asks for, once where it asks again, before that is checked and sent."""

    def __init__(self, channel: RecipeChannel, check: Callable[[], None]) -> None:
        super().__init__(channel, check)
        self.asks: list[list[str]] = []

    def ask_together(self, requests: Sequence[MemberRequest[AnswerT]]) -> tuple[AnswerT, ...]:
        self._note([type(one).__name__ for one in requests])
        return super().ask_together(requests)

    def send_ahead(
        self, request: MemberRequest[AnswerT], *, after: PendingAnswer[Any] | None = None
    ) -> PendingAnswer[AnswerT]:
        self._note(["ahead", type(request).__name__])
        return super().send_ahead(request, after=after)

    def _note(self, names: list[str]) -> None:
        if self.asks[-1:] != [names]:
            self.asks.append(names)


def test_interrupted_at_every_step(shared_hold: RecipeHold) -> None:
    """Wherever a capture is interrupted, no sentinel is left, and everything is read."""
    group, step = shared_hold, 1
    while interrupted(group, step):
        assert (step, frozenset(), []) == (step, group.hold.held, group.holders())
        group.live.until_at_rest()
        step += 1
    assert step > 8
    group.release(*group.live.places_of(*PAUSED))


def interrupted(group: RecipeHold, step: int) -> bool:
    """Capture until the recipe asks for the nth thing, and return whether it did."""

    def attempt() -> bool:
        def check() -> None:
            if len(channel.asks) == step:
                raise Interrupted("enough")

        channel = Watched(group.channel, check)
        try:
            group.hold.capture(channel, group.live.places_of(*PAUSED))
        except Interrupted:
            return True
        return False

    return bool(once_at_rest(attempt))  # a member that was sent away before may just come back


def test_tasks_of_several_partitions(held: Held) -> None:
    """Partitions of one task are held and released together, or not at all."""
    with held(topics=2, kind=TOGETHER) as group:
        (first,), (second,) = group.live.places_of(1), group.live.places_of(1, topic=1)
        with pytest.raises(NotCaptured, match="belongs to the same task"):
            group.capture(first)
        assert [] == group.holders()

        group.capture(first, second)
        group.until_others_are_read()
        with pytest.raises(Blocked, match="belongs to the same task"):
            group.hold.release(group.channel, frozenset({first}))
        assert {first, second} == group.hold.held
        group.release(first, second)

        group.check_deliveries()


def test_standby_tasks_are_not_touched(held: Held) -> None:
    """An application with standby tasks is refused, and runs on undisturbed."""
    with held(kind=STATEFUL, num_standby_replicas=1) as group:
        before = group.facts()
        with pytest.raises(NotCaptured, match="standby"):
            group.capture(*group.live.places_of(*PAUSED))

        assert before == group.facts()


def test_paused_and_moved_like_any_other_group(
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
