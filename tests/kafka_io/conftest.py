"""A cluster that has lost a broker, and what a user of the secured broker may not do."""

import gc
import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from applications import PATIENCE_S, Applications, eventually
from brokers import join_cluster, until_ready
from expiring_groups import KEPT_FOR_A_MINUTE

from toolkit.errors import ToolkitError
from toolkit.kafka_io.client import connection_diagnosis
from toolkit.kafka_io.client.connection import Connection
from toolkit.kafka_io.client.shared_connections import connected
from toolkit.kafka_io.groups.group_settings import ExpirySettings, read_expiry_settings
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, Snapshot, TopicPartition
from toolkit.sandbox.broker import start_broker
from toolkit.storage.formats.file_lock import exclusively


@pytest.fixture
def sockets_are_collected() -> Iterator[None]:
    """Have the client's abandoned sockets collected here, not in the middle of another test."""
    yield
    gc.collect()


@pytest.fixture
def refusal(
    monkeypatch: pytest.MonkeyPatch,
    sockets_are_collected: None,  # noqa: ARG001 - they are left by what is refused
) -> Callable[[Cluster], ToolkitError]:
    """Return a function that gives the error of connecting, once it is sure that it is clean."""
    # However busy the machine is that a listener runs on.
    monkeypatch.setattr(connection_diagnosis, "PROBE_TIMEOUT_S", 60)

    def refused(cluster: Cluster) -> ToolkitError:
        before = set(threading.enumerate())  # other connections may be open all the while
        with pytest.raises(ToolkitError) as caught, Connection(cluster):
            pass
        error: ToolkitError = caught.value
        assert "\n" not in str(error)
        assert f"cluster {cluster.name}" in str(error)
        assert error.hint
        left = set(threading.enumerate()) - before
        assert not any(thread.name.startswith("kafka") for thread in left)
        return error

    return refused


SHORT_RETENTION = {"offsets.retention.minutes": "120"}


@dataclass(frozen=True)
class LostBroker:
    """
    A cluster of two brokers, of which the second is lost.

    The partitions `here` and `gone`, of the first broker and of the second, have three records
    each. Twelve groups committed offset 1 of both, and the group `half` that of `gone` only. The
    second broker keeps offsets for a shorter time.
    """

    cluster: Cluster
    here: TopicPartition
    gone: TopicPartition
    before: Snapshot  # read while both brokers were there
    settings: ExpirySettings  # likewise


@pytest.fixture(scope="session")
def lost_broker(shared: Path, applications_until: Callable[..., Applications]) -> LostBroker:
    """Return a cluster that has lost a broker; all processes of a test run share it."""
    directory = shared / "lost-broker"
    facts = directory / "facts.pickle"
    with exclusively(directory / "lock"):
        if not facts.exists():
            facts.write_bytes(pickle.dumps(_lose_broker(directory, applications_until)))
    found: LostBroker = pickle.loads(facts.read_bytes())  # noqa: S301  # written by this test run
    return found


def _lose_broker(directory: Path, applications_until: Callable[..., Applications]) -> LostBroker:
    first = start_broker(directory / "1")
    second = join_cluster(first, 2, directory / "2", **SHORT_RETENTION)
    until_ready(first.address, brokers=2)
    cluster = Cluster("two", first.address)
    with ExitStack() as ending:
        apps = applications_until(cluster, ending)
        here, gone = (
            TopicPartition(apps.create_topic(name, records=3, broker=broker), 0)
            for name, broker in (("here", 1), ("gone", 2))
        )
        for number in range(12):
            apps.commit(f"both-{number}", {here: 1, gone: 1})
        apps.commit("half", {gone: 1})
        before = read_snapshot(cluster)
        with connected(cluster) as connection:
            settings = read_expiry_settings(connection)
        second.stop()

        def is_known() -> bool:
            found = apps.admin.list_topics(timeout=PATIENCE_S)
            partitions = (p for topic in found.topics.values() for p in topic.partitions.values())
            return {1} == set(found.brokers) and all(p.leader != 2 for p in partitions)

        eventually(is_known)
    return LostBroker(cluster, here, gone, before, settings)


@pytest.fixture
def minute_apps(applications_until: Callable[..., Applications], tmp_path: Path) -> Iterator[Any]:
    """Return the applications on a broker that keeps offsets for a minute."""
    broker = start_broker(tmp_path / "broker", properties=KEPT_FOR_A_MINUTE)
    try:
        with ExitStack() as ending:
            yield applications_until(Cluster("minute", broker.address), ending)
    finally:
        broker.stop()
