"""A capture that is cut off at any moment: the group ends up consuming as before."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from applications import eventually
from deliveries.analysis import missing
from desks import Desk
from holding import Holding

from toolkit.model import GroupState
from toolkit.storage.hold_files import read_hold

# Of sockets that could not connect: see `_left_over`.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

KINDS = ("librdkafka-range", "librdkafka-cooperative-sticky", "librdkafka-consumer")


def is_started(held: Holding) -> bool:
    """Whether the process that is to hold has begun."""
    record = read_hold(held.path)
    return record is not None and record.pid > 0


def has_joined(held: Holding) -> bool:
    """Whether a member of ours is in the group."""
    return any(member.is_holder for member in held.group().members)


def is_rebalancing(held: Holding) -> bool:
    """Whether the group is busy with it."""
    return held.group().state is not GroupState.STABLE


def is_held(held: Holding) -> bool:
    """Whether all is held, and nobody was told yet."""
    record = read_hold(held.path)
    return record is not None and bool(record.held)


PHASES = (is_started, has_joined, is_rebalancing)


def until(phase: Callable[[Holding], bool], held: Holding, operator: Any) -> None:
    """Wait for a phase; where it does not come, or the operator is done before it, say why."""

    def is_so() -> bool:
        ended, said = operator.process.poll(), operator.lines  # before we look
        is_there = phase(held)
        assert is_there or (ended is None and not said), f"the operator is done ({ended}): {said}"
        return is_there

    try:
        eventually(is_so)
    except AssertionError as exc:
        pytest.fail(f"not {phase.__name__}: {exc}\n{held.told}")


def consumes_as_before(held: Holding, since: float) -> None:
    """Check that nothing of ours is left, all is read, a newcomer is let in, no record is lost."""
    apps = held.live.applications
    eventually(lambda: not has_joined(held))
    apps.until_delivered(held.live.places, since=since)
    apps.start("c")
    apps.until(lambda log: "c" in {one.consumer for one in log})
    apps.until_delivered(held.live.places)
    held.when_stable()
    log = apps.deliveries()
    assert {p: [] for p in held.live.places} == {p: missing(log, p) for p in held.live.places}


@pytest.mark.parametrize("phase", PHASES)
def test_a_keeper_that_is_killed(
    phase: Callable[[Holding], bool],
    desk: Desk,
    holdings: Callable[..., Holding],
    operators: Callable[..., Any],
) -> None:
    """Members of ours that nobody keeps any more are forgotten, and the operator is told why."""
    all_held = [holdings(desk, kind) for kind in KINDS]
    started = []
    for held in all_held:
        started.append(operators(held.desk, held.plan()))
        until(phase, held, started[-1])
        held.kill_keeper()

    for held, operator in zip(all_held, started, strict=True):
        consumes_as_before(held, time.time())
        code, words = operator.end()
        assert code == 4, words


@pytest.mark.parametrize(
    ("phase", "number"),
    [
        *((phase, signal.SIGKILL) for phase in (*PHASES, is_held)),
        (has_joined, signal.SIGINT),
        (is_rebalancing, signal.SIGTERM),
    ],
)
def test_an_operator_who_is_ended(
    phase: Callable[[Holding], bool],
    number: signal.Signals,
    desk: Desk,
    holdings: Callable[..., Holding],
    operators: Callable[..., Any],
) -> None:
    """Until a pause is recorded as done, the end of whoever asked for it is its end."""
    all_held = [holdings(desk, kind) for kind in KINDS]
    started = []
    for held in all_held:
        started.append(operators(held.desk, held.plan()))
        until(phase, held, started[-1])
        started[-1].signal(number)

    for held, operator in zip(all_held, started, strict=True):
        code, words = operator.end()
        if code == 0:  # all was held when the signal came, and that is recorded
            held.confirmed = time.time()
            held.resume()
        assert code in {0, 4, -signal.SIGKILL}, words
        consumes_as_before(held, time.time())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("phase", [has_joined, is_rebalancing])
def test_a_broker_that_is_lost(  # noqa: PLR0913, PLR0917  # fixtures, and what is varied
    kind: str,
    phase: Callable[[Holding], bool],
    desk: Desk,
    breakable: Any,
    holdings: Callable[..., Holding],
    operators: Callable[..., Any],
) -> None:
    """When the broker is back, the pause is done, or nothing of it is left."""
    held = holdings(desk, kind)
    operator = operators(held.desk, held.plan())
    until(phase, held, operator)

    breakable.kill()
    breakable.start()
    since = time.time()
    code, words = operator.end()

    held.confirmed = time.time()
    if code == 0:
        held.live.applications.until_delivered(held.others, since=since)
        assert held.places == held.held()
        assert [] == held.leaked()
        held.resume()
    assert code in {0, 4}, words
    consumes_as_before(held, since)
