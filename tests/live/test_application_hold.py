"""A Kafka Streams application on the Streams protocol (KIP-1071), paused as a whole."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from applications import eventually
from consumer_processes.analysis import delivered_during, missing
from holding import keepers_of, kill_keepers
from operators import Operator, once_at_rest
from recipe_holds import RecipeHold
from streams_app import JOINED, PARTITIONS, StreamsApplication

from toolkit.errors import BrokerRefused, HoldLost, Interrupted, NotCaptured
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.consumer import LEAVE_EPOCH
from toolkit.kafka_io.membership.group_config import (
    STREAMS_DELAY_MS,
    ChangeConfig,
    FetchGroupConfig,
)
from toolkit.kafka_io.membership.streams import StreamsHeartbeat
from toolkit.kafka_io.offsets_topic.latest_tables import decode_groups
from toolkit.kafka_io.offsets_topic.partitions import offsets_partitions
from toolkit.kafka_io.offsets_topic.reader import read_offsets_log
from toolkit.live import application_hold
from toolkit.live.recipe_steps import CheckedChannel
from toolkit.model import Cluster, TopicPartition
from toolkit.plan import Plan
from toolkit.storage.hold_files import HoldRecord, hold_path, read_hold

pytestmark = pytest.mark.live("a Streams application runs")

Start = Callable[..., StreamsApplication]


@pytest.fixture(scope="module")
def app(shared_streams_app: Start, bare_cluster: Cluster) -> StreamsApplication:
    """Return an application that the tests share: two topics are joined, one repartitioned."""
    return shared_streams_app(bare_cluster, "streams", topics=2, kind=JOINED)


@pytest.fixture(autouse=True)
def brief_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a capture wait less for a thread that has ended because it was evicted."""
    monkeypatch.setattr(application_hold, "SESSION_TIMEOUT_S", 15.0)


@pytest.fixture
def group(app: StreamsApplication) -> Iterator[RecipeHold]:
    """Yield who holds the application; what the test has left in its group is removed."""
    with GroupChannel(app.cluster, app.group) as channel:
        group = RecipeHold(app, channel)
        yield group
        channel.ask(ChangeConfig(STREAMS_DELAY_MS, None))
        leave(group)
    app.until_at_rest()


def has_delay(group: RecipeHold, expected: str | None) -> bool:
    """Return whether the group has this delay in ms, once its broker has heard of it."""

    def is_set() -> bool:
        own: dict[str, str] = group.channel.ask(FetchGroupConfig((STREAMS_DELAY_MS,))).own
        return own.get(STREAMS_DELAY_MS) == expected

    return bool(eventually(is_set))


def leave(group: RecipeHold) -> None:
    for one in group.holders():
        group.channel.ask(StreamsHeartbeat(one.member_id, LEAVE_EPOCH))


def has_tasks(group: RecipeHold) -> bool:
    return any(one.reads for one in group.facts().members)


def everything(app: StreamsApplication) -> frozenset[TopicPartition]:
    """Return the partitions that it was given; it reads those of its repartition topic, too."""
    return frozenset(TopicPartition(one, n) for one in app.topics for n in range(PARTITIONS))


def keep_until_begun_again(group: RecipeHold) -> None:
    """Keep the hold until its delay has begun again."""
    began = group.hold.state()["began"]
    group.until(lambda _: group.hold.state()["began"] > began)


def test_it_is_paused_for_several_delays(group: RecipeHold) -> None:
    """Nothing is delivered; another process goes on; then it reads on, and nothing is missing."""
    app = group.live
    group.channel.ask(ChangeConfig(STREAMS_DELAY_MS, "4000"))
    captured = group.capture(*everything(app))
    assert has_delay(group, "5000")

    for _ in range(2):
        keep_until_begun_again(group)
        group = group.taken_over(group.channel)
    released = time.time()
    assert [] == delivered_during(app.deliveries(), app.places, captured, released)
    group.hold.release(group.channel, group.hold.held)

    assert has_delay(group, "4000")
    assert [] == group.holders()
    app.until_delivered(app.places, since=released)
    app.until_running()
    assert not any(missing(app.deliveries(), place) for place in app.places)


def test_a_resume_by_another_operator_is_accepted(group: RecipeHold) -> None:
    """A keeper whose member is gone, and the delay as well, does not pause again."""
    group.capture(*everything(group.live))
    group.channel.ask(ChangeConfig(STREAMS_DELAY_MS, None))
    leave(group)

    group.live.until_delivered(group.live.places, since=time.time())
    members = group.facts().members

    with pytest.raises(HoldLost, match="resumed"):  # as by a keeper that was stopped meanwhile
        group.hold.keep(group.channel)
    assert (frozenset(), members) == (group.hold.held, group.facts().members)


def test_a_late_keeper_reports_it(group: RecipeHold) -> None:
    """Tasks that were assigned meanwhile are taken back, also if the sentinel was evicted."""
    group.capture(*everything(group.live))

    for is_evicted in (False, True):
        if is_evicted:  # as when its session is over
            leave(group)
        eventually(lambda: has_tasks(group))
        with pytest.raises(BrokerRefused, match="assigned tasks during the pause"):
            group.hold.keep(group.channel)
    leave(group)  # as a keeper that dies between evicting and joining leaves it
    group.until(lambda _: not has_tasks(group))
    assert 1 == len(group.holders())


def test_a_second_operator_is_refused(group: RecipeHold) -> None:
    """The first keeps the hold; of two simultaneous ones one gives up."""
    group.capture(*everything(group.live))
    second = RecipeHold(group.live, group.channel)

    with pytest.raises(NotCaptured, match="another operator"):
        second.capture(*everything(group.live))
    group.hold.keep(group.channel)
    assert has_delay(group, "5000")
    assert 1 == len(group.holders())


@pytest.mark.parametrize("steps", [1, 4, 7, 8, 9])
def test_an_interrupted_capture(group: RecipeHold, steps: int) -> None:
    """No sentinel is left, whatever the step."""
    left = iter(range(steps - 1))

    def check() -> None:
        if next(left, None) is None:
            raise Interrupted("by a test")

    with pytest.raises(Interrupted):
        group.hold.capture(CheckedChannel(group.channel, check), everything(group.live))

    assert has_delay(group, None)
    assert (frozenset(), []) == (group.hold.held, group.holders())


def test_an_operator_pauses_and_resumes_it(app: StreamsApplication, tmp_path: Path) -> None:
    """As a whole, without naming topics; the standby goes on; who, since when is on the cluster."""
    operator = Operator(app.cluster, tmp_path / "state")
    session = operator.session
    path = hold_path(operator.state, operator.facts(app.group).cluster_id, app.group)

    def record() -> HoldRecord:
        found = read_hold(path)
        assert found
        return found

    part = session.pause(app.group, [app.topics[0]]).plan
    assert "whole-application" in [one.rule for one in part.findings if one.blocks]
    try:
        outcome = once_at_rest(lambda: operator.apply(session.pause(app.group, []).plan))
        assert outcome.is_done, outcome
        held = time.time()
        (group,) = operator.look(app.group).groups
        assert everything(app) <= group.paused.keys()
        assert {record().note.who} == {one.hold_note.who for one in group.paused.values()}
        assert {app.group} <= held_by_the_log(app.cluster)
        part = session.resume(app.group, [app.topics[0]]).plan
        assert ["releases-more"] == [one.rule for one in part.findings if one.blocks]

        killed = record()
        keeper = next(one for one in keepers_of(path) if one.pid == killed.pid)
        keeper.kill()
        eventually(lambda: record().pid != killed.pid)
        eventually(lambda: record().members["began"] > killed.members["began"])
        resumed = time.time()
        assert operator.apply(session.resume(app.group).plan).is_done
        assert [] == delivered_during(app.deliveries(), app.places, held, resumed)
        app.until_delivered(app.places, since=resumed)
    finally:
        kill_keepers(path)


@pytest.mark.default("one of each group protocol")
@pytest.mark.timeout(600)
def test_without_a_keeper_it_is_resumed_from_anywhere(group: RecipeHold, tmp_path: Path) -> None:
    """
    By somebody who has neither its state nor its keeper; done is when tasks are assigned.

    Its own delay is known from the note.
    """
    app = group.live
    group.channel.ask(ChangeConfig(STREAMS_DELAY_MS, "4000"))
    group.capture(*everything(app))
    operator = Operator(app.cluster, tmp_path / "elsewhere")

    def planned() -> Plan | None:
        with suppress(BrokerRefused):  # on a busy machine the delay is over before it is kept
            group.hold.keep(group.channel)
        plan = operator.session.resume(app.group).plan
        shown = {change.partition for _, change in plan.changes}
        return plan if everything(app) <= shown else None

    outcome = operator.apply(eventually(planned), "foreign-hold")

    assert outcome.is_done, outcome
    assert has_delay(group, "4000")
    assert [] == group.holders()
    # The resume has seen tasks. While another member takes some over, nobody has any for a moment.
    eventually(lambda: has_tasks(group))


def held_by_the_log(cluster: Cluster) -> set[str]:
    """Return the groups in which the offsets topic shows a member of ours, for the fleet job."""
    with Connection(cluster) as connection:
        logs = offsets_partitions(connection).logs
        tables = [decode_groups(read_offsets_log(cluster, *one).latest)[0] for one in logs.items()]
    return {row["group"] for table in tables for row in table.to_pylist() if row["is_held"]}
