"""The real tool and ours, side by side on one broker where nothing moves by itself."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
from applications import PATIENCE_S, Applications
from clients import Producer
from kafka_tool import PARTITIONS, Bench, RealTool
from streams_app import start_jvm

from toolkit.kafka_io.client.connection import Connection
from toolkit.model import Cluster
from toolkit.sandbox.broker import start_broker

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
        ending.callback(_in_a_transaction(apps, "ttx").abort_transaction)
        _in_a_transaction(apps, "ttxc").commit_transaction()
        yield apps


def _write(producer: Producer, topic: str, partition: int, records: int) -> None:
    """Write records, one a minute from the first on."""
    start_ms = round(FIRST_RECORD.timestamp() * 1000)
    for number in range(records):
        at_ms = start_ms + number * MINUTE_MS
        producer.produce(topic, b"x", partition=partition, timestamp=at_ms)


def _in_a_transaction(apps: Applications, topic: str) -> Producer:
    """Write 10 records that are committed (ttx) or about to be (ttxc), and in ttx 5 more."""
    producer = apps.transaction(topic, **{"transaction.timeout.ms": HOUR_MS})
    _write(producer, topic, 0, 10)
    if topic == "ttx":
        producer.commit_transaction()
        producer.begin_transaction()
        _write(producer, topic, 0, 5)
        assert producer.flush(PATIENCE_S) == 0
    return producer


@pytest.fixture(scope="package")
def bench(
    still: Cluster,
    still_apps: Any,  # noqa: ARG001 - the topics are there
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Bench]:
    log = tmp_path_factory.mktemp("tool") / "jvm.log"
    with start_jvm(log) as gateway, Connection(still) as connection:
        tool = RealTool(still.bootstrap_servers, gateway)
        yield Bench(connection, tool, tmp_path_factory.mktemp("records"))
