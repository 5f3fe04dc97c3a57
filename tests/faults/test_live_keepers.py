"""What becomes of a hold when the process behind it is gone, with every delivered record logged."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from applications import eventually
from deliveries.analysis import first_after, longest_silence, missing
from desks import Desk
from holding import Holding

# Of sockets that could not connect: see `_left_over`.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

KINDS = ("librdkafka-range", "librdkafka-cooperative-sticky", "librdkafka-consumer")
ROOM_S = 5.0
NOTICED_S = 1.0  # a delivery is noticed by the application, and logged, a little later


def test_nobody_takes_over(desk: Desk, holdings: Callable[..., Holding]) -> None:
    """
    Partitions of a keeper that was killed are read again when its session is over.

    Each from its committed offset, not before the session is over nor long after; nothing else is
    disturbed, and no record is lost.
    """
    held = [holdings(desk, kind) for kind in KINDS]
    for one in held:
        one.pause()
    lasts = [one.record.note.survives_s or 0 for one in held]
    committed = [one.committed() for one in held]

    killed = [one.kill_keeper() for one in held]
    for one, at in zip(held, killed, strict=True):
        one.until_read_again(at)

    for one, at, session_s, offsets in zip(held, killed, lasts, committed, strict=True):
        log = one.live.applications.deliveries()
        again = [first_after(log, place, at) for place in one.places]
        times = [first.at - at for first in again if first]
        assert [] == one.leaked(until=min(first.at for first in again if first))
        assert max(times) < session_s + ROOM_S + NOTICED_S, one.live.applications.kind.name
        assert offsets == one.first_offsets(at)
        assert frozenset() == one.held()
        assert {p: [] for p in one.live.places} == {p: missing(log, p) for p in one.live.places}


def test_another_takes_over(desk: Desk, holdings: Callable[..., Holding]) -> None:
    """A second keeper goes on where a killed one ended, and nothing is delivered in between."""
    held = [holdings(desk, kind) for kind in KINDS]
    for one in held:
        one.pause()
        one.start_standby()
    before = [one.record.pid for one in held]

    killed = [one.kill_keeper() for one in held]
    for one, first in zip(held, before, strict=True):
        eventually(lambda one=one, first=first: one.record.pid not in {0, first})
    outlived = max(killed) + max(one.record.note.survives_s or 0 for one in held) + ROOM_S
    eventually(lambda: time.time() > outlived)  # it would have ended, had nobody taken over

    for one, at in zip(held, killed, strict=True):
        assert [] == one.leaked()
        assert one.places == one.held()
        log = one.live.applications.deliveries()
        rest_s = max(longest_silence(log, place, at, time.time()) for place in one.others)
        assert rest_s < ROOM_S  # the others have not stopped
        one.resume()


def test_a_keeper_that_is_told_to_end(desk: Desk, holdings: Callable[..., Holding]) -> None:
    """Nobody takes over from a keeper that has resumed what it held."""
    held = holdings(desk, "librdkafka-consumer")
    held.pause()
    held.start_standby()

    held.resume()
    eventually(lambda: not held.held())

    log = held.live.applications.deliveries()
    held.live.applications.until_delivered(held.live.places)
    assert [] == [p for p in held.live.places if missing(log, p)]
    assert "ended" == str(held.record.status)
