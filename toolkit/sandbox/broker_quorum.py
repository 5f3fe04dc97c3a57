"""
Several real brokers on loopback as one cluster, each a controller too, so any of them may be lost.

The first lies in the directory of the cluster, as a single broker would; the others in folders of
it, so what leads to a cluster by its first broker finds all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from toolkit.errors import SandboxFailed, UsageError
from toolkit.model.plurals import counted
from toolkit.sandbox.broker import (
    START_TIMEOUT_S,
    Broker,
    find_broker,
    format_data,
    free_ports,
    is_free,
    live_brokers,
    reserve_ports,
    start_broker,
)
from toolkit.sandbox.jars import VERSION, kafka_jars

ALL_THAT_CAN_BE = (1, 3, 5)  # of an even number no more may be lost than of one less
OwnProperties = Callable[[Broker], Mapping[str, str]]


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
            hint="use another --state-dir, or --fresh to seed the clusters anew",
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
    while any(live_brokers(broker.address) < len(brokers) for broker in brokers):
        if time.monotonic() > give_up:
            raise SandboxFailed(
                f"the {len(brokers)} brokers of {brokers[0].directory} are not all live "
                f"within {START_TIMEOUT_S} s",
                hint=f"read {brokers[0].log} and those of the folders beside it",
            )
        time.sleep(0.05)
