"""A Kafka Streams application on the Streams protocol (KIP-1071), paused as a whole."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from applications import eventually
from consumer_processes.analysis import delivered_during, missing
from holding import keepers_of, kill_keepers
from operators import Operator, once_at_rest
from streams_app import StreamsApplication

from toolkit.errors import BrokerRefused, HoldLost, Interrupted, NotCaptured
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.group_config import (
    STREAMS_DELAY_MS,
    ChangeConfig,
    FetchGroupConfig,
)
from toolkit.kafka_io.membership.streams import DescribeStreams, LeaveStreams
from toolkit.kafka_io.offsets_topic.group_rows import decode_groups
from toolkit.kafka_io.offsets_topic.log_ends import offsets_partitions
from toolkit.kafka_io.offsets_topic.reader import read_offsets_log
from toolkit.live import application_hold
from toolkit.live.application_hold import ApplicationHold
from toolkit.live.recipe_steps import run_recipe
from toolkit.model import HOLDER_CLIENT_ID, Cluster, HoldNote, Snapshot, TopicPartition
from toolkit.planning.changes.pause import plan_resume
from toolkit.storage.hold_files import HoldRecord, hold_path, read_hold

pytestmark = pytest.mark.live("a Streams application runs")

NOTE = HoldNote(who="ann", host="desk", reason="a test")
DELAY_S = 5.0
BEAT_S = 0.5

Start = Callable[..., StreamsApplication]


@pytest.fixture(scope="module")
def app(shared_streams_app: Start, bare_cluster: Cluster) -> StreamsApplication:
    """Return an application that the tests share: two topics are joined, one repartitioned."""
    return shared_streams_app(bare_cluster, "streams", topics=2, joined=True)


@pytest.fixture(autouse=True)
def brief_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a capture wait less for a thread that has ended because it was evicted."""
    monkeypatch.setattr(application_hold, "SESSION_TIMEOUT_S", 15.0)


@pytest.fixture
def channel(app: StreamsApplication) -> Iterator[GroupChannel]:
    """Yield a channel to its group, from which what the test has left there is removed."""
    with GroupChannel(app.cluster, app.group) as opened:
        yield opened
        opened.ask(ChangeConfig(STREAMS_DELAY_MS, None))
        leave(opened)
    app.until_at_rest()


def holders(channel: GroupChannel) -> list[str]:
    """Return the ids of our members."""
    members = channel.ask(DescribeStreams()).members
    return [one.member_id for one in members if one.client_id == HOLDER_CLIENT_ID]


def leave(channel: GroupChannel) -> None:
    """Make our members leave."""
    for one in holders(channel):
        channel.ask(LeaveStreams(one))


def everything(app: StreamsApplication) -> frozenset[TopicPartition]:
    """Return the partitions that it was given; it reads those of its repartition topic, too."""
    return frozenset(TopicPartition(one, n) for one in app.topics for n in range(app.partitions))


def own_delay(channel: GroupChannel) -> str | None:
    """Return what is set for the group."""
    value: str | None = channel.ask(FetchGroupConfig((STREAMS_DELAY_MS,))).own.get(STREAMS_DELAY_MS)
    return value


def new_hold(delay_s: float = DELAY_S) -> ApplicationHold:
    """Return a hold whose delay is short, so that it begins anew soon."""
    return ApplicationHold(note=NOTE, delay_s=delay_s)


def keep(hold: ApplicationHold, channel: GroupChannel, *, until: Callable[[], Any]) -> None:
    """Keep a hold until something is so."""

    def is_so() -> bool:
        run_recipe(hold.keep(), channel)
        time.sleep(BEAT_S)
        return bool(until())

    eventually(is_so)


def keep_until_begun_anew(hold: ApplicationHold, channel: GroupChannel) -> None:
    """Keep a hold until its delay has begun again."""
    began = hold.state()["began"]
    keep(hold, channel, until=lambda: hold.state()["began"] > began)


def test_it_is_paused_for_several_delays(app: StreamsApplication, channel: GroupChannel) -> None:
    """Nothing is delivered; another process goes on; then it reads on, and nothing is missing."""
    channel.ask(ChangeConfig(STREAMS_DELAY_MS, "4000"))
    hold = new_hold()
    run_recipe(hold.capture(everything(app)), channel)
    held = time.time()
    assert "5000" == own_delay(channel)

    for _ in range(2):
        keep_until_begun_anew(hold, channel)
        hold = ApplicationHold.from_state(json.loads(json.dumps(hold.state())), note=NOTE)
    released = time.time()
    assert [] == delivered_during(app.deliveries(), app.places, held, released)
    run_recipe(hold.release(hold.held), channel)

    assert ("4000", []) == (own_delay(channel), holders(channel))
    app.until_delivered(app.places, since=released)
    app.until_running()
    assert not any(missing(app.deliveries(), place) for place in app.places)


def test_who_resumed_it_is_believed(app: StreamsApplication, channel: GroupChannel) -> None:
    """A keeper whose member is gone, and the delay as well, does not take it back."""
    hold = new_hold()
    run_recipe(hold.capture(everything(app)), channel)
    channel.ask(ChangeConfig(STREAMS_DELAY_MS, None))
    leave(channel)

    app.until_delivered(app.places, since=time.time())
    members = described(channel)

    with pytest.raises(HoldLost, match="resumed"):  # as by a keeper that was stopped meanwhile
        run_recipe(hold.keep(), channel)
    assert (frozenset(), members) == (hold.held, described(channel))


def test_a_keeper_that_was_late_says_so(app: StreamsApplication, channel: GroupChannel) -> None:
    """Tasks that were assigned meanwhile are taken back; so are they when ours was evicted."""
    hold = new_hold()
    run_recipe(hold.capture(everything(app)), channel)

    for is_evicted in (False, True):
        if is_evicted:  # as when its session is over
            leave(channel)
        eventually(lambda: any(one.reads for one in described(channel)))
        with pytest.raises(BrokerRefused, match="assigned tasks during the pause"):
            run_recipe(hold.keep(), channel)
    leave(channel)  # as a keeper that dies between evicting and joining leaves it
    keep(hold, channel, until=lambda: not any(m.reads for m in described(channel)))
    assert 1 == len(holders(channel))


def described(channel: GroupChannel) -> Any:
    """Return the members of the group."""
    return channel.ask(DescribeStreams()).members


def test_a_second_operator_is_refused(app: StreamsApplication, channel: GroupChannel) -> None:
    """The first keeps what it has; who began at the same time lets go, or the other does."""
    first, second = new_hold(), new_hold()
    run_recipe(first.capture(everything(app)), channel)

    with pytest.raises(NotCaptured, match="another operator"):
        run_recipe(second.capture(everything(app)), channel)
    run_recipe(first.keep(), channel)
    assert (1, "5000") == (len(holders(channel)), own_delay(channel))


@pytest.mark.parametrize("steps", [1, 4, 7, 10, 13])
def test_a_capture_that_is_interrupted(
    app: StreamsApplication, channel: GroupChannel, steps: int
) -> None:
    """Nothing of ours is left, wherever it was."""
    left = [steps]

    def check() -> None:
        left[0] -= 1
        if not left[0]:
            raise Interrupted("by a test")

    hold = new_hold()
    with pytest.raises(Interrupted):
        run_recipe(hold.capture(everything(app)), channel, check=check)

    assert (frozenset(), None, []) == (hold.held, own_delay(channel), holders(channel))


def test_an_operator_pauses_and_resumes_it(app: StreamsApplication, tmp_path: Path) -> None:
    """As a whole, without naming topics; the standby goes on; who, since when is on the cluster."""
    operator = Operator(app.cluster, tmp_path / "state")
    path = hold_path(operator.state, operator.facts(app.group).cluster_id, app.group)
    try:
        outcome = once_at_rest(lambda: operator.apply(paused(operator, app)))
        assert outcome.is_done, outcome
        held = time.time()
        (group,) = operator.look(app.group).groups
        assert everything(app) <= group.paused.keys()
        assert {path_note(path).who} == {one.hold_note.who for one in group.paused.values()}
        assert {app.group} <= held_by_the_log(app.cluster)
        part = operator.session.resume(app.group, [app.topics[0]])
        assert ["releases-more"] == [one.rule for one in part.plan.findings if one.blocks]

        killed = record(path)
        keeper = next(one for one in keepers_of(path) if one.pid == killed.pid)
        keeper.kill()
        eventually(lambda: record(path).pid != killed.pid)
        eventually(lambda: record(path).members["began"] > killed.members["began"])
        resumed = time.time()
        assert operator.apply(resuming(operator, app)).is_done
        assert [] == delivered_during(app.deliveries(), app.places, held, resumed)
        app.until_delivered(app.places, since=resumed)
    finally:
        kill_keepers(path)


@pytest.mark.default("one of each group protocol")
@pytest.mark.timeout(600)
def test_without_a_keeper_it_is_resumed_from_anywhere(
    app: StreamsApplication, channel: GroupChannel, tmp_path: Path
) -> None:
    """By somebody who has neither its state nor its keeper; done is when tasks are assigned."""
    run_recipe(new_hold().capture(everything(app)), channel)
    operator = Operator(app.cluster, tmp_path / "elsewhere")
    (group,) = operator.look(app.group).groups
    assert everything(app) <= group.paused.keys()

    outcome = operator.apply(resuming(operator, app), "foreign-hold")

    assert outcome.is_done, outcome
    assert (None, []) == (own_delay(channel), holders(channel))
    assert any(one.reads for one in described(channel))


def held_by_the_log(cluster: Cluster) -> set[str]:
    """Return the groups in which the offsets topic shows a member of ours, for the fleet job."""
    with Connection(cluster) as connection:
        logs = offsets_partitions(connection).logs
        tables = [decode_groups(read_offsets_log(cluster, *one).latest)[0] for one in logs.items()]
    return {row["group"] for table in tables for row in table.to_pylist() if row["is_held"]}


def paused(operator: Operator, app: StreamsApplication) -> Any:
    """Plan to pause it; a part of it is refused."""
    part = operator.session.pause(app.group, [app.topics[0]]).plan
    assert "whole-application" in [one.rule for one in part.findings if one.blocks]
    found = operator.session.pause(app.group, []).plan
    assert found.steps, found.findings
    return found


def resuming(operator: Operator, app: StreamsApplication) -> Any:
    """Plan to resume it."""
    facts: Snapshot = operator.facts(app.group, topics=app.topics)
    return plan_resume(facts, group=app.group)


def record(path: Path) -> HoldRecord:
    """Return what the hold file says."""
    found = read_hold(path)
    assert found
    return found


def path_note(path: Path) -> HoldNote:
    """Return who has the hold, as its file says."""
    return record(path).note
