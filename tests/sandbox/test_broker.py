"""A single broker: starting, not starting, and starting again."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from applications import PATIENCE_S, Applications
from clients import AdminClient
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from toolkit.errors import SandboxFailed, UsageError
from toolkit.model import Cluster, TopicPartition
from toolkit.sandbox import broker as broker_module
from toolkit.sandbox.broker import find_broker, free_ports, kafka_command, start_broker
from toolkit.sandbox.fleet import Sandbox
from toolkit.sandbox.jars import VERSION

pytestmark = pytest.mark.starts("brokers")


def test_bad_property_shows_the_brokers_own_error(tmp_path: Path) -> None:
    """A setting that the broker refuses fails at once, in the broker's words, with its log."""
    at_once = r"did not start, it ended: .*Invalid value zero for configuration num.io.threads"
    with pytest.raises(SandboxFailed, match=at_once):
        start_broker(tmp_path / "eu", properties={"num.io.threads": "zero"})

    assert find_broker(tmp_path / "eu").pid is None


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


@pytest.mark.parametrize("is_of_the_last", [False, True])
def test_taken_port_shows_the_brokers_own_error(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch, *, is_of_the_last: bool
) -> None:
    """
    A port in use is named as the reason, long before any timeout.

    So is that of the last listener, though the broker answers at the first one before it opens it.
    """
    # It was free when it was chosen: somebody took it before the broker could.
    port, controller, spare = free_ports(3)
    port, last = (port, taken) if is_of_the_last else (taken, spare)
    monkeypatch.setattr(broker_module, "_free_ports", lambda _: (port, controller))
    monkeypatch.setattr(broker_module, "ATTEMPTS", 1)
    listeners = {"PLAINTEXT": port, "CONTROLLER": controller, "LAST": last}
    properties = {
        "listeners": ",".join(f"{name}://127.0.0.1:{one}" for name, one in listeners.items()),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in listeners),
    }

    with pytest.raises(SandboxFailed, match=r"Address already in use.*broker\.log"):
        start_broker(tmp_path / "eu", properties=properties)


def test_data_properties_and_address_outlive_a_restart(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A broker that is started again has its topics, its address and newly given properties.

    At first it takes other ports than one that anybody took between our look and its own bind.
    Starting it while it runs leaves the same process, and another version is refused.
    """
    ports = broker_module._free_ports
    answers = iter([(taken, ports(None)[1])])
    monkeypatch.setattr(
        broker_module, "_free_ports", lambda known: next(answers, None) or ports(known)
    )
    first = start_broker(tmp_path / "eu")
    try:
        assert taken != first.port
        assert first.answers()
        assert first == find_broker(tmp_path / "eu")
        admin = AdminClient({"bootstrap.servers": first.address})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result(PATIENCE_S)
        first.stop()

        again = start_broker(tmp_path / "eu", properties={"offsets.retention.minutes": "7"})

        admin = AdminClient({"bootstrap.servers": again.address})
        (config,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
        assert again.address == first.address
        assert "kept" in admin.list_topics(timeout=PATIENCE_S).topics
        assert config.result()["offsets.retention.minutes"].value == "7"
        assert start_broker(tmp_path / "eu").pid == again.pid
        with pytest.raises(UsageError, match=f"Apache Kafka {VERSION}, not 3.8.1"):
            start_broker(tmp_path / "eu", version="3.8.1")
    finally:
        first.stop()


@pytest.mark.slow("seeds a sandbox")
def test_oldest_version_starts_is_seeded_and_goes_down(tmp_path: Path) -> None:
    """
    Apache Kafka 3.9.1 shows every problem except those of group types it does not have.

    After down nothing runs, broker or applications, and a second down finds nothing.
    """
    sandbox = Sandbox(tmp_path, version="3.9.1")
    try:
        sandbox.up(["eu"])

        (status,) = sandbox.status()
        assert status.missing == {}
        assert "13 of 13" in status.as_row()["problems seen"]
        pids = [*status.pids, status.applications_pid]
        assert all(pid in processes_of(sandbox) for pid in pids)
    finally:
        ended = sandbox.down()

    assert sorted(ended) == ["applications of eu", "broker of eu"]
    assert not any(psutil.pid_exists(pid) for pid in pids if pid)
    assert processes_of(sandbox) == []
    assert sandbox.down() == []
    assert sandbox.status()[0].state == "stopped"


def processes_of(sandbox: Sandbox) -> list[int]:
    """Return every live process whose command line names the sandbox's directory or broker."""
    (status,) = sandbox.status()
    marks = (str(sandbox.state_dir), status.address)
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(mark in word for word in process.info["cmdline"] or () for mark in marks)
    ]


@pytest.mark.parametrize(("fixture", "version"), [("bare_cluster", VERSION), ("kafka_39", "3.9.1")])
def test_kafkas_own_tool_runs(
    request: pytest.FixtureRequest,
    fixture: str,
    version: str,
    applications: Callable[[Cluster], Applications],
) -> None:
    """The consumer groups tool, with which the toolkit is compared, has all jars it needs."""
    apps = applications(request.getfixturevalue(fixture))
    topic, group = apps.create_topic(apps.name("topic")), apps.name("group")
    apps.commit(group, {TopicPartition(topic, 0): 7})

    main = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    tool = kafka_command(main, version=version)
    where = ("--bootstrap-server", apps.address, "--timeout", "60000")
    done = subprocess.run(
        [*tool, *where, "--describe", "--group", group], capture_output=True, text=True, check=True
    )

    rows = [line.split()[:5] for line in done.stdout.splitlines()]
    assert [group, topic, "0", "7", "0"] in rows, done
