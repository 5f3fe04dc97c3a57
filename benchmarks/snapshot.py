"""
Reading every group of a cluster: offsetbook beside `kafka-consumer-groups`, on one real broker.

Starts its own broker, fills it, and measures in turns, each run in a fresh process:

    tool      kafka-consumer-groups --describe --all-groups
    command   offsetbook lag --by partition --output csv
    snapshot  toolkit.kafka_io.read_snapshot.read_snapshot, as in a notebook that is already running
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import kafka.errors
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.admin import KafkaAdminClient
from kafka.structs import OffsetAndMetadata, TopicPartition
from measuring import (
    groups_parser,
    in_mib,
    in_turns,
    machine,
    markdown,
    median_of,
    own_broker,
    parse_options,
    say,
    spread,
)

from toolkit.sandbox.jars import VERSION, kafka_jars
from toolkit.spark.java import find_java

TOPICS, PARTITIONS, RECORDS = 50, 20, 10
COMMITTED = 4  # of the records in each partition
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
# Prints what one call took, apart from starting Python and importing.
READ_SNAPSHOT = """
import json, sys, time
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, TopicPartition
began, cpu = time.perf_counter(), time.process_time()
snapshot = read_snapshot(Cluster("benchmark", sys.argv[1]))
took = {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
lags = [snapshot.logs[TopicPartition(c.topic, c.partition)].log_end - c.offset
        for c in snapshot.commits]
assert not snapshot.problems
print(json.dumps({**took, "rows": len(lags), "lag": sum(lags)}))
"""


class Run(NamedTuple):
    """What one run took."""

    wall_s: float
    cpu_s: float
    peak_mib: float

    def told(self) -> str:
        return f"{self.wall_s:.2f} s"


class Case(NamedTuple):
    """A command, how the rows and lag that it finds are counted, and whether it tells its times."""

    name: str
    command: Sequence[str]
    count: Callable[[Path], tuple[int, int]] = lambda _: (0, 0)
    times_itself: bool = False


def main() -> None:
    options = _options()
    with filled_broker(options) as (address, fleet, output):
        cases = _cases(address, fleet)
        found = agree(cases, output)
        runs = measure_in_turns(cases, options.rounds, output, warm_up=0)  # `agree` did
    told = f"every way found {found[0]:,} rows and {found[1]:,} records of lag"
    print("\n".join([*surroundings(options, told), "", *table(runs)]))


@contextmanager
def filled_broker(options: argparse.Namespace) -> Iterator[tuple[str, Path, Path]]:
    """Start and fill a broker; yield its address, a fleet file, and where output may go."""
    with own_broker() as (address, folder):
        # Python keeps compiled modules, as it does unless a machine is set up otherwise.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(folder / "pycache")
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        say(f"making {options.groups} groups with {options.commits} commits each")
        fill(address, options.groups, options.commits)
        fleet = folder / "fleet.yaml"
        fleet.write_text(f"clusters:\n  benchmark:\n    bootstrap.servers: {address}\n")
        yield address, fleet, folder / "output"


def fill(address: str, groups: int, commits: int) -> None:
    """Make the topics with records, and groups that have each committed some partitions."""
    topics = [f"topic-{number:02}" for number in range(TOPICS)]
    admin = AdminClient({"bootstrap.servers": address})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in topics]).values():
        made.result()
    producer = Producer({"bootstrap.servers": address})
    places = [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]
    for place in places:
        for record in range(RECORDS):
            producer.produce(place.topic, str(record).encode(), partition=place.partition)
    if producer.flush(60):
        sys.exit("not all records could be written")
    committer = KafkaAdminClient(bootstrap_servers=address)
    try:
        for number in range(groups):
            first = number * commits
            mine = [places[(first + step) % len(places)] for step in range(commits)]
            value = OffsetAndMetadata(COMMITTED, "", -1)
            _commit(committer, f"group-{number:05}", dict.fromkeys(mine, value))
    finally:
        committer.close()


def _commit(
    committer: KafkaAdminClient, group: str, offsets: dict[TopicPartition, OffsetAndMetadata]
) -> None:
    give_up_at = time.monotonic() + 30
    while True:
        try:
            errors = set(committer.alter_group_offsets(group, offsets).values())
        except kafka.errors.CoordinatorNotAvailableError:
            errors = {kafka.errors.CoordinatorNotAvailableError}  # the broker has only just started
        if errors == {kafka.errors.NoError}:
            return
        if time.monotonic() > give_up_at:
            sys.exit(f"{group} could not commit: {errors}")
        time.sleep(0.1)


def agree(cases: Sequence[Case], output: Path) -> tuple[int, int]:
    """Run every case once, unmeasured; return the rows and sum of lag that all of them found."""
    found = {}
    for case in cases:
        run_once(case, output)
        found[case.name] = case.count(output)
    if len(set(found.values())) != 1:
        sys.exit(f"the ways to read do not agree on (rows, sum of lag): {found}")
    return found[cases[0].name]


def measure_in_turns(
    cases: Sequence[Case], rounds: int, output: Path, *, warm_up: int
) -> dict[str, list[Run]]:
    # The tool writes every cell by a call of its own, which takes it up to 10 s more where that
    # goes into a file; so that it is not measured, nobody reads what is written.
    ways = {
        case.name: partial(run_once, case, output if case.times_itself else Path(os.devnull))
        for case in cases
    }
    return in_turns(ways, rounds, Run.told, warm_up=warm_up)


def run_once(case: Case, output: Path) -> Run:
    words = Path(f"{output}.words") if output != Path(os.devnull) else output
    began = time.perf_counter()
    with output.open("wb") as file, words.open("wb") as errors:
        process = subprocess.Popen(case.command, stdout=file, stderr=errors)
        # wait4 tells what this one process used; getrusage would mix all children so far.
        _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        told = words.read_text(encoding="utf-8")
        sys.exit(f"{case.name} ended with status {process.returncode}: {told}")
    cpu_s = usage.ru_utime + usage.ru_stime
    if case.times_itself:
        took = json.loads(output.read_text(encoding="utf-8"))
        wall_s, cpu_s = took["wall_s"], took["cpu_s"]
    return Run(wall_s, cpu_s, in_mib(usage.ru_maxrss))


def tool_command(address: str, *words: str) -> list[str]:
    """Return the command of Kafka's own tool, with the JVM's default settings."""
    # Warnings only, as in the configuration that Kafka ships for its tools.
    logging = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    java = [str(find_java()), logging, "-cp", f"{kafka_jars(VERSION)}/*"]
    return [*java, TOOL, "--bootstrap-server", address, *words]


def _cases(address: str, fleet: Path) -> list[Case]:
    offsetbook = [str(Path(sys.executable).parent / "offsetbook"), "lag", "--fleet", str(fleet)]
    return [
        Case("tool", tool_command(address, "--describe", "--all-groups"), _count_tool),
        Case("command", [*offsetbook, "--by", "partition", "--output", "csv"], _count_csv),
        Case("snapshot", [sys.executable, "-c", READ_SNAPSHOT, address], _count_json, True),
    ]


def _count_tool(output: Path) -> tuple[int, int]:
    lags = [int(cells[5]) for cells in _cells(output) if cells[0].startswith("group-")]
    return len(lags), sum(lags)


def _cells(output: Path) -> Iterator[list[str]]:
    with output.open(encoding="utf-8") as file:
        yield from (cells for line in file if (cells := line.split()))


def _count_csv(output: Path) -> tuple[int, int]:
    with output.open(encoding="utf-8", newline="") as file:
        lags = [int(row["lag"]) for row in csv.DictReader(file)]
    return len(lags), sum(lags)


def _count_json(output: Path) -> tuple[int, int]:
    told = json.loads(output.read_text(encoding="utf-8"))
    return told["rows"], told["lag"]


def table(runs: dict[str, list[Run]]) -> Iterator[str]:
    tool = median(run.wall_s for run in runs["tool"])
    rows = []
    for name, taken in runs.items():
        walls, cpus, peaks = zip(*taken, strict=True)
        ratio = median(walls) / tool
        times = f" ({1 / ratio:.1f} times faster)" if ratio < 1 else ""
        rows.append(
            (name, spread(walls), spread(cpus), spread(peaks, ".0f"), f"{ratio:.3f}{times}")
        )
    return markdown(("", "wall s", "CPU s", "peak RSS MiB", "wall, tool = 1"), rows)


def surroundings(options: argparse.Namespace, found: str) -> Iterator[str]:
    java = subprocess.run(
        [str(find_java()), "-version"], capture_output=True, text=True, check=True
    ).stderr.splitlines()[0]
    yield (
        f"{options.groups} groups with {options.commits} commits each, {TOPICS} topics of "
        f"{PARTITIONS} partitions; {found}. {median_of(f'{options.rounds} runs')}"
    )
    yield ""
    yield (
        f"Apache Kafka {VERSION}, {java}, {machine('kafka-python', 'pandas')} "
        "(broker and reader share the machine)."
    )


def _options() -> argparse.Namespace:
    parser = groups_parser(__doc__)
    return parse_options(parser, groups=10, commits=2, rounds=1)


if __name__ == "__main__":
    main()
