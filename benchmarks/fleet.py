"""
The whole fleet job on real brokers: seconds and memory against records and clusters.

    fleet.py                 8 M records, 4 clusters: first run, warm runs, runs with a history
    fleet.py --beside-tool   1.7 M records of 5,000 groups with 20 commits, beside Kafka's own tool

Starts its own brokers and fills their offsets topics with what coordinators would have written;
then runs the job several times in one Spark session, in a process of its own. Memory is what that
process and all its children hold together (PSS), the JVM and the Python workers among them.
"""

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from measuring import machine, markdown, median_of, new_parser, parse_options, say, spread
from process_use import Watch
from reading import OFFSETS_TOPIC, commit_value, make_offsets_topic, plain, produce
from snapshot import tool_command

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.leaders import describe_topics
from toolkit.kafka_io.offsets_topic.partitions import partition_of
from toolkit.model import Cluster
from toolkit.sandbox.broker import start_broker
from toolkit.sandbox.jars import VERSION
from toolkit.spark.fleet_lag import FleetLag, fleet_lag
from toolkit.spark.fleet_options import FleetOptions
from toolkit.spark.spark_session import start_session

TOPICS, PARTITIONS, RECORDS = 40, 25, 400
OFFSETS_PARTITIONS = 10
BETWEEN_COMMITS_S = 30


class Shape(NamedTuple):
    """What is in the fleet, all clusters together; a group commits so many partitions."""

    clusters: int
    records: int
    groups: int
    commits: int

    def __str__(self) -> str:
        commits = self.groups * self.commits
        return (
            f"{self.records:,} records, {self.clusters} clusters, {self.groups:,} groups, "
            f"{commits:,} commits"
        )


ALSO_RUN = (("--beside-tool",),)
WHOLE, SMALL = Shape(4, 8_000_000, 20_000, 25), Shape(2, 20_000, 40, 25)
BESIDE_TOOL = Shape(1, 1_700_000, 5_000, 20)


class Turn(NamedTuple):
    """One run of the job: seconds; CPU seconds and MiB of all processes."""

    wall_s: float
    cpu_s: float
    peak_mib: float
    rows: int


def main() -> None:
    options = _options()
    if options.job:
        _run_job(options.job.split(","), options.rounds, options.history)
    elif options.beside_tool:
        print("\n".join(_beside_tool(options.rounds)))
    else:
        found = measure(options.shape, options.rounds, history=True)
        print("\n".join(_whole(options.shape, found.turns, found.again)))


class Measured(NamedTuple):
    """Turns of the job, of the job with a history and nothing new, and of Kafka's own tool."""

    turns: list[Turn]
    again: list[Turn]
    tool: list[Turn]


def measure(shape: Shape, rounds: int, *, history: bool = False, tool: bool = False) -> Measured:
    """Fill brokers, and return the turns of the job, and where wanted the others."""
    with ExitStack() as ending:
        folder = ending.enter_context(tempfile.TemporaryDirectory(prefix="offsetbook-benchmark-"))
        addresses = []
        say(f"filling: {shape}")
        for number in range(shape.clusters):
            place = Path(folder) / str(number)
            broker = start_broker(
                place, properties={"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS)}
            )
            ending.callback(broker.stop)
            fill(broker.address, shape)
            # It knows the groups that are in its log once it has loaded them.
            broker.stop()
            addresses.append(start_broker(place).address)
            _until_loaded(addresses[-1], shape.groups // shape.clusters)
        command = [sys.executable, __file__, "--job", ",".join(addresses), "--rounds", str(rounds)]
        command += ["--history", f"{folder}/history"] if history else []
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        turns, again = (
            [Turn(*turn) for turn in some] for some in json.loads(said.stdout.splitlines()[-1])
        )
        others = [_run_tool(addresses[0]) for _ in range(rounds + 1)] if tool else []
    wanted = shape.groups * shape.commits
    if {wanted} != {turn.rows for turn in (*turns, *again, *others)}:
        sys.exit(f"not all found {wanted} commits: {[t.rows for t in (*turns, *again, *others)]}")
    return Measured(turns, again, others)


def fill(address: str, shape: Shape) -> None:
    """Make topics with records, and write the commits of groups that are Empty since long."""
    make_offsets_topic(address)
    admin = AdminClient({"bootstrap.servers": address})
    topics = [f"orders.events.{number:03}" for number in range(TOPICS)]
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in topics]).values():
        made.result()
    # A commit with another id would be one of an earlier topic of the same name.
    ids = _topic_ids(address, topics)
    settings = {"bootstrap.servers": address, "linger.ms": 20, "batch.size": 1_000_000}
    now_ms = int(time.time() * 1000)
    producer = Producer({**settings, "queue.buffering.max.messages": 1_000_000})
    for record in range(RECORDS):
        at_ms = now_ms - (RECORDS - record) * 10_000
        for topic in topics:
            for partition in range(PARTITIONS):
                produce(producer, topic, partition, value=b"%d" % record, timestamp=at_ms)
        producer.poll(0)
    producer.flush(300)
    # Brokers let a client of this name write into the topic.
    writer = Producer(
        {**settings, "client.id": "__admin_client", "queue.buffering.max.messages": 1_000_000}
    )
    groups, each = shape.groups // shape.clusters, shape.commits
    keys = [
        (*_commit_key(group, number), ids[topics[group % TOPICS]])
        for group in range(groups)
        for number in range(each)
    ]
    records = shape.records // shape.clusters
    turns = -(-records // len(keys))
    for number in range(records):
        turn, place = divmod(number, len(keys))
        partition, key, topic_id = keys[place * 7919 % len(keys)]
        at_ms = now_ms - (turns - turn) * BETWEEN_COMMITS_S * 1000
        value = commit_value(RECORDS // 2 + turn, at_ms, topic_id)
        produce(writer, OFFSETS_TOPIC, partition, key=key, value=value)
        if number % 10_000 == 0:
            writer.poll(0)
    for group in range(groups):
        partition, name = _whose(group)
        produce(writer, OFFSETS_TOPIC, partition, key=b"\0\2" + name, value=_empty_group(now_ms))
    if writer.flush(300):
        sys.exit("not all records could be written")


def _topic_ids(address: str, topics: Sequence[str]) -> dict[str, bytes]:
    """Return the ids of topics, as soon as the broker knows all of them."""
    with Connection(Cluster("benchmark", address)) as connection:
        give_up_at = time.monotonic() + 30
        while time.monotonic() < give_up_at:
            found = {topic.name: topic.topic_id for topic in describe_topics(connection, topics)}
            if all(found.values()):
                return {name: topic_id.bytes for name, topic_id in found.items()}
            time.sleep(0.2)
    sys.exit("the broker does not know its new topics")


def _whose(group: int) -> tuple[int, bytes]:
    """Return where the records of a group are, and its name as it stands in keys."""
    name = f"payments-service-{group:05}"
    return partition_of(name, OFFSETS_PARTITIONS), plain(name)


def _commit_key(group: int, number: int) -> tuple[int, bytes]:
    partition, name = _whose(group)
    topic = plain(f"orders.events.{group % TOPICS:03}")
    return partition, struct.pack(">h", 1) + name + topic + struct.pack(">i", number)


def _empty_group(since_ms: int) -> bytes:
    """Return a classic group without members."""
    head = struct.pack(">h", 3) + plain("consumer") + struct.pack(">ihh", 7, -1, -1)
    return head + struct.pack(">qi", since_ms, 0)


def _until_loaded(address: str, groups: int) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    give_up_at = time.monotonic() + 120
    while len(admin.list_consumer_groups().result().valid) < groups:
        if time.monotonic() > give_up_at:
            sys.exit("the broker did not load its groups")
        time.sleep(0.5)


def _run_job(addresses: Sequence[str], rounds: int, history: str | None) -> None:
    """Run the job some times in one session, and again with a history that it has filled."""
    clusters = [Cluster(f"cluster-{number}", one) for number, one in enumerate(addresses)]
    session = start_session()
    turns = [_turn(fleet_lag(session, clusters)) for _ in range(rounds + 1)]
    options = FleetOptions(history=history)
    again = [_turn(fleet_lag(session, clusters, options)) for _ in range(rounds + 1) if history]
    print(json.dumps([turns, again[1:]]))


def _turn(job: AbstractContextManager[FleetLag]) -> Turn:
    with Watch() as watch:
        began = time.perf_counter()
        with job as result:
            frames = result.to_pandas()
        wall_s = time.perf_counter() - began
    rows = int(frames.partitions["group"].str.startswith("payments-service-").sum())
    if len(frames.problems) or frames.groups.empty:
        sys.exit(f"{len(frames.groups)} groups, problems: {frames.problems}")
    say(f"{wall_s:.1f} s, {watch.peak_mib:.0f} MiB")
    return Turn(wall_s, watch.cpu_s, watch.peak_mib, rows)


def _run_tool(address: str) -> Turn:
    """Run Kafka's own tool once; its output is counted and thrown away."""
    began = time.perf_counter()
    process = psutil.Popen(
        tool_command(address, "--describe", "--all-groups"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    peak, rows, used = 0.0, 0, process.cpu_times()
    for line in process.stdout:
        rows += line.startswith("payments-service-")
        if rows % 10_000 == 1:
            peak = max(peak, process.memory_info().rss / 2**20)
            used = process.cpu_times()
    process.wait()
    return Turn(time.perf_counter() - began, used.user + used.system, peak, rows)


def _whole(shape: Shape, turns: Sequence[Turn], again: Sequence[Turn]) -> Iterator[str]:
    yield f"{shape}. {_surroundings(len(turns) - 1)}"
    yield ""
    runs = {"first run": turns[:1], "warm": turns[1:], "warm, a history with nothing new": again}
    rows = ((name, *_cells(taken)) for name, taken in runs.items())
    yield from markdown(("", "wall s", "CPU s", "peak PSS MiB"), rows)


def _cells(turns: Sequence[Turn]) -> tuple[str, str, str]:
    walls, cpus, peaks, _ = zip(*turns, strict=True)
    return spread(walls, ".1f"), spread(cpus, ".1f"), f"{max(peaks):,.0f}"


def _beside_tool(rounds: int) -> Iterator[str]:
    turns, _, others = measure(BESIDE_TOOL, rounds, tool=True)
    yield f"{BESIDE_TOOL}. {_surroundings(rounds)}"
    yield ""
    tool_s = median(turn.wall_s for turn in others[1:])
    runs = {
        "kafka-consumer-groups": others[1:],
        "fleet job, first run": turns[:1],
        "fleet job, warm": turns[1:],
    }
    rows = (
        (name, *_cells(taken), f"{median(turn.wall_s for turn in taken) / tool_s:.2f}")
        for name, taken in runs.items()
    )
    yield from markdown(("", "wall s", "CPU s", "peak MiB", "wall, tool = 1"), rows)


def _surroundings(rounds: int) -> str:
    return (
        f"{median_of(f'{rounds} warm runs')} Apache Kafka {VERSION}, "
        f"{machine('pyspark', 'confluent-kafka')} (brokers and job share the machine)."
    )


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--beside-tool", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--job", help=argparse.SUPPRESS)
    parser.add_argument("--history", help=argparse.SUPPRESS)
    parser.set_defaults(shape=WHOLE)
    return parse_options(parser, shape=SMALL, rounds=1)


if __name__ == "__main__":
    main()
