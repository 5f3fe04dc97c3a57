"""
What is left after long work: memory, files, threads, processes and connections, on a real broker.

    cycles   look, plan a reset, apply it, undo it, again and again, in one process
    hold     two partitions of live groups paused for an hour, while consumers join, leave and are
             killed every few seconds; measured are the keeper and its standby

Each figure is compared with what it was after a tenth of the time, when everything has been used
once. Memory that grows by more than 5 % and anything else that grows at all is an error, and so is
a paused record that is delivered, or one that is lost.
"""

import argparse
import ctypes
import gc
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from measuring import markdown, new_parser, own_broker, parse_options, say

from toolkit.journeys.change.planned_change import PlannedChange
from toolkit.model import Cluster, TopicPartition
from toolkit.planning.changes.targets import ToOffset
from toolkit.session import Session

sys.path.append(str(Path(__file__).parent.parent / "tests" / "fixtures"))

from applications import Applications
from holding import Holding, keepers_of
from live_groups import COMMITS_SOON, LiveGroup, start_live_group
from operators import Operator

KINDS = ("librdkafka-range", "librdkafka-consumer")
GROUPS, PARTITIONS, RECORDS = 5, 20, 10
MOST_GROWTH = 0.05
AFTER = 0.1  # of the time
JOINS_EVERY_S = (2, 8)
MOST_CONSUMERS = 5
RATE = 5
MIB = 2**20


@dataclass
class Usage:
    """What processes have used, sample by sample."""

    name: str
    memory: list[float] = field(default_factory=list)  # MiB
    files: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    connections: list[int] = field(default_factory=list)
    children: list[int] = field(default_factory=list)

    def sample(self, processes: Sequence[psutil.Process]) -> None:
        """Note what processes use now; one that has just ended is left out."""
        with suppress(psutil.NoSuchProcess):
            found = [
                (
                    one.memory_info().rss / MIB,
                    one.num_fds(),
                    one.num_threads(),
                    len(one.net_connections()),
                    len(one.children(recursive=True)),
                )
                for one in processes
            ]
            columns = (self.memory, self.files, self.threads, self.connections, self.children)
            for column, values in zip(columns, zip(*found, strict=True), strict=True):
                column.append(sum(values))

    def row(self) -> list[str]:
        """Return its line of the table: each figure early, and at the end."""
        cells = [f"{early:.0f} → {late:.0f}" for early, late in map(_ends, self._columns())]
        return [self.name, *cells, f"{self.growth:+.1%}"]

    @property
    def growth(self) -> float:
        early, late = _ends(self.memory)
        return late / early - 1

    @property
    def troubles(self) -> list[str]:
        names = ("open files", "threads", "connections", "child processes")
        found = [
            f"{self.name}: {name} grew from {early:g} to {late:g}"
            for name, (early, late) in zip(names, map(_ends, self._columns()[1:]), strict=True)
            if late > early
        ]
        if self.growth > MOST_GROWTH:
            found.append(f"{self.name}: memory grew by {self.growth:.1%}")
        return found

    def _columns(self) -> list[Sequence[float]]:
        return [self.memory, self.files, self.threads, self.connections, self.children]


def _ends(column: Sequence[float]) -> tuple[float, float]:
    """Return the medians of what was seen after a tenth of the time, and in the last tenth."""
    some = max(1, len(column) // 10)
    return statistics.median(column[some : 2 * some] or column), statistics.median(column[-some:])


def main() -> None:
    options = _options()
    troubles: list[str] = []
    with own_broker() as (address, folder), ExitStack() as ending:
        cluster = Cluster("endurance", address)
        usages, told = [], []
        if options.cycles:
            usage, words = cycles(cluster, folder, options.cycles, ending)
            usages.append(usage)
            told.append(words)
        if options.hold:
            found, words, wrong = hold(cluster, folder, options.hold, ending)
            usages += found
            told.append(words)
            troubles += wrong
    heading = ("what", "memory, MiB", "open files", "threads", "connections", "children", "memory")
    print("\n".join(markdown(heading, [usage.row() for usage in usages])))
    print("\n" + "\n".join(f"- {words}" for words in told))
    troubles += [trouble for usage in usages for trouble in usage.troubles]
    if troubles:
        sys.exit("\n".join(troubles))


def cycles(cluster: Cluster, folder: Path, count: int, ending: ExitStack) -> tuple[Usage, str]:
    """Look, plan, apply and undo, so often; return what this process used, and how long it took."""
    apps = Applications(cluster, lambda stem: stem, ending)
    topic = apps.create_topic("orders", partitions=PARTITIONS, records=RECORDS)
    groups = [f"group-{number}" for number in range(GROUPS)]
    for group in groups:
        apps.commit(group, {TopicPartition(topic, number): 7 for number in range(PARTITIONS)})
    session = Session(cluster, folder / "cycles")
    usage, took = Usage(f"{count:,} cycles of look, reset and undo"), []
    me = psutil.Process()
    for number in range(count):
        began = time.perf_counter()
        if len(session.lag().partitions) < GROUPS * PARTITIONS:
            sys.exit("committed offsets are missing")
        run = _apply(session.reset(groups, to=ToOffset(number % 7)))
        _apply(session.undo(run))
        took.append(time.perf_counter() - began)
        if number % 10 == 0:
            _give_back_memory()
            usage.sample([me])
            say(f"cycle {number}: {took[-1]:.2f} s, {usage.memory[-1]:.0f} MiB")
    some = max(1, count // 10)
    early, late = statistics.median(took[:some]), statistics.median(took[-some:])
    return usage, f"a cycle took {early:.2f} s in the first tenth and {late:.2f} s in the last"


def _give_back_memory() -> None:
    """Leave what is in use: Python and the C library keep freed memory for a while."""
    gc.collect()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):  # glibc
        trim(0)


def _apply(change: PlannedChange) -> str:
    # What was committed a moment ago is of this benchmark, and of no client.
    approval = {"approve": change.fingerprint, "overrides": ["keeps-committing"]}
    done = change.decide(dry_run=False, reason="endurance", **approval).apply()
    if not done.is_done:
        sys.exit(f"{change.plan.intent}: {done!r}")
    return done.run_id


def hold(
    cluster: Cluster, folder: Path, hold_s: float, ending: ExitStack
) -> tuple[list[Usage], str, list[str]]:
    """Pause groups for so long while consumers come and go; return usage, words and troubles."""
    chance = random.Random(1)  # noqa: S311 - nothing secret
    usages, all_held = [], []
    for kind in KINDS:
        wanted = {"per_second": RATE, **COMMITS_SOON}
        live = start_live_group(cluster, kind, f"live-{kind}", folder / kind, ending, **wanted)
        held = Holding(Operator(cluster, folder / f"state-{kind}"), live)
        held.pause()
        all_held.append(held)
        usages.append(Usage(f"keeper and standby of {kind}, {hold_s / 60:g} min"))
    began, changes, sampled = time.time(), 0, 0.0
    while time.time() < began + hold_s:
        time.sleep(chance.uniform(*JOINS_EVERY_S))
        for held in all_held:
            _one_comes_or_goes(held.live, chance, changes)
            changes += 1
        if time.time() > sampled + 10:
            sampled = time.time()
            for held, usage in zip(all_held, usages, strict=True):
                usage.sample(keepers_of(held.path))
            say(f"{sampled - began:.0f} s: {', '.join(f'{u.memory[-1]:.0f} MiB' for u in usages)}")
    wrong, delivered = [], 0
    for held, kind in zip(all_held, KINDS, strict=True):
        wrong += [f"{kind}: delivered while paused: {one}" for one in held.leaked()]
        held.resume_in_place()
        held.live.applications.until_delivered(held.live.places, since=time.time())
        try:
            held.live.applications.until_nothing_is_missing(held.live.places)
        except AssertionError as exc:
            wrong += [f"{kind}: {note}" for note in exc.__notes__]
        delivered += len(held.live.applications.deliveries())
    words = f"{changes:,} consumers joined, left or were killed; {delivered:,} records delivered"
    return usages, words, wrong


def _one_comes_or_goes(live: LiveGroup, chance: random.Random, number: int) -> None:
    """Have a consumer join, or one that is not the last leave or be killed."""
    applications = live.applications
    running = sorted(applications.running)
    if len(running) < 2 or (len(running) < MOST_CONSUMERS and chance.random() < 0.5):
        applications.start(f"c{number}", **COMMITS_SOON)
    else:
        act: Callable[[str], None] = chance.choice([applications.stop, applications.kill])
        act(chance.choice(running))


@contextmanager
def _own_state() -> Iterator[None]:
    """Leave nothing with the user."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        yield


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--cycles", type=int, default=1000, help="0: none")
    parser.add_argument("--hold", type=float, default=3600, help="seconds; 0: none")
    return parse_options(parser, cycles=20, hold=60)


if __name__ == "__main__":
    with _own_state():
        main()
