"""A capture that is cut off at any moment: the group ends up consuming as before."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from applications import eventually
from brokers import UNCLOSED_SOCKETS
from holding import (
    RATE,
    Holding,
    Phase,
    has_joined,
    is_rebalancing,
    is_started,
    until_begun,
    until_ended,
)
from live_groups import EACH_PROTOCOL, LiveGroup, together
from payment_groups import OperatorProcess, StartOperator
from processes import suspend

from toolkit.model import Cluster
from toolkit.storage.hold_files import read_hold

pytestmark = [
    pytest.mark.faults("keepers, operators and a broker are killed in a capture"),
    UNCLOSED_SOCKETS,
]
Begin = Callable[[Holding], OperatorProcess]


@pytest.fixture(scope="module")
def groups_that_run(_breakable: Any, _live_groups: Callable[..., LiveGroup]) -> list[LiveGroup]:
    """Return a live group of each kind; all tests of this module use them, one after the other."""
    _breakable.start()
    cluster = Cluster("breakable", _breakable.broker.address)
    return [_live_groups(cluster, kind, per_second=RATE) for kind in EACH_PROTOCOL]


@pytest.fixture
def all_held(
    groups_that_run: list[LiveGroup],
    breakable: Any,  # noqa: ARG001  # a test may have killed it
    tmp_path: Path,
) -> Iterator[list[Holding]]:
    """Return an operator for each of the groups; at the end, stop what a test has started."""
    with ExitStack() as ending:
        for live in groups_that_run:
            ending.callback(without_newcomer, live)
        yield [ending.enter_context(until_ended(live, tmp_path)) for live in groups_that_run]


def without_newcomer(live: LiveGroup) -> None:
    if "c" in live.applications.running:
        live.applications.stop("c")


@pytest.fixture
def begin(start_operator: StartOperator) -> Begin:
    """Return a function that starts an operator who pauses, and waits until a keeper runs."""

    def start(held: Holding) -> OperatorProcess:
        held.when_stable()
        running = start_operator(held.operator, held.plan())

        def has_begun() -> bool:
            code, lines = running.process.poll(), running.lines  # before the hold file is read
            assert held.is_starting or (code is None and not lines), (code, lines, held.evidence)
            return held.is_starting

        eventually(has_begun)
        return running

    return start


def is_held(held: Holding) -> bool:
    record = read_hold(held.path)
    return record is not None and held.places == frozenset(record.held)


def consumes_as_before(held: Holding, began: float, since: float) -> None:
    """
    Check that no member of a keeper is left, a newcomer gets partitions, and no record is lost.

    Every partition is delivered after `since`, and no offset is missing after `began`.
    """
    apps = held.live.applications
    with held.describing() as describe:
        eventually(lambda: not has_joined(describe()))
    apps.until_delivered(held.live.places, since=since)
    joined = time.time()
    apps.start("c")
    apps.until(lambda log: "c" in {one.consumer for one in log if one.at > joined})
    apps.until_delivered(held.live.places)
    held.when_stable()
    held.live.applications.until_nothing_is_missing(held.live.places, since=began)


def test_a_keeper_that_is_killed(all_held: list[Holding], begin: Begin) -> None:
    """Sentinels without a keeper are removed, and the operator learns why."""

    def kill(held: Holding, phase: Phase) -> None:
        began, running = time.time(), begin(held)
        with held.stopped_at(phase):
            held.kill_keeper()
        consumes_as_before(held, began, time.time())
        code, last_line = running.end()
        assert 4 == code, last_line

    together(kill, all_held, (is_started, is_rebalancing, has_joined))


@pytest.mark.parametrize(
    ("numbers", "phases"),
    [
        ([signal.SIGKILL] * 3, (has_joined, is_started, is_rebalancing)),
        ([signal.SIGINT, signal.SIGTERM, signal.SIGINT], (is_rebalancing, has_joined, is_started)),
    ],
)
def test_an_operator_that_is_stopped(
    numbers: list[signal.Signals],
    phases: tuple[Phase, ...],
    all_held: list[Holding],
    begin: Begin,
) -> None:
    """When the process that asked for a pause ends before the pause is done, the capture ends."""

    def end(held: Holding, number: signal.Signals, phase: Phase) -> None:
        began, running = time.time(), begin(held)
        with held.stopped_at(phase):
            running.process.send_signal(number)
            eventually(lambda: not held.is_tied_to(running.process.pid))
        code, last_line = running.end()
        if number is signal.SIGKILL:
            assert -number == code, last_line
        else:
            assert (4, f"2 not tried; stopped by {number.name}") == (code, last_line)
        eventually(lambda: not held.keepers)
        consumes_as_before(held, began, time.time())

    together(end, all_held, numbers, phases)


def test_an_operator_that_is_killed_when_all_is_held(all_held: list[Holding], begin: Begin) -> None:
    """A hold ends when the operator is killed before the pause is recorded as done."""

    def kill(held: Holding) -> None:
        began, running = time.time(), begin(held)
        suspend(running.process.pid)
        assert held.is_starting, held.evidence  # the operator cannot know that all is held
        eventually(lambda: is_held(held))
        running.kill()
        consumes_as_before(held, began, time.time())

    together(kill, all_held)


def test_a_broker_that_is_lost(all_held: list[Holding], breakable: Any, begin: Begin) -> None:
    """When the broker is back, the pause is done, or nothing of it is left."""
    began = time.time()
    started = []
    with ExitStack() as stopped:
        for held in all_held:
            started.append(begin(held))
            stopped.enter_context(held.stopped_at(is_started))
        # Only now: the session timeout of a member that captures is 10 s.
        for held, phase in zip(all_held, (is_rebalancing, has_joined, is_rebalancing), strict=True):
            stopped.enter_context(held.stopped_at(phase))
        until_begun(all_held)
        breakable.kill()
    breakable.start()
    since = time.time()

    def ends(held: Holding, running: OperatorProcess) -> None:
        code, last_line = running.end()
        assert code in {0, 4}, last_line
        if code == 0:
            held.confirmed = time.time()
            held.live.applications.until_delivered(held.others, since=since)
            assert eventually(lambda: held.places == held.paused)
            assert [] == held.leaked()
            held.resume_in_place()
        consumes_as_before(held, began, since)

    together(ends, all_held, started)
