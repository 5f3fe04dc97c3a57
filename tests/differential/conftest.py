"""The real tool and ours, side by side on one broker where nothing moves by itself."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyspark
import pytest
from applications import PATIENCE_S
from clients import Producer
from kafka_tool import PARTITIONS, Bench, RealTool
from py4j.java_gateway import (
    CallbackServerParameters,
    GatewayParameters,
    JavaGateway,
    launch_gateway,
)

from toolkit.kafka_io.client.connection import Connection
from toolkit.model import Cluster
from toolkit.sandbox.broker import VERSION, start_broker
from toolkit.sandbox.jars import kafka_jars
from toolkit.spark.java import find_java, quick_jvm

FIRST_RECORD = datetime(2025, 11, 20, tzinfo=UTC)
MINUTE_MS = 60_000
RECORDS = {"ta": 100, "tb": 50, "tempty": 0, "tstart": 100}
LOG_START = 40  # of tstart, partition 0
HOUR_MS = "3600000"


@pytest.fixture(scope="package")
def still(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a cluster with topics in which nothing moves."""
    broker = start_broker(tmp_path_factory.mktemp("differential"))
    try:
        yield Cluster("still", broker.address)
    finally:
        broker.stop()


@pytest.fixture(scope="package")
def still_apps(still: Cluster, applications_until: Callable[..., Any]) -> Iterator[Any]:
    """Return the applications on it, after they have written the topics."""
    with ExitStack() as ending:
        apps = applications_until(still, ending)
        for topic, partitions in PARTITIONS.items():
            apps.create_topic(topic, partitions=partitions)
        producer = Producer({"bootstrap.servers": still.bootstrap_servers})
        for topic, records in RECORDS.items():
            for partition in range(PARTITIONS[topic]):
                _write(producer, topic, partition, records)
        assert producer.flush(PATIENCE_S) == 0
        apps.delete_records("tstart", 0, LOG_START)
        ending.callback(_in_a_transaction(still, "ttx").abort_transaction)
        _in_a_transaction(still, "ttxc").commit_transaction()
        yield apps


def _write(producer: Producer, topic: str, partition: int, records: int) -> None:
    """Write records, one a minute from the first on."""
    start_ms = round(FIRST_RECORD.timestamp() * 1000)
    for number in range(records):
        at_ms = start_ms + number * MINUTE_MS
        producer.produce(topic, b"x", partition=partition, timestamp=at_ms)


def _in_a_transaction(cluster: Cluster, topic: str) -> Producer:
    """Write 10 records that are committed (ttx) or about to be (ttxc), and in ttx 5 more."""
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": topic,
            "transaction.timeout.ms": HOUR_MS,
        }
    )
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    _write(producer, topic, 0, 10)
    if topic == "ttx":
        producer.commit_transaction()
        producer.begin_transaction()
        _write(producer, topic, 0, 5)
        assert producer.flush(PATIENCE_S) == 0
    return producer


@pytest.fixture(scope="package")
def real_tool(still: Cluster) -> Iterator[RealTool]:
    py4j = next((Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar"))
    port, process = launch_gateway(
        jarpath=str(py4j),
        classpath=f"{kafka_jars(VERSION)}/*",
        java_path=str(find_java()),
        javaopts=[*quick_jvm("256m")],
        die_on_exit=True,
        redirect_stderr=subprocess.DEVNULL,
        return_proc=True,
    )
    gateway = JavaGateway(
        gateway_parameters=GatewayParameters(port=port),
        callback_server_parameters=CallbackServerParameters(port=0),
    )
    try:
        yield RealTool(still.bootstrap_servers, gateway)
    finally:
        gateway.shutdown()
        process.stdin.close()  # the JVM ends with it
        process.wait(PATIENCE_S)


@pytest.fixture(scope="package")
def bench(
    still: Cluster,
    still_apps: Any,  # noqa: ARG001 - the topics are there
    real_tool: RealTool,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bench]:
    with Connection(still) as connection:
        yield Bench(connection, real_tool, tmp_path_factory.mktemp("records"))
