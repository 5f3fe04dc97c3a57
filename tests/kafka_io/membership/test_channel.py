"""Over which connections a channel asks a group's coordinator, on a real broker."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from applications import eventually

from toolkit.errors import Interrupted
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.membership import channel
from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import DescribeClassic, Join, Leave, Sync
from toolkit.kafka_io.membership.protocol_bytes import protocol_named
from toolkit.model import Cluster

RANGE = protocol_named("range")


class Counted(Connection):
    """A connection that is counted."""

    opened = 0

    def __init__(self, *about: Any, **more: Any) -> None:
        """Connect as any other."""
        super().__init__(*about, **more)
        Counted.opened += 1


def join(member_id: str) -> Join:
    return Join(member_id, ((RANGE.name, RANGE.subscription(())),), 30_000, 60_000)


@pytest.fixture
def asking(
    bare_cluster: Cluster, unique_name: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[GroupChannel, str, str]]:
    """Return a channel, the member of its group, and an id that keeps a rebalance from ending."""
    monkeypatch.setattr(channel, "Connection", Counted)
    monkeypatch.setattr(Counted, "opened", 0)
    with GroupChannel(bare_cluster, unique_name("waiting")) as asking:
        member = asking.ask(join("")).member_id
        led = asking.ask(join(member))
        asking.ask(Sync(member, led.generation, RANGE.name, {}))
        yield asking, member, asking.ask(join("")).member_id


def until_it_waits(asking: GroupChannel) -> None:
    eventually(lambda: asking.ask(DescribeClassic()).state == "PreparingRebalance")


@contextmanager
def interrupted(asking: GroupChannel) -> Iterator[None]:
    """Check that waiting ends with Ctrl-C."""

    def check() -> None:
        raise Interrupted("enough")

    before, asking.check = asking.check, check
    with pytest.raises(Interrupted):
        yield
    asking.check = before


def test_a_join_that_waits_needs_one_more_connection(
    asking: tuple[GroupChannel, str, str],
) -> None:
    """Only what was sent behind it waits with it; later both connections are used again."""
    ours, member, blocker = asking
    assert 1 == Counted.opened

    joining = ours.send_ahead(join(member))
    leaving = ours.send_ahead(Leave((member,)), after=joining)
    until_it_waits(ours)
    assert not ours.is_answered(joining)
    assert not ours.is_answered(leaving)
    ours.ask(Leave((blocker,)))

    assert (0, member) == (ours.wait_for(joining).error, ours.wait_for(joining).leader)
    assert 0 == ours.wait_for(leaving).error_of(member)
    again = [ours.send_ahead(join("")) for _ in range(2)]
    ours.ask(Leave(tuple(ours.wait_for(one).member_id for one in again)))
    assert 2 == Counted.opened


def test_a_join_that_was_interrupted_blocks_nothing(
    asking: tuple[GroupChannel, str, str], bare_cluster: Cluster
) -> None:
    """Members leave over another connection; the coordinator answers the join then."""
    ours, member, blocker = asking
    began = time.monotonic()
    with interrupted(ours):
        ours.ask(join(member))
    until_it_waits(ours)

    assert not any(ours.ask(Leave((member, blocker))).members.values())
    assert () == ours.ask(DescribeClassic()).members
    assert 2 == Counted.opened
    assert time.monotonic() - began < bare_cluster.timeout_s


def test_connections_are_opened_before_they_are_needed(
    asking: tuple[GroupChannel, str, str],
) -> None:
    """None is opened while members wait, and none for which there is one."""
    ours, member, blocker = asking
    ours.connect(2)
    ours.connect(1)
    assert 2 == Counted.opened

    joining = ours.send_ahead(join(member))
    until_it_waits(ours)
    assert 2 == Counted.opened
    ours.connect(2)
    assert 3 == Counted.opened

    ours.ask(Leave((blocker,)))
    assert 0 == ours.wait_for(joining).error
    ours.ask(Leave((member,)))
