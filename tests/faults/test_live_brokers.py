"""Brokers that are lost, and coordinators that move, while partitions are held."""

import time
from typing import Any

import pytest
from applications import eventually
from brokers import UNCLOSED_SOCKETS, TwoBrokers, kill
from coordinators import coordinate_by
from holding import Holding, MakeHolding, until_begun
from live_groups import EACH_PROTOCOL, together
from operators import Operator

from toolkit.model import GroupType

pytestmark = [pytest.mark.faults("the broker of a hold is killed"), UNCLOSED_SOCKETS]


def still_held(all_held: list[Holding], newcomer: str) -> None:
    """Check that the others go on, groups take a newcomer in, and the keepers hold the paused."""
    since = time.time()

    def is_so(held: Holding) -> None:
        apps = held.live.applications
        apps.until_delivered(held.others, since=since)
        apps.start(newcomer)
        if held.group.type is GroupType.CLASSIC:
            apps.until(lambda log: newcomer in {one.consumer for one in log})
        else:  # the broker assigns, and may give it nothing but what is paused
            eventually(lambda: newcomer in {member.client_id for member in held.group.members})
        apps.until_delivered(held.others)
        assert [] == held.leaked()
        assert eventually(lambda: held.places == held.paused)
        assert eventually(lambda: "held" == held.record.words)

    together(is_so, all_held)


def test_a_broker_that_is_killed_and_started_again(
    operator: Operator, breakable: Any, new_holding: MakeHolding
) -> None:
    """A hold lasts while the only broker is killed and started again on its data, early or late."""
    all_held = [new_holding(operator.cluster, kind) for kind in EACH_PROTOCOL]
    together(Holding.pause, all_held)

    until_begun(all_held)
    breakable.kill()
    breakable.start()
    still_held(all_held, "c")

    until_begun(all_held)
    breakable.kill()
    for held in all_held:  # a keeper says so when it has tried for 30 s
        eventually(lambda held=held: "as far as known" in held.record.words)
    breakable.start()
    still_held(all_held, "d")

    together(Holding.resume_in_place, all_held)


def test_coordinators_that_move(two_brokers: TwoBrokers, new_holding: MakeHolding) -> None:
    """A hold follows its group to another broker, also when the one before is killed."""
    cluster, second = two_brokers
    all_held = [new_holding(cluster, kind) for kind in EACH_PROTOCOL]
    coordinate_by(cluster, (1,))
    together(Holding.pause, all_held)

    until_begun(all_held)
    coordinate_by(cluster, (2,))
    still_held(all_held, "c")
    coordinate_by(cluster, (2, 1))
    until_begun(all_held)
    kill(second)
    still_held(all_held, "d")

    together(Holding.resume_in_place, all_held)
