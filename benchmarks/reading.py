"""
Reading `__consumer_offsets`: offsetbook beside a bare drain by librdkafka, on one real broker.

Starts its own broker, fills the topic, and measures in turns, each run in fresh processes:

    drain  confluent-kafka in one process: consume all partitions and count, nothing else
    one    toolkit.kafka_io.offsets_topic.reader.read_offsets_log, all partitions in one process
    two    the same in two processes side by side, as Spark does it with two cores

Times begin when the first process is ready to read, and end when the last has read all.
"""

import argparse
import json
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient, NewTopic
from measuring import (
    in_turns,
    machine,
    markdown,
    median_of,
    new_parser,
    own_broker,
    parse_options,
    peak_mib,
    say,
    spread,
)

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.offsets_topic.partitions import (
    OFFSETS_TOPIC,
    offsets_partitions,
    partition_of,
)
from toolkit.kafka_io.offsets_topic.reader import read_offsets_log
from toolkit.model import Cluster
from toolkit.sandbox.jars import VERSION

PARTITIONS = 10
TOPICS, PARTITIONS_EACH = 50, 20  # a group commits one topic
GROUP_RECORD_EVERY = 20  # commits
TOMBSTONE_EVERY = 200
TOPIC_ID = bytes(range(1, 17))  # which a commit has since Kafka 4.1
# With librdkafka's own defaults for the two queue settings the same takes eight times as long.
DRAIN = {
    "isolation.level": "read_committed",
    "group.id": "offsetbook-benchmark",  # required by the client; nothing joins or commits
    "enable.auto.commit": False,
    "auto.offset.reset": "error",
    "fetch.queue.backoff.ms": 2,
    "queued.min.messages": 200_000,
    "queued.max.messages.kbytes": 65_536,
    "fetch.wait.max.ms": 50,
}
WAYS = {"drain": 1, "one": 1, "two": 2}  # how many processes


class Run(NamedTuple):
    """What one run took; `condensed` is how many rows LATEST had in all."""

    wall_s: float
    cpu_s: float
    peak_mib: float  # of all processes together
    records: int
    condensed: int


def main() -> None:
    options = _options()
    if options.read:
        _read_in_this_process(options.read, options.address, options.partitions)
        return
    properties = {
        "offsets.topic.num.partitions": str(PARTITIONS),
        "log.cleaner.enable": "false",  # every run is to read the same
    }
    with own_broker(properties) as (address, _):
        say(f"writing {options.records:,} records of {options.keys:,} keys")
        fill(address, options.records, options.keys, options.batch)
        runs = measure_in_turns(address, options.rounds)
    print("\n".join([*surroundings(options, runs), "", *table(runs)]))


def fill(address: str, records: int, keys: int, batch: int) -> None:
    """Write commits, group records and tombstones as coordinators write them."""
    make_offsets_topic(address)
    producer = Producer(
        {
            "bootstrap.servers": address,
            "client.id": "__admin_client",  # which brokers let write into this topic
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "batch.num.messages": batch,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    places = [_place(number) for number in range(keys)]
    now_ms = int(time.time() * 1000)
    for number in range(records):
        partition, commit_key, group_key = places[number * 7919 % keys]
        if number % GROUP_RECORD_EVERY == 0:
            key, value = group_key, _group_value(number // keys, now_ms)
        else:
            key, value = commit_key, commit_value(number, now_ms + number // 100, TOPIC_ID)
        kept = None if number % TOMBSTONE_EVERY == 1 else value
        produce(producer, OFFSETS_TOPIC, partition, key=key, value=kept)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        sys.exit("not all records could be written")


def produce(producer: Producer, topic: str, partition: int, **record: Any) -> None:
    while True:
        try:
            producer.produce(topic, partition=partition, **record)
        except BufferError:
            producer.poll(0.1)
        else:
            return


def _place(number: int) -> tuple[int, bytes, bytes]:
    """Return where a commit belongs, its key, and the key of its group."""
    group = f"payments-service-{number // PARTITIONS_EACH:05}"
    topic = f"orders.events.{number // PARTITIONS_EACH % TOPICS:03}"
    whose = plain(group)
    key = struct.pack(">h", 1) + whose + plain(topic) + struct.pack(">i", number % PARTITIONS_EACH)
    return partition_of(group, PARTITIONS), key, struct.pack(">h", 2) + whose


def commit_value(offset: int, at_ms: int, topic_id: bytes) -> bytes:
    # The version, the offset, its leader epoch, no metadata, the time, and one tag, with 16 bytes.
    return struct.pack(">hqibq", 4, offset, 0, 1, at_ms) + b"\1\0\x10" + topic_id


def _group_value(generation: int, at_ms: int) -> bytes:
    subscription = struct.pack(">hi", 1, 1) + plain("orders.events.001") + struct.pack(">ii", -1, 0)
    member = plain("consumer-1-6f7a1c52-1d37-4f59-8d4e-5b8f3a1e2c90") + struct.pack(">h", -1)
    member += plain("consumer-1") + plain("/10.0.0.1") + struct.pack(">ii", 300_000, 45_000)
    for part in (subscription, bytes(40)):
        member += struct.pack(">i", len(part)) + part
    head = struct.pack(">h", 3) + plain("consumer") + struct.pack(">i", generation)
    return head + plain("range") + plain("consumer-1") + struct.pack(">qi", at_ms, 1) + member


def plain(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def make_offsets_topic(address: str) -> None:
    """Commit something, for which the broker makes the topic."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("first", 1, 1)])["first"].result()
    commit = ConsumerGroupTopicPartitions("first", [Position("first", 0, 0)])
    give_up_at = time.monotonic() + 30
    while True:
        try:
            admin.alter_consumer_group_offsets([commit])["first"].result()
        except KafkaException as exc:
            if time.monotonic() > give_up_at:
                sys.exit(f"the offsets topic could not be made: {exc}")
            time.sleep(0.2)
        else:
            return


def measure_in_turns(address: str, rounds: int) -> dict[str, list[Run]]:
    ways = {way: partial(run_once, way, address, processes) for way, processes in WAYS.items()}
    runs = in_turns(ways, rounds, lambda run: f"{run.records / run.wall_s / 1e6:.2f} M records/s")
    counts = {run.records for taken in runs.values() for run in taken}
    condensed = {run.condensed for way in ("one", "two") for run in runs[way]}
    if len(counts) != 1 or len(condensed) != 1:
        sys.exit(f"the ways do not agree: {counts} records, condensed to {condensed}")
    return runs


def run_once(way: str, address: str, processes: int) -> Run:
    """Run one way in fresh processes, which begin together."""
    shares = [[*range(first, PARTITIONS, processes)] for first in range(processes)]
    started = [_start(way, address, share) for share in shares]
    try:
        for process in started:
            _line(process)  # it has imported all it needs
        began = time.perf_counter()
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [json.loads(_line(process)) for process in started]
        wall_s = time.perf_counter() - began
    finally:
        for process in started:
            process.kill()
            process.wait()
    total: Counter[str] = Counter()
    for one in told:
        total.update(one)
    return Run(wall_s, total["cpu_s"], total["peak_mib"], total["records"], total["condensed"])


def _start(way: str, address: str, partitions: Sequence[int]) -> subprocess.Popen[str]:
    numbers = ",".join(map(str, partitions))
    command = [sys.executable, __file__, "--read", way, "--address", address]
    return subprocess.Popen(
        [*command, "--partitions", numbers],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def _line(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        sys.exit(f"a reader ended with status {process.wait()}")
    return line


def _read_in_this_process(way: str, address: str, partitions: Sequence[int]) -> None:
    """Wait for the word, read, and print what it took."""
    print("ready", flush=True)
    sys.stdin.readline()
    cpu_s = time.process_time()
    records, condensed = (_drain if way == "drain" else _condense)(address, partitions)
    found = {
        "records": records,
        "condensed": condensed,
        "cpu_s": time.process_time() - cpu_s,
        "peak_mib": peak_mib(),
    }
    print(json.dumps(found), flush=True)


def _drain(address: str, partitions: Sequence[int]) -> tuple[int, int]:
    """Consume and count, with the settings that make librdkafka fast."""
    consumer = Consumer({**DRAIN, "bootstrap.servers": address})
    places = [Position(OFFSETS_TOPIC, number, 0) for number in partitions]
    # No transaction has ever been in this topic, so all that lies between the ends is records.
    left = wanted = sum(consumer.get_watermark_offsets(place)[1] for place in places)
    consumer.assign(places)
    while left:
        left -= len(consumer.consume(min(20_000, left), 0.1))
    consumer.close()
    return wanted, 0


def _condense(address: str, partitions: Sequence[int]) -> tuple[int, int]:
    cluster = Cluster("benchmark", address)
    with Connection(cluster) as connection:
        logs = offsets_partitions(connection).logs
    records = condensed = 0
    for number in partitions:
        read = read_offsets_log(cluster, number, logs[number])
        records += read.records
        condensed += read.latest.num_rows
    return records, condensed


def table(runs: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    drain = median(run.wall_s for run in runs["drain"])
    rows = []
    for way, taken in runs.items():
        rates = [run.records / run.wall_s / 1e6 for run in taken]
        ratio = median(run.wall_s for run in taken) / drain
        cpu, peak = (median(run[part] for run in taken) for part in (1, 2))
        cells = (spread(rates), f"{ratio:.2f}", f"{cpu:.1f}", f"{peak:.0f}")
        rows.append((way, WAYS[way], *cells))
    heading = ("", "processes", "M records/s", "time, drain = 1", "CPU s", "peak RSS MiB")
    return markdown(heading, rows)


def surroundings(options: argparse.Namespace, runs: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    run = runs["one"][0]
    yield (
        f"{run.records:,} records in {PARTITIONS} partitions, in batches of up to "
        f"{options.batch:,}, condensed to {run.condensed:,}. "
        f"{median_of(f'{options.rounds} runs')}"
    )
    yield ""
    yield (
        f"Apache Kafka {VERSION}, {machine('confluent-kafka', 'pyarrow')} "
        "(broker and readers share the machine)."
    )


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--records", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=10_000, help="at most so many records each")
    parser.add_argument("--rounds", type=int, default=3)
    for internal in ("--read", "--address"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    parser.add_argument("--partitions", type=_numbers, default=(), help=argparse.SUPPRESS)
    return parse_options(parser, records=20_000, keys=1_000, rounds=1)


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


if __name__ == "__main__":
    main()
