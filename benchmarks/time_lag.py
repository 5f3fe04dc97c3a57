"""
Lag in time of every commit: time look-ups beside reading one record each, on one real broker.

Starts its own broker and fills it with records whose times are spread over days. Groups have
committed at places of all ages. Every way runs in a fresh process, in turns:

    look-ups  kafka_io.logs.offset_time_lookup, and the rule of planning.lag.time_lag
    records   the same, and the record itself where look-ups tell too little (at most 5,000)
    reading   one record for each of a sample of commits, as other tools read it for each commit

Errors are against the times that the records were given.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from measuring import (
    in_turns,
    machine,
    markdown,
    new_parser,
    own_broker,
    parse_options,
    say,
    spread,
)

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.logs.log_offsets import read_log_offsets
from toolkit.kafka_io.logs.offset_time_lookup import TimeLookup, points_around, read_log_times
from toolkit.kafka_io.logs.record_times import read_first_records
from toolkit.model import Cluster, TopicPartition
from toolkit.planning.lag.time_lag import with_time_lag
from toolkit.sandbox.jars import VERSION

TOPICS, PARTITIONS = 50, 20
DAYS = 5
MOST_READ = 5_000
RECORDS_IN_A_BATCH = 50
WAYS = ("look-ups", "records", "reading")
COUNTS = ("rounds", "requests", "answers", "read")
ERRORS = (50, 90, 99, 100)  # percentiles


class Plan(NamedTuple):
    """What is in the cluster: the times of records, and the commits."""

    now: datetime
    records: int
    groups: int

    def times(self, place: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Return the times of a partition's records in ms: busy days, quiet nights, bursts."""
        rng = np.random.default_rng(place)
        day = rng.integers(0, DAYS, self.records)
        hour = rng.normal(13, 3, self.records).clip(0, 23.99)
        begin = self.now.timestamp() - DAYS * 86_400
        at = (begin + day * 86_400 + hour * 3600) * 1000
        at = np.where(rng.random(self.records) < 0.2, at // 600_000 * 600_000, at)
        return np.sort(np.minimum(at, self.now.timestamp() * 1000 - 1)).astype(np.int64)

    def commits(self, place: int) -> list[int]:
        """Return where the groups have committed in a partition: most near its end."""
        chooser = random.Random(place)  # noqa: S311 - the same in each run
        behind = (chooser.paretovariate(0.3) for _ in range(self.groups))
        return [self.records - min(self.records, round(length) - 1) for length in behind]


def main() -> None:
    options = _options()
    if options.way:
        print(json.dumps(run(options)))
        return
    now = datetime.now(UTC).replace(microsecond=0)
    plan = Plan(now, options.records, options.groups)
    with own_broker() as (address, _):
        say(f"writing {TOPICS * PARTITIONS * plan.records:,} records")
        fill(address, plan)
        ways = {way: partial(in_a_process, address, way, plan, options.sample) for way in WAYS}
        runs = in_turns(ways, options.rounds, lambda took: f"{took['wall_s']:.2f} s", warm_up=0)
    print("\n".join(report(runs, plan, options)))


def fill(address: str, plan: Plan) -> None:
    topics = [f"topic-{number:02}" for number in range(TOPICS)]
    admin = AdminClient({"bootstrap.servers": address})
    keep = {"retention.ms": "-1"}
    new = [NewTopic(name, PARTITIONS, 1, config=keep) for name in topics]
    for made in admin.create_topics(new).values():
        made.result()
    producer = Producer(
        {
            "bootstrap.servers": address,
            "queue.buffering.max.messages": 2_000_000,
            "enable.idempotence": True,  # batches that are sent again must not come twice, or late
            # As records come in over days, and not all at once: a broker looks through a batch.
            "batch.num.messages": RECORDS_IN_A_BATCH,
        }
    )
    for number, place in enumerate(places()):
        for at in plan.times(number).tolist():
            producer.produce(place.topic, b"x" * 100, partition=place.partition, timestamp=at)
        producer.poll(0)
    if producer.flush(120):
        sys.exit("not all records could be written")


def places() -> list[TopicPartition]:
    topics = [f"topic-{number:02}" for number in range(TOPICS)]
    return [TopicPartition(topic, number) for topic in topics for number in range(PARTITIONS)]


def in_a_process(address: str, way: str, plan: Plan, sample: int) -> dict[str, Any]:
    """Run one way on its own, and return what it took and found."""
    command = [
        *(sys.executable, __file__, "--way", way, "--address", address),
        *("--now", plan.now.isoformat(), "--groups", str(plan.groups)),
        *("--records", str(plan.records), "--sample", str(sample)),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return dict(json.loads(done.stdout))


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Find the lag in time of all commits in one way, and compare it with the truth."""
    plan = Plan(datetime.fromisoformat(options.now), options.records, options.groups)
    cluster = Cluster("benchmark", options.address)
    wanted = {place: plan.commits(number) for number, place in enumerate(places())}
    began, cpu = time.perf_counter(), time.process_time()
    if options.way == "reading":
        found = reading(cluster, wanted, plan, options.sample)
    else:
        found = looking_up(cluster, wanted, plan, most=MOST_READ * (options.way == "records"))
    took = {"wall_s": time.perf_counter() - began, "cpu_s": time.process_time() - cpu}
    return {**took, **found.pop("told"), **against_the_truth(found["table"], plan)}


def looking_up(
    cluster: Cluster, wanted: dict[TopicPartition, list[int]], plan: Plan, *, most: int
) -> dict[str, Any]:
    """Find them by time look-ups, and by reading a record where that tells too little."""
    with Connection(cluster) as connection:
        logs, problems = read_log_offsets(connection, wanted)
        times = read_log_times(connection, wanted, logs, TimeLookup(plan.now))
    if problems or times.problems:
        sys.exit(f"not everything could be asked: {(*problems, *times.problems)[:3]}")
    read = read_first_records(cluster, times.unsettled, most=most) if most else {}
    cells = []
    for place, offsets in wanted.items():
        near = points_around(times.points[place], set(offsets))
        for offset in offsets:
            record = read.get((place, offset))
            known = (record.found, record.at) if record else (None, None)
            cells.append((place, offset, near[offset], *known))
    columns = ["place", "committed", "points", "record_found", "record_at"]
    table = pd.DataFrame(cells, columns=columns)
    table = table.assign(
        log_start=0, log_end=plan.records, lag=plan.records - table["committed"]
    ).astype(dict.fromkeys(("committed", "log_start", "log_end", "lag"), "Int64"))
    table = table.astype({"record_found": "boolean"})
    told = {
        "rounds": times.rounds,
        "requests": times.requests,
        "answers": sum(map(len, times.points.values())),
        "unsettled": len(times.unsettled),
        "read": len(read),
    }
    return {"table": with_time_lag(table, now=plan.now), "told": told}


def reading(
    cluster: Cluster, wanted: dict[TopicPartition, list[int]], plan: Plan, sample: int
) -> dict[str, Any]:
    """Read one record for each of some commits that have something to read."""
    everything = [
        (place, offset)
        for place, offsets in wanted.items()
        for offset in offsets
        if offset < plan.records
    ]
    chooser = random.Random(1)  # noqa: S311 - the same in each run
    chosen = chooser.sample(everything, min(sample, len(everything)))
    read = read_first_records(cluster, chosen, most=sample)
    table = pd.DataFrame(list(read), columns=["place", "committed"])
    waited = [(plan.now - one.at).total_seconds() if one.at else None for one in read.values()]
    table = table.assign(time_lag_s=waited, time_lag_error_s=0.0, lag=1, time_lag_method="record")
    # What positions share is read once, also by this way.
    share = len(set(everything)) / len(set(chosen))
    return {"table": table, "told": {"read": len(read), "times_the_sample": share}}


def against_the_truth(table: pd.DataFrame, plan: Plan) -> dict[str, Any]:
    """Return how far off the numbers are, in s and as shares of the lag, and how many there are."""
    times = {place: plan.times(number) for number, place in enumerate(places())}
    behind = table[table["lag"] > 0]
    now_ms = plan.now.timestamp() * 1000
    truth = np.array(
        [
            (now_ms - times[place][offset]) / 1000
            for place, offset in zip(behind["place"], behind["committed"], strict=True)
        ]
    )
    known = behind["time_lag_s"].notna().to_numpy()
    lag = behind["time_lag_s"].to_numpy(float, na_value=np.nan)
    bound = behind["time_lag_error_s"].to_numpy(float, na_value=np.nan)
    off = np.abs(lag - truth)[known]
    worst = np.percentile(off, ERRORS).tolist()
    share = np.percentile(off / np.maximum(truth[known], 20), ERRORS).tolist()
    return {
        "commits": len(table),
        "behind": len(behind),
        "unknown": int((~known).sum()),
        "outside": int((off > bound[known] + 0.001).sum()),
        "off_s": worst,
        "off_share": share,
        "bound_share": np.percentile(bound[known] / np.maximum(truth[known], 20), ERRORS).tolist(),
    }


def report(
    runs: dict[str, list[dict[str, Any]]], plan: Plan, options: argparse.Namespace
) -> Iterator[str]:
    first = {way: taken[0] for way, taken in runs.items()}
    whole = first["look-ups"]
    yield (
        f"{TOPICS * PARTITIONS:,} partitions with {plan.records:,} records each over {DAYS} days, "
        f"in batches of {RECORDS_IN_A_BATCH}; "
        f"{plan.groups} groups with {whole['commits']:,} commits, {whole['behind']:,} of them with "
        f"something to read. Median (lowest–highest) of {options.rounds} runs, "
        f"{datetime.now(UTC):%Y-%m-%d}."
    )
    yield ""
    versions = machine("kafka-python", "confluent-kafka")
    yield f"Apache Kafka {VERSION}, {versions} (broker and reader share the machine)."
    yield ""
    heading = ("", "rounds", "requests", "look-ups", "records read", "wall s", "CPU s", "unknown")
    rows = []
    for way, taken in runs.items():
        one = first[way]
        walls, cpus = ([run[key] for run in taken] for key in ("wall_s", "cpu_s"))
        told = [f"{one[key]:,}" if key in one else "–" for key in COUNTS]
        told += [spread(walls), spread(cpus), f"{one['unknown']:,}", str(one["outside"])]
        rows.append((way, *told))
    yield from markdown((*heading, "outside the bound"), rows)
    scale = first["reading"]["times_the_sample"]
    length_s = scale * median(run["wall_s"] for run in runs["reading"])
    yield ""
    yield (
        f"Reading is of a sample: for all different places it would take {scale:.1f} times as "
        f"long, about {length_s:.0f} s."
    )
    yield ""
    shares = {
        f"{way}{words}": first[way][key]
        for way in WAYS[:2]
        for words, key in (("", "off_share"), (", bound", "bound_share"))
    }
    yield from markdown(
        ("error, share of the lag (at least 20 s)", *(f"{p} %" for p in ERRORS)),
        ((name, *(f"{100 * value:.2f} %" for value in each)) for name, each in shares.items()),
    )


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--groups", type=int, default=100, help="with a commit on each partition")
    parser.add_argument("--records", type=int, default=2000, help="in each partition")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sample", type=int, default=5000, help="of commits, to read records for")
    for name in ("--way", "--address", "--now"):  # what a run of its own is told
        parser.add_argument(name, help=argparse.SUPPRESS)
    return parse_options(parser, groups=2, records=20, rounds=1, sample=20)


if __name__ == "__main__":
    main()
