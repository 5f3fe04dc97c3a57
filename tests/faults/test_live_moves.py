"""A move that is ended while all members of the group wait for it: they go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from applications import eventually
from deliveries.analysis import missing, repeats
from live_groups import LiveGroup
from operators import Holder
from processes import suspend

from toolkit.kafka_io.membership.channel import GroupChannel
from toolkit.kafka_io.membership.classic import DescribeClassic
from toolkit.model import HOLDER_CLIENT_ID, GroupState
from toolkit.planning.changes.move import MoveRequest, plan_move
from toolkit.planning.changes.targets import ShiftBy

KINDS = ("librdkafka-range", "librdkafka-cooperative-sticky")
WAITS_S = 0.5  # between two joins of a capture a group waits for a few milliseconds only
BACK = 5


def moving(one: Holder, folder: Path) -> subprocess.Popen[bytes]:
    """Start a command that moves a partition back, as an operator's shell does."""
    request = MoveRequest(ShiftBy(-BACK), one.live.group, (f"{one.live.topics[0]}:1",))
    facts = one.desk.facts(one.live.group, topics=one.live.topics)
    command = [
        *(str(Path(sys.executable).parent / "offsetbook"), "move", "--cluster"),
        *(one.desk.cluster.bootstrap_servers, "--group", one.live.group, "--shift-by", f"-{BACK}"),
        *("--topic", f"{one.live.topics[0]}:1", "--reason", "a test"),
        *("--approve", plan_move(facts, request).plan.fingerprint),
    ]
    environment = {**os.environ, "OFFSETBOOK_STATE": str(folder)}
    return subprocess.Popen(command, env=environment)


@contextmanager
def stopped_while_all_wait(live: LiveGroup, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Suspend the process when the group waits for its member to assign partitions."""
    with GroupChannel(live.cluster, live.group) as channel:

        def waits() -> bool:
            group = channel.ask(DescribeClassic())
            ours = [one for one in group.members if one.client_id == HOLDER_CLIENT_ID]
            return bool(ours) and group.state == GroupState.COMPLETING_REBALANCE

        while True:
            assert process.poll() is None, "the move has ended"
            if not waits():
                continue
            suspend(process.pid)
            until = time.monotonic() + WAITS_S
            while waits():
                if time.monotonic() > until:
                    yield
                    return
            os.kill(process.pid, signal.SIGCONT)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_move_that_is_ended(
    holder: Callable[[str], Holder], tmp_path: Path, kind: str, number: signal.Signals
) -> None:
    """Nothing is lost, no member of ours is left, and the offset is the old or the new one."""
    one = holder(kind)
    live, (place,) = one.live, one.live.places_of(1)
    eventually(lambda: one.committed(place) > BACK)
    began = time.time()
    process = moving(one, tmp_path / "state")
    with stopped_while_all_wait(live, process):
        process.send_signal(number)
        os.kill(process.pid, signal.SIGCONT)
    process.wait()
    ended = time.time()

    live.applications.until_delivered(live.places, since=ended)
    live.until_at_rest()
    assert [] == [member for member in one.group.members if member.client_id == HOLDER_CLIENT_ID]
    log = live.applications.deliveries()
    assert {} == {p: gone for p in live.places if (gone := missing(log, p))}
    read = [one.offset for one in log if one.place == place and one.at > began]
    assert 1 >= sum(after < before for before, after in pairwise(read))
    others = {*live.places} - {place}
    assert [] == [one for one in repeats(log, start=began) if one.place in others]
