"""The harness itself: a measurement that cannot fail proves nothing."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from consumer_processes import ending
from consumer_processes.analysis import (
    delivered_during,
    first_after,
    last_before,
    longest_silence,
    missing,
    repeats,
    two_at_once,
)
from consumer_processes.log import Delivery, Log, Logs
from consumer_processes.waiting import PATIENCE_S
from live_groups import LiveGroup, together

from toolkit.model import Cluster, TopicPartition

BRIEF_MS = 6000  # the shortest session that a broker accepts
PLACE, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


def read_by(*deliveries: tuple[float, str, int], place: TopicPartition = PLACE) -> list[Delivery]:
    """Return deliveries of one partition: when, to whom, and which offset."""
    return [Delivery(at, consumer, *place, offset) for at, consumer, offset in deliveries]


def test_delivered_during() -> None:
    """Only what was delivered of the named partitions between two instants is found."""
    log = read_by((1, "a", 7), (2, "a", 8), (3, "a", 9))

    assert read_by((2, "a", 8)) == delivered_during(log, {PLACE}, 1, 3)
    assert [] == delivered_during(log, {OTHER}, 1, 3)


def test_repeats() -> None:
    """A record is a repeat when it had been delivered before, whenever and to whomever."""
    log = read_by((1, "a", 7), (2, "a", 8), (3, "b", 7), (4, "b", 9))

    assert read_by((3, "b", 7)) == repeats(log)
    assert read_by((3, "b", 7)) == repeats(log, start=2)
    assert [] == repeats(log, start=3.5)
    assert [] == repeats(log, end=2.5)
    assert [] == repeats([*read_by((1, "a", 7)), *read_by((2, "a", 7), place=OTHER)])


def test_repeats_after_a_move() -> None:
    """What is read again after its offset was moved back is a repeat only from then on."""
    log = read_by((1, "a", 7), (2, "a", 8), (3, "b", 7), (4, "b", 8), (5, "b", 7))

    assert read_by((5, "b", 7)) == repeats(log, moved={PLACE: 2.5})
    assert read_by((3, "b", 7), (4, "b", 8), (5, "b", 7)) == repeats(log, moved={OTHER: 2.5})


def test_missing() -> None:
    """An offset is missing when it lies between those delivered, or those that should have been."""
    log = read_by((1, "a", 7), (2, "a", 10), (3, "a", 8))

    assert [9] == missing(log, PLACE)
    assert [6, 9, 11] == missing(log, PLACE, first=6, last=11)
    assert [] == missing(log, OTHER)
    assert [0, 1] == missing(log, OTHER, first=0, last=1)


def test_two_at_once() -> None:
    """A, B, A within a second are two at once; a partition that changes hands is not."""
    both = read_by((1, "a", 7), (1.2, "b", 7), (1.4, "a", 8))

    assert both[2:] == two_at_once(both)
    assert [] == two_at_once(both[:2])
    assert [] == two_at_once(read_by((1, "a", 7), (1.2, "a", 8)))
    assert [] == two_at_once(both, within_s=0.3)
    assert [] == two_at_once([*both[:2], *read_by((1.4, "a", 8), place=OTHER)])
    assert [] == two_at_once(read_by((1, "a", 7), (1.2, "b", 7), (2.9, "a", 8)))


def test_first_and_last() -> None:
    """The delivery next to an instant is that of the partition, not of any."""
    log = [*read_by((1, "a", 7)), *read_by((2, "a", 3), place=OTHER), *read_by((3, "a", 8))]

    assert log[2] == first_after(log, PLACE, 1)
    assert first_after(log, PLACE, 3) is None
    assert log[0] == last_before(log, PLACE, 2)
    assert last_before(log, OTHER, 1) is None


def test_longest_silence() -> None:
    """The longest silence counts from the beginning and to the end of the time looked at."""
    log = read_by((1, "a", 7), (2, "a", 8), (5, "a", 9))

    assert 3 == longest_silence(log, PLACE, 0, 6)
    assert 4 == longest_silence(log, PLACE, 0, 9)
    assert 1.5 == longest_silence(log, PLACE, 2.5, 4)
    assert 6 == longest_silence(log, OTHER, 0, 6)


def test_a_killed_application_loses_no_line(tmp_path: Path) -> None:
    """What is read back is what was logged, a line as soon as it is complete."""
    with Log(tmp_path / "a.log") as log:
        log.delivered([("orders", 0, 7), ("orders", 0, 8)])
        log.happened("revoked", [("orders", 0)])
    with (tmp_path / "a.log").open("a") as file:
        file.write("17637")
    logs = Logs(tmp_path)

    deliveries, events = logs.read()

    assert [("a", PLACE, 7), ("a", PLACE, 8)] == [
        (d.consumer, d.place, d.offset) for d in deliveries
    ]
    assert [("a", "revoked", PLACE)] == [(e.consumer, e.what, e.place) for e in events]
    with (tmp_path / "a.log").open("a") as file:
        file.write("53000.5 delivered orders 1 3\n")
    (earlier,) = read_by((1763753000.5, "a", 3), place=OTHER)
    assert ([earlier, *deliveries], events) == logs.read() == logs.read()


@pytest.mark.live("consumers run")
def test_every_client(bare_cluster: Cluster, live_group: Callable[..., LiveGroup]) -> None:
    """Members share partitions, take over from one that leaves or is killed, and lose no record."""

    def is_so(kind: str) -> None:
        by_pattern = kind == "aiokafka-sticky"  # other tests hold groups of the others that do so
        shape = {"topics": 2, "partitions": 3, "by_pattern": by_pattern}
        live = live_group(bare_cluster, kind, **shape, session_timeout_ms=BRIEF_MS)
        apps, began = live.applications, time.time()

        apps.until(lambda all_: _readers(one for one in all_ if one.at > began) == {"a", "b"})
        apps.start("c", session_timeout_ms=BRIEF_MS)
        apps.until(lambda all_: "c" in _readers(all_))
        apps.stop("a")
        stopped = time.time()
        # One of the two that stay may have everything until the other one has joined again.
        apps.until(lambda all_: _readers(one for one in all_ if one.at > stopped) == {"b", "c"})
        apps.kill("b")
        apps.until_delivered(live.places)  # when its session is over

        assert ["c"] == apps.running
        apps.until_nothing_is_missing(live.places, first=0)

    together(
        is_so,
        (
            "librdkafka-range",
            "java-cooperative-sticky",
            "kafka-python-sticky",
            "aiokafka-sticky",
        ),
    )


def _readers(deliveries: object) -> set[str]:
    return {one.consumer for one in deliveries}  # type: ignore[attr-defined]


WAITS = """
from consumer_processes.ending import Ending
ending = Ending()
print("waits", flush=True)
while not ending.wait(0):
    pass
"""


def test_a_signal_ends_a_process_at_any_time() -> None:
    """Also one that comes while the process begins or ends a wait."""
    environment = {**os.environ, "PYTHONPATH": str(Path(ending.__file__).parent.parent)}
    for _ in range(10):
        with subprocess.Popen(
            [sys.executable, "-c", WAITS], env=environment, stdout=subprocess.PIPE
        ) as process:
            assert process.stdout
            assert b"waits\n" == process.stdout.readline()
            process.terminate()
            try:
                assert 0 == process.wait(PATIENCE_S)
            finally:
                process.kill()
