"""
How pauses and moves grow with a group: time, requests and connections, for more and more members.

One real broker, and groups of librdkafka consumers, many in a process, on topics whose every
partition gets a record a second. Of each group one partition is paused and resumed, then as many as
`--many`, and in the end all partitions are moved back by five records. Requests and connections are
what the broker counted at the listener that only offsetbook uses. Every consumer logs what it is
delivered, and the logs are checked. The consumers start at different times, so that their
heartbeats do not come together.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from broker_metrics import DEFAULTS, MeasuredBroker, measured_broker
from live_operator import Operator
from measuring import machine, markdown, new_parser, parse_options, say

from toolkit.model import Cluster
from toolkit.sandbox.jars import VERSION

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "tests" / "fixtures"
sys.path.insert(0, str(FIXTURES))  # the applications that the tests start

from consumer_processes.analysis import (  # noqa: E402 - see above
    delivered_during,
    longest_silence,
    missing,
    repeats,
)
from consumer_processes.consume import Job, librdkafka  # noqa: E402
from consumer_processes.kinds import KINDS  # noqa: E402
from consumer_processes.live_applications import Traffic  # noqa: E402
from consumer_processes.log import Delivery, Log, Logs  # noqa: E402
from consumer_processes.waiting import Delivered  # noqa: E402
from live_groups import LiveGroup, create_topics  # noqa: E402

SIZES = ("3x60x5", "10x60x5", "30x60x5", "50x400x1", "200x400x1")
CROWD = 25  # consumers in a process
START_WITHIN_S = 10.0
BACK = 5  # records
SILENT_S = 3.0  # each partition gets a record a second, and consumers ask once a second
LOOK_FOR_S = 10.0  # two heartbeat intervals: whether the others are silent, after a pause


class Size(NamedTuple):
    """How large a group is."""

    members: int
    partitions: int  # of each topic
    topics: int

    @classmethod
    def parse(cls, words: str) -> Size:
        """Parse MEMBERSxPARTITIONSxTOPICS."""
        return cls(*map(int, words.split("x")))


class Step(NamedTuple):
    """What one pause, resume or move took."""

    seconds: float
    requests: int
    connections: int


class Row(NamedTuple):
    """What was measured of one group."""

    kind: str
    size: Size
    steps: dict[str, Step]
    silences: dict[str, list[float]]  # of each other partition at a pause, in seconds
    paused_delivered: int
    repeated: int
    lost: int


class Crowds(Delivered):
    """The consumers of one group, many in each process."""

    def __init__(self, address: str, group: str, topics: Sequence[str], log: Path) -> None:
        """Act in a group; each consumer logs to a file of its own."""
        log.mkdir()
        self.address, self.group, self.topics, self.log = address, group, [*topics], log
        self.kind = KINDS[group]
        self._logs = Logs(log)
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, members: int) -> None:
        jobs = [asdict(self._job(f"c{number:03d}")) for number in range(members)]
        environment = {**os.environ, "PYTHONPATH": f"{FIXTURES}:{ROOT}"}
        for first in range(0, members, CROWD):
            words = json.dumps(jobs[first : first + CROWD])
            command = [sys.executable, __file__, "--crowd", words]
            self._processes.append(subprocess.Popen(command, env=environment))

    def _job(self, name: str) -> Job:
        log = str(self.log / f"{name}.log")
        kind, topics = self.kind, self.topics
        settings = {"fetch.wait.max.ms": 1000}  # so many consumers ask often enough
        return Job(
            kind.client, kind.assignor, self.address, self.group, name, topics, log, settings
        )

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def deliveries(self) -> list[Delivery]:
        return self._logs.read()[0]

    def words(self) -> str:
        return f"{sum(one.poll() is None for one in self._processes)} processes run"


def main() -> None:
    options = _options()
    if options.crowd:
        _consume(options.crowd)
        return
    rows = []
    for kind in options.kinds:
        for words in options.sizes:
            rows.append(_measure(kind, Size.parse(words), options.many))
            say(f"{rows[-1]}")
    print("\n".join([_surroundings(), "", *_table(rows)]))


def _consume(words: str) -> None:
    def consume(job: Job) -> None:
        time.sleep(random.uniform(0, START_WITHIN_S))  # noqa: S311 - no secret
        with Log(Path(job.log)) as log:
            librdkafka(job, log, threading.Event())

    for job in json.loads(words):
        threading.Thread(target=consume, args=[Job(**job)]).start()


def _measure(kind: str, size: Size, many: int) -> Row:
    say(f"{kind}: {size}")
    with tempfile.TemporaryDirectory(prefix="offsetbook-benchmark-") as name, ExitStack() as ending:
        folder = Path(name)
        os.environ["OFFSETBOOK_STATE"] = str(folder / "state")
        measured = ending.enter_context(measured_broker(folder / "benchmark", DEFAULTS))
        live = ending.enter_context(_live(measured.address, kind, size, folder / "logs"))
        address = measured.measured_address
        operator = Operator(address, live.group, *live.topics)
        steps: dict[str, Step] = {}
        silences: dict[str, list[float]] = {}
        paused_delivered = 0
        began = time.time()
        for count in dict.fromkeys((1, min(many, len(live.places) // 2))):
            some = live.places[:count]
            others = {*live.places}.difference(some)
            called_at = time.time()
            steps[f"pause {count}"] = _step(measured, lambda some=some: operator.pause(some))
            paused_at = time.time()
            live.applications.until_delivered(others, since=paused_at + LOOK_FOR_S)
            log = [one for one in live.applications.deliveries() if one.at > called_at]
            silences[f"pause {count}"] = [
                longest_silence(log, place, called_at, paused_at + LOOK_FOR_S) for place in others
            ]
            resumed_at = time.time()
            steps[f"resume {count}"] = _step(measured, lambda some=some: operator.resume(some))
            live.applications.until_delivered(live.places, since=resumed_at)
            log = live.applications.deliveries()
            paused_delivered += len(delivered_during(log, some, paused_at, resumed_at))
        moved_at = time.time()
        live.until_at_rest()
        steps["move all"] = _step(measured, lambda: operator.move(live.places, -BACK))
        live.applications.until_delivered(live.places)
        log = live.applications.deliveries()
        repeated = len(repeats(log, start=began, end=moved_at))
        lost = sum(len(missing(log, place)) for place in live.places)
        return Row(kind, size, steps, silences, paused_delivered, repeated, lost)


def _step(measured: MeasuredBroker, do: Callable[[], object]) -> Step:
    before, began = measured.read(), time.monotonic()
    do()
    seconds = time.monotonic() - began
    traffic = measured.read().since(before).traffic[MeasuredBroker.measured]
    return Step(seconds, traffic.requests, traffic.connections)


@contextmanager
def _live(address: str, kind: str, size: Size, log: Path) -> Iterator[LiveGroup]:
    """Start a group and its traffic; the group has the name of its kind."""
    topics = [f"topic-{number}" for number in range(size.topics)]
    shape = dict.fromkeys(topics, size.partitions)
    create_topics(address, shape)
    crowds = Crowds(address, kind, topics, log)
    with Traffic(address, shape, per_second=1):
        crowds.start(size.members)
        live = LiveGroup(Cluster("live", address), kind, tuple(topics), size.partitions, crowds)
        try:
            crowds.until(lambda log: len({one.consumer for one in log}) == size.members)
            live.until_at_rest()
            live.until_all_is_committed()
            yield live
        finally:
            crowds.end()


def _surroundings() -> str:
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, Apache Kafka {VERSION}, {machine('confluent-kafka')}: "
        "broker and consumers share the machine. A cell has seconds, "
        "requests, connections; of a pause also how many of the other partitions were silent for "
        f"more than {SILENT_S:g} s, and the longest silence."
    )


def _table(rows: Sequence[Row]) -> Iterator[str]:
    names = list(dict.fromkeys(name for row in rows for name in row.steps))
    told = ("paused records delivered", "repeats", "never delivered")
    lines = []
    for row in rows:
        members, partitions, topics = row.size
        group = f"{row.kind}, {members} members, {topics} × {partitions} partitions"
        cells = [
            _cell(row.steps[name], row.silences.get(name)) if name in row.steps else ""
            for name in names
        ]
        counts = (f"{row.paused_delivered:,}", f"{row.repeated:,}", f"{row.lost:,}")
        lines.append((group, *cells, *counts))
    return markdown(("group", *names, *told), lines)


def _cell(step: Step, silences: Sequence[float] | None) -> str:
    text = f"{step.seconds:.1f} s, {step.requests:,}, {step.connections}"
    if silences:
        silent = sum(one > SILENT_S for one in silences)
        text += f"; {silent} of {len(silences)}, {max(silences):.1f} s"
    return text


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    kinds = [name for name in KINDS if name.startswith("librdkafka")]
    parser.add_argument("kinds", nargs="*", default=kinds, metavar="KIND")
    parser.add_argument("--sizes", nargs="+", default=SIZES, metavar="MEMBERSxPARTITIONSxTOPICS")
    parser.add_argument("--many", type=int, default=100, help="partitions in the second pause")
    parser.add_argument("--crowd", help=argparse.SUPPRESS)  # the consumers of one process
    return parse_options(parser, sizes=("3x6x2",), many=4, kinds=["librdkafka-range"])


if __name__ == "__main__":
    main()
