"""Real brokers, started when a test first asks and ended whatever happens."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import hypothesis
import pytest

from toolkit.model import Cluster
from toolkit.sandbox.broker import start_broker
from toolkit.sandbox.fleet import Sandbox

# Of tests/fixtures; what others import comes before them.
pytest_plugins = [
    "applications",
    "brokers",
    "coordinators",
    "desks",
    "rooms",
    "secured",
    "live_groups",
    "holding",
    "streams_app",
]


def pytest_configure() -> None:
    """Take a polite kill for Ctrl-C, so that fixtures end their brokers then too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # Programs that tests start would ignore what a shell in the background has us ignore.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    # How long an example takes says more about the machine than about the rule.
    hypothesis.settings.register_profile("patient", deadline=None)
    hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """One seeded cluster, `eu`, on which the applications keep running."""
    running = Sandbox(tmp_path_factory.mktemp("sandbox"))
    try:
        running.up(["eu"])
        yield running
    finally:
        running.down()


@pytest.fixture(scope="session")
def cluster(sandbox: Sandbox) -> Cluster:
    """Return the seeded cluster."""
    (status,) = sandbox.status()
    return Cluster(status.name, status.address)


@pytest.fixture(scope="session")
def bare_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a quiet cluster without topics and groups, except those of other tests."""
    with _broker(tmp_path_factory.mktemp("bare"), version="4.3.1") as started:
        yield started


@pytest.fixture(scope="session")
def kafka_39(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a quiet cluster of the oldest Apache Kafka that is supported."""
    with _broker(tmp_path_factory.mktemp("kafka_39"), version="3.9.1") as started:
        yield started


@pytest.fixture(scope="session")
def unique_name() -> Callable[[str], str]:
    """Return a function that makes names which no other test uses: `orders` gives `orders-7`."""
    numbers = itertools.count(1)
    return lambda stem: f"{stem}-{next(numbers)}"


@contextmanager
def _broker(directory: Path, *, version: str) -> Iterator[Cluster]:
    broker = start_broker(directory, version=version)
    try:
        yield Cluster(directory.name, broker.address)
    finally:
        broker.stop()
