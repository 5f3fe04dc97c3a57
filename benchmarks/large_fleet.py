"""
The fleet job on a large fleet: how time and memory grow with clusters, and with records.

    large_fleet.py                     100 clusters of 10,000 commits, and fewer
    large_fleet.py --records 40        40 M records of 500,000 commits in one cluster, and fewer
    large_fleet.py --spark cluster     the same on a standalone Spark cluster with two workers

One real broker stands under many names, each of which is read as a cluster of its own. Its offsets
topic is filled once; more records are the same batches, written again as they are. Each size is a
first run in a fresh process, which writes every partition as Parquet and takes the other results
into pandas. Memory is PSS, by what it belongs to: Python and the JVM of the driver (on `local[2]`
tasks run in that JVM, too), the JVM of an executor, and the largest Python worker.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import plotly.graph_objects as go
from fleet import OFFSETS_PARTITIONS, Shape, _surroundings, _until_loaded, fill
from kafka.protocol.producer import ProduceRequest
from measuring import markdown, new_parser, parse_options, say
from process_use import Watch

from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.logs.fetch import fetch_batches
from toolkit.kafka_io.logs.log_offsets import READ_UNCOMMITTED
from toolkit.kafka_io.logs.record_batches import batches_of
from toolkit.kafka_io.offsets_topic.partitions import OFFSETS_TOPIC, offsets_partitions
from toolkit.model import Cluster, TopicPartition
from toolkit.sandbox.broker import start_broker
from toolkit.spark.fleet_lag import fleet_lag
from toolkit.spark.spark_session import start_session

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "fixtures"))

from spark_cluster import start_spark_cluster  # noqa: E402 - is found by the line above

COMMITS_A_GROUP = 20
COMMITS_OF_MANY_RECORDS = 500_000
BY_NAME_VERSION = 12  # from 13 on, a request names topics by id
PATIENCE_S = 300
SHOWN = ("groups", "activity", "leftovers", "problems")  # what a report shows whole


class Size(NamedTuple):
    """How much one run reads, all clusters together."""

    clusters: int
    records: int
    commits: int


class Turn(NamedTuple):
    """What one run took: seconds, and MiB by what they belong to."""

    size: Size
    starting_s: float
    job_s: float
    cpu_s: float
    peaks: dict[str, float]


def main() -> None:
    options = _options()
    if options.job:
        print(json.dumps(_run_job(Size(*json.loads(options.size)), options)))
        return
    run = _more_records(options.records) if options.records else _more_clusters(options)
    turns = []
    with ExitStack() as ending:
        spark: list[str] = []
        if options.spark == "cluster":
            folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))
            cluster = ending.enter_context(start_spark_cluster(folder, {}, memory="2g"))
            spark = ["--master", cluster.master, "--workers", json.dumps(cluster.workers)]
        for size, address in run:
            turns.append(_in_a_fresh_process(size, address, spark))
            say(f"{turns[-1]}")
    print("\n".join(_report(turns, options)))
    if options.chart:
        _chart(turns, by_records=bool(options.records)).write_html(options.chart)


def _more_clusters(options: argparse.Namespace) -> Iterator[tuple[Size, str]]:
    commits = options.commits
    with _filled(Size(1, 2 * commits, commits)) as address:
        for clusters in _steps(options.clusters):
            yield Size(clusters, 2 * clusters * commits, clusters * commits), address


def _more_records(millions: int) -> Iterator[tuple[Size, str]]:
    sizes = [Size(1, step * 10**6, COMMITS_OF_MANY_RECORDS) for step in _steps(millions)]
    with _filled(sizes[0]) as address:
        for size in sizes:
            while (missing := size.records - _records(address)) > size.records // 100:
                say(f"writing {missing:,} more records")
                _write_again(address, missing)
            yield size, address


def _steps(last: int) -> list[int]:
    return sorted({max(1, last // part) for part in (8, 4, 2, 1)})


@contextmanager
def _filled(size: Size) -> Iterator[str]:
    """Start a broker with the commits of a cluster that loads its groups."""
    properties = {
        "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
        "log.cleaner.enable": "false",  # else records would go while more are written
    }
    groups = size.commits // COMMITS_A_GROUP
    say(f"filling a broker: {size.records:,} records of {groups:,} groups")
    with tempfile.TemporaryDirectory(prefix="offsetbook-benchmark-") as folder:
        place = Path(folder) / "broker"
        broker = start_broker(place, properties=properties)
        fill(broker.address, Shape(1, size.records, groups, COMMITS_A_GROUP))
        broker.stop()  # it knows the groups of its log once it has loaded them
        broker = start_broker(place, properties=properties)
        try:
            _until_loaded(broker.address, groups)
            yield broker.address
        finally:
            broker.stop()


def _records(address: str) -> int:
    with Connection(Cluster("benchmark", address)) as connection:
        logs = offsets_partitions(connection).logs
    return sum(log.log_end - log.log_start for log in logs.values())


def _write_again(address: str, most: int) -> None:
    """Write the batches of the offsets topic to its end once more, about so many records."""
    # Brokers let a client of this name write into the topic.
    with Connection(Cluster("benchmark", address), client_id="__admin_client") as connection:
        logs = offsets_partitions(connection).logs
        (node_id,) = connection.broker_ids
        for number, log in logs.items():
            left = most // len(logs)
            partition, span = TopicPartition(OFFSETS_TOPIC, number), range(log.log_end)
            for fetched in fetch_batches(connection, partition, span, READ_UNCOMMITTED):
                batches = batches_of(fetched.batches)
                places = zip(batches.starts.tolist(), batches.ends.tolist(), strict=True)
                writing = []
                for (start, end), count in zip(places, batches.counts.tolist(), strict=True):
                    if left > 0:
                        # A request may hold only one batch of a partition.
                        request = _produce(number, batches.data[start:end].tobytes())
                        writing.append(connection.send_ahead(request, to=node_id))
                        left -= count
                for one in writing:
                    (answer,) = one.result().responses[0].partition_responses
                    if answer.error_code:
                        sys.exit(f"records could not be written: {answer}")


def _produce(number: int, batch: bytes) -> ProduceRequest:
    topic = ProduceRequest.TopicProduceData
    # A batch that is sent begins at offset 0; its checksum does not cover that.
    data = topic.PartitionProduceData(index=number, records=bytes(8) + batch[8:])
    return ProduceRequest(
        transactional_id=None,
        acks=1,
        timeout_ms=PATIENCE_S * 1000,
        topic_data=[topic(name=OFFSETS_TOPIC, partition_data=[data])],
        max_version=BY_NAME_VERSION,
    )


def _in_a_fresh_process(size: Size, address: str, spark: Sequence[str]) -> Turn:
    command = [sys.executable, __file__, "--job", address, "--size", json.dumps(size), *spark]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    turn = Turn(*json.loads(said.stdout.splitlines()[-1]))
    return turn._replace(size=Size(*turn.size))


def _run_job(size: Size, options: argparse.Namespace) -> Turn:
    """Run the job once, and check that all commits were found."""
    clusters = [Cluster(f"cluster-{n:03}", options.job) for n in range(size.clusters)]
    began = time.perf_counter()
    with Watch(json.loads(options.workers)) as watch, tempfile.TemporaryDirectory() as folder:
        session = start_session(options.master)
        started = time.perf_counter()
        with fleet_lag(session, clusters) as result:
            shown = {name: getattr(result, name).toArrow().num_rows for name in SHOWN}
            result.partitions.write.parquet(f"{folder}/partitions")
        ended = time.perf_counter()
        rows = session.read.parquet(f"{folder}/partitions")
        found = rows.where("group like 'payments-service-%'").count()
    if found != size.commits or shown["problems"]:
        sys.exit(f"{found:,} commits of {size.commits:,}, {shown}")
    return Turn(size, started - began, ended - started, watch.cpu_s, watch.peaks)


def _report(turns: Sequence[Turn], options: argparse.Namespace) -> Iterator[str]:
    yield f"Spark on {options.spark}. {_surroundings(1)}"
    yield ""
    roles = sorted({role for turn in turns for role in turn.peaks})
    heading = ["starting Spark s", "job s", "CPU s", *(f"{role} MiB" for role in roles)]
    rows = []
    for turn in turns:
        size = turn.size
        cells = [f"{turn.starting_s:.1f}", f"{turn.job_s:.1f}", f"{turn.cpu_s:.0f}"]
        cells += [f"{turn.peaks.get(role, 0):,.0f}" for role in roles]
        rows.append((size.clusters, f"{size.records / 1e6:g}", f"{size.commits:,}", *cells))
    yield from markdown(("clusters", "M records", "commits", *heading), rows)


def _chart(turns: Sequence[Turn], *, by_records: bool) -> go.Figure:
    at = [turn.size.records / 1e6 if by_records else turn.size.clusters for turn in turns]
    took = [turn.job_s for turn in turns]
    figure = go.Figure(go.Scatter(x=at, y=took, mode="lines+markers"))
    figure.update_layout(
        title="The fleet job",
        xaxis_title="M records in one cluster" if by_records else "clusters",
        yaxis_title="seconds",
        width=800,
        height=400,
    )
    return figure


def _options() -> argparse.Namespace:
    parser = new_parser(__doc__)
    parser.add_argument("--clusters", type=int, default=100)
    parser.add_argument("--commits", type=int, default=10_000, help="of each cluster")
    parser.add_argument("--records", type=int, help="millions, in one cluster")
    parser.add_argument("--spark", choices=["local[2]", "cluster"], default="local[2]")
    parser.add_argument("--chart", help="file to write the chart to, as HTML")
    for internal, default in (("--job", ""), ("--size", ""), ("--workers", "[]")):
        parser.add_argument(internal, default=default, help=argparse.SUPPRESS)
    parser.add_argument("--master", default="local[2]", help=argparse.SUPPRESS)
    return parse_options(parser, clusters=3, commits=500)


if __name__ == "__main__":
    main()
