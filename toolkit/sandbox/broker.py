"""
One real broker on loopback: Apache Kafka in KRaft mode, its own controller, a single JVM.

A new data directory is as `kafka-storage format` makes it. The tool costs a JVM, and what it writes
differs in two ids only. It is run once for each version of Apache Kafka; its output is cached with
the jars, and each copy gets its own ids.
"""

from __future__ import annotations

import itertools
import json
import random
import re
import shutil
import socket
import struct
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kafka.protocol.metadata import MetadataRequest, MetadataResponse

from toolkit.errors import SandboxFailed, UsageError
from toolkit.model.plurals import counted
from toolkit.sandbox.jars import VERSION, kafka_command, kafka_jars
from toolkit.sandbox.process import end, listening_ports, running, spawn
from toolkit.sandbox.raw_members import RawConnection
from toolkit.storage.formats.atomic_files import write_whole
from toolkit.storage.formats.file_lock import exclusively

ALL_THAT_CAN_BE = (1, 3, 5)  # of an even number no more may be lost than of one less
OwnProperties = Callable[["Broker"], Mapping[str, str]]


def brokers_in(directory: Path) -> list[Broker]:
    """Return the brokers of the cluster in a directory, running or not, the first one first."""
    folders = [directory, *sorted(directory.glob("broker-*"))]
    return [broker for folder in folders if (broker := find_broker(folder))]


def addresses_of(brokers: Sequence[Broker]) -> str:
    return ",".join(broker.address for broker in brokers)


def stop_brokers(brokers: Sequence[Broker]) -> int:
    """End all brokers at once, keep their data, and return how many were running."""
    with ThreadPoolExecutor(len(brokers) or 1) as together:
        return sum(together.map(Broker.stop, brokers))


def start_brokers(
    directory: Path,
    count: int,
    *,
    version: str = VERSION,
    properties: Mapping[str, str] | None = None,
    own_properties: OwnProperties = lambda _: {},
) -> list[Broker]:
    """
    Start the brokers of a cluster and return them once each knows that all are live.

    What is there already is used, as `start_broker` does. Of several brokers each has a copy of
    everything, and a write is done when most of them have it; each may have properties of its own.
    Raises UsageError for a cluster with another number of brokers, SandboxFailed in the words of
    a broker that does not start.
    """
    known = brokers_in(directory)
    if count not in ALL_THAT_CAN_BE:
        raise UsageError(f"{count} brokers", hint="a cluster has 1, 3 or 5")
    if known and len(known) != count:
        raise UsageError(
            f"{directory} has a cluster with {counted(len(known), 'broker')}, not {count}",
            hint="use another --state-dir, or --fresh to seed the clusters again",
        )
    if count == 1:
        return [start_broker(directory, version=version, properties=properties)]
    kafka_jars(version)
    folders = [directory, *(directory / f"broker-{number}" for number in range(2, count + 1))]
    brokers = _reserve_ports(folders, version)
    format_data(directory / "data", version)
    cluster_id = brokers[0].cluster_id
    for number, broker in enumerate(brokers, 1):
        data = broker.directory / "data"
        format_data(data, version, node_id=number, cluster_id=cluster_id)
    shared = {**_shared_properties(brokers), **(properties or {})}
    each = [
        {"node.id": str(number), **shared, **own_properties(broker)}
        for number, broker in enumerate(brokers, 1)
    ]

    def start(broker: Broker, own: Mapping[str, str]) -> Broker:
        return start_broker(broker.directory, version=version, properties=own)

    with ThreadPoolExecutor(count) as together:  # the first alone has no quorum
        started = list(together.map(start, brokers, each))
    _await_all(started)
    return started


def _reserve_ports(folders: Sequence[Path], version: str) -> list[Broker]:
    """Return the brokers with ports that each of them knows before any of them runs."""
    known = [find_broker(folder) for folder in folders]
    used_ports = {port for one in known if one for port in (one.port, one.controller_port)}
    spare = (port for port in free_ports(4 * len(folders)) if port not in used_ports)
    found = []
    for folder, broker in zip(folders, known, strict=True):
        if broker and (broker.pid or (is_free(broker.port) and is_free(broker.controller_port))):
            found.append(broker)
            continue
        folder.mkdir(parents=True, exist_ok=True)
        ports = next(spare), next(spare)
        reserve_ports(folder, ports, broker.version if broker else version)
        found.append(Broker(folder.resolve(), version, *ports))
    return found


def _shared_properties(brokers: Sequence[Broker]) -> dict[str, str]:
    voters = (f"{n}@127.0.0.1:{one.controller_port}" for n, one in enumerate(brokers, 1))
    copies, in_step = str(len(brokers)), str(len(brokers) // 2 + 1)
    return {
        "controller.quorum.voters": ",".join(voters),
        "default.replication.factor": copies,
        "min.insync.replicas": in_step,
        **{f"{topic}.replication.factor": copies for topic in _INTERNAL_TOPICS},
        **{f"{topic}.min.isr": in_step for topic in _INTERNAL_TOPICS if topic != "offsets.topic"},
    }


_INTERNAL_TOPICS = ("offsets.topic", "transaction.state.log", "share.coordinator.state.topic")


def _await_all(brokers: Sequence[Broker]) -> None:
    give_up = time.monotonic() + START_TIMEOUT_S
    while any(_live_cluster(broker.address)[1] < len(brokers) for broker in brokers):
        if time.monotonic() > give_up:
            raise SandboxFailed(
                f"the {len(brokers)} brokers of {brokers[0].directory} are not all live "
                f"within {START_TIMEOUT_S} s",
                hint=f"read {brokers[0].log} and those of the folders beside it",
            )
        time.sleep(0.05)


_IDENTITY = "meta.properties"
_FORMAT_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:9093
listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093
log.dirs={}
"""

ATTEMPTS = 3
PORT_TAKEN = "Address already in use"
START_TIMEOUT_S = 60
_PORTS = range(20_000, 32_000)
_PROPERTIES = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    # KIP-848 members learn of their partitions with a heartbeat: every second, not every five.
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",  # no other member is about to join
    # Records come one by one here: with an index entry for every 4 kB, a fetch would read the
    # headers of up to fifty batches to find where it starts.
    "log.index.interval.bytes": "1",
    "log.initial.task.delay.ms": "500",
    # A controller that has nothing to say else writes to its disk twice a second: half of what a
    # unused broker costs.
    "metadata.max.idle.interval.ms": "0",
    "num.network.threads": "2",
    "num.io.threads": "4",
    "offsets.topic.num.partitions": "10",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.max.timeout.ms": "604800000",  # lets a transaction stay open for a week
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "1",
}


def format_data(directory: Path, version: str, *, node_id: int = 1, cluster_id: str = "") -> None:
    """
    Give a data directory its ids, unless it has them; raises `SandboxFailed`.

    Without `cluster_id` it is the first broker of a new cluster.
    """
    if (directory / _IDENTITY).exists():
        return
    formatted = _formatted(version)
    all_but_ids = shutil.ignore_patterns(_IDENTITY)
    shutil.copytree(formatted, directory, ignore=all_but_ids, dirs_exist_ok=True)
    text = (formatted / _IDENTITY).read_text(encoding="utf-8")
    ids = {"cluster.id": cluster_id or _new_id(), "directory.id": _new_id(), "node.id": node_id}
    for name, value in ids.items():
        text = re.sub(rf"^{re.escape(name)}=.*$", f"{name}={value}", text, flags=re.MULTILINE)
    # Last and at once: a start that is cut off is done again, and no two clusters share an id.
    write_whole(directory / _IDENTITY, text)


def _formatted(version: str) -> Path:
    """Return a formatted directory, which the tool makes the first time."""
    jars = kafka_jars(version)
    formatted, unfinished = (jars.with_name(f"{jars.name}-{word}") for word in ("data", "new-data"))
    with exclusively(jars.with_name(f"{jars.name}-data.lock")):
        if not formatted.exists():
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            _run_tool(unfinished, version)
            unfinished.rename(formatted)
    return formatted


def _run_tool(directory: Path, version: str) -> None:
    properties = directory.with_name(f"{directory.name}.properties")
    properties.write_text(_FORMAT_PROPERTIES.format(directory), encoding="utf-8")
    tool = kafka_command("kafka.tools.StorageTool", version=version)
    done = subprocess.run(
        [*tool, "format", "-t", _new_id(), "-c", properties],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SandboxFailed(
            f"formatting the data of Apache Kafka {version} failed: {done.stdout}{done.stderr}",
            hint=f"check {directory}",
        )


def _new_id() -> str:
    """Return an id as Kafka makes them; one that begins with - looks like an option."""
    return urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "A")


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker and the directory that holds its data, its log and the record of its process."""

    directory: Path
    version: str
    port: int
    controller_port: int

    @property
    def address(self) -> str:
        """What clients take as `bootstrap.servers`."""
        return f"127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.directory / "broker.log"

    @property
    def record(self) -> Path:
        return self.directory / "broker.process"

    @property
    def pid(self) -> int | None:
        """The JVM's process id while it runs."""
        process = running(self.record)
        return process.pid if process else None

    @property
    def cluster_id(self) -> str:
        """What the broker calls its cluster; "" before its storage is formatted."""
        try:
            text = (self.directory / "data" / "meta.properties").read_text(encoding="utf-8")
        except OSError:
            return ""
        found = re.search(r"^cluster\.id=(\S+)", text, re.MULTILINE)
        return found[1] if found else ""

    def answers(self) -> bool:
        """Whether this broker, and not another at its address, answers and lists itself as live."""
        return _live_cluster(self.address)[0] == self.cluster_id != ""

    def listens(self) -> bool:
        """Whether it has opened all of its listeners: it answers at the first before the last."""
        text = (self.directory / "server.properties").read_text("utf-8")
        listeners = re.search(r"^listeners=(.*)$", text, re.MULTILINE)
        ports = {int(port) for port in re.findall(r":(\d+)", listeners[1] if listeners else "")}
        return ports <= listening_ports(self.record)

    def stop(self) -> bool:
        """End the JVM, keep its data, and return whether it was running."""
        return end(self.record)


def find_broker(directory: Path) -> Broker | None:
    """Return the broker that was started in `directory` before, running or not."""
    try:
        known = json.loads((directory / "broker.json").read_text(encoding="utf-8"))
        return Broker(
            directory.resolve(), known["version"], known["port"], known["controller_port"]
        )
    except (OSError, ValueError, KeyError):
        return None


def start_broker(
    directory: Path,
    *,
    version: str = VERSION,
    properties: Mapping[str, str] | None = None,
    on_step: Callable[[str], None] = lambda _: None,
) -> Broker:
    """
    Start a broker in `directory` and return it once it answers clients.

    An existing broker is used: a running one is left alone, a stopped one keeps its data and its
    ports. `properties` are added to `server.properties`. A broker that does not start raises
    `SandboxFailed` with its own words.
    """
    known = find_broker(directory)
    if known and known.version != version:
        raise UsageError(
            f"{directory} has a cluster of Apache Kafka {known.version}, not {version}",
            hint="use another state directory, or remove this one",
        )
    if known and known.pid:
        _await_answer(known)  # it may still be starting, for a command that was interrupted
        return known
    kafka_jars(version, on_step=on_step)
    directory.mkdir(parents=True, exist_ok=True)
    for attempts_left in reversed(range(ATTEMPTS)):
        broker = Broker(directory.resolve(), version, *_free_ports(known))
        _write_properties(broker, properties or {})
        format_data(broker.directory / "data", version)
        try:
            _run(broker)
            break
        except SandboxFailed as exc:
            # Another process may have taken a port before the broker bound it.
            if not attempts_left or PORT_TAKEN not in str(exc):
                raise
    return broker


def _free_ports(known: Broker | None) -> tuple[int, int]:
    """Return the ports used before if they are still free, so that addresses stay the same."""
    if known and all(map(is_free, (known.port, known.controller_port))):
        return known.port, known.controller_port
    port, controller_port = free_ports(2)
    return port, controller_port


def free_ports(count: int) -> list[int]:
    """
    Return ports without a listener.

    They are below those that systems give to outgoing connections, of which one could take the port
    while its broker is being started again.
    """
    tried = random.sample(_PORTS, len(_PORTS))
    return list(itertools.islice(filter(is_free, tried), count))


def reserve_ports(directory: Path, ports: tuple[int, int], version: str) -> None:
    """Have a broker take these ports, for clients and for its controller, when it starts."""
    known = {"version": version, "port": ports[0], "controller_port": ports[1]}
    (directory / "broker.json").write_text(json.dumps(known), encoding="utf-8")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the broker itself binds: connections of a former broker may still linger.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _write_properties(broker: Broker, extra: Mapping[str, str]) -> None:
    controller = f"127.0.0.1:{broker.controller_port}"
    properties = {
        **_PROPERTIES,
        "listeners": f"PLAINTEXT://{broker.address},CONTROLLER://{controller}",
        "controller.quorum.voters": f"1@{controller}",
        "log.dirs": str(broker.directory / "data"),
        **extra,
    }
    lines = "".join(f"{name}={value}\n" for name, value in properties.items())
    (broker.directory / "server.properties").write_text(lines, encoding="utf-8")
    reserve_ports(broker.directory, (broker.port, broker.controller_port), broker.version)


def _run(broker: Broker) -> None:
    command = kafka_command("kafka.Kafka", version=broker.version)
    command.append(str(broker.directory / "server.properties"))
    spawn(command, record=broker.record, log=broker.log)
    try:
        _await_answer(broker)
    except BaseException:
        end(broker.record, grace_s=1)
        raise


def _await_answer(broker: Broker) -> None:
    give_up = time.monotonic() + START_TIMEOUT_S
    while not (broker.answers() and broker.listens()):
        if broker.pid is None:
            raise _failed(broker, "it ended")
        if time.monotonic() > give_up:
            raise _failed(broker, f"it did not answer within {START_TIMEOUT_S} s")
        time.sleep(0.05)


def _live_cluster(address: str) -> tuple[str, int]:
    """Return the cluster id that comes with the metadata, "" without live brokers, and how many."""
    # A broker that is still fenced answers, but lists no broker.
    try:
        with RawConnection(address, client_id="sandbox", timeout_s=1) as broker:
            found = broker.ask(MetadataRequest(topics=[]), MetadataResponse, version=2)
    except (OSError, ValueError, struct.error):
        return "", 0
    return (found.cluster_id, len(found.brokers)) if found.brokers else ("", 0)


def _failed(broker: Broker, what: str) -> SandboxFailed:
    return SandboxFailed(
        f"the broker in {broker.directory} (Apache Kafka {broker.version}) did not start, "
        f"{what}: {_own_words(broker.log)}",
        hint=f"read {broker.log}",
    )


def _own_words(log: Path) -> str:
    """Return the broker's error lines; its last lines, if none of them looks like one."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    output = [line.strip() for line in lines if line.strip() and not re.match(r"\s+at ", line)]
    errors = [
        line
        for line in output
        if re.match(r"(Caused by: |Exception in thread \S+ )?[\w.$]+(Exception|Error)\b", line)
    ]
    return "; ".join(dict.fromkeys(errors[:2] or output[-3:])) or "it wrote no output"
