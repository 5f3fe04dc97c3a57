"""Brokers that are lost, and coordinators that move, while partitions are held."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from applications import eventually
from coordinators import ThreeBrokers
from desks import Desk
from holding import Holding

from toolkit.model import GroupType

# Of sockets that could not connect: see `_left_over`.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

KINDS = ("librdkafka-range", "librdkafka-cooperative-sticky", "librdkafka-consumer")


def still_held(held: Holding, since: float, newcomer: str) -> None:
    """Check that the others go on, the group takes a newcomer in, and the paused stay paused."""
    apps = held.live.applications
    apps.until_delivered(held.others, since=since)
    apps.start(newcomer)
    if held.group().type is GroupType.CLASSIC:
        apps.until(lambda log: newcomer in {one.consumer for one in log})
    else:  # the broker assigns, and may give it nothing but what is paused
        eventually(lambda: newcomer in {member.client_id for member in held.group().members})
    apps.until_delivered(held.others)
    assert [] == held.leaked()
    assert eventually(lambda: held.places == held.held())


@pytest.mark.parametrize("is_long", [False, True])
def test_a_broker_that_is_killed_and_started_again(
    desk: Desk, breakable: Any, holdings: Callable[..., Holding], *, is_long: bool
) -> None:
    """A hold lasts while the only broker is killed and started again on its data."""
    all_held = [holdings(desk, kind) for kind in KINDS]
    for held in all_held:
        held.pause()

    breakable.kill()
    for held in all_held if is_long else []:
        eventually(lambda held=held: "as far as is known" in held.record.words)
    breakable.start()

    for held in all_held:
        still_held(held, time.time(), "c")
        assert eventually(lambda held=held: "held" == held.record.words)
        held.resume()


@pytest.mark.parametrize("kind", KINDS)
def test_coordinators_that_move(
    kind: str, three_brokers: ThreeBrokers, holdings: Callable[..., Holding], tmp_path: Path
) -> None:
    """A hold follows its group to another broker, also when the one before is killed."""
    held = holdings(Desk(three_brokers.cluster, tmp_path / "state"), kind)
    three_brokers.coordinate_by(1)
    held.pause()

    three_brokers.coordinate_by(2)
    still_held(held, time.time(), "c")
    three_brokers.coordinate_by(2, 3)
    three_brokers.kill(2)
    still_held(held, time.time(), "d")

    held.resume()
