"""
The sandbox as a whole: brokers, the applications on them, and the fleet file that leads to them.

Everything it knows lies in the state directory, one directory a cluster, so that every command
starts from what is really there: `up` adds what is missing, `down` ends what still runs.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from toolkit.errors import Blocked, FleetFileError, SandboxFailed, UsageError
from toolkit.kafka_io.client.connection import Connection
from toolkit.model import Cluster
from toolkit.sandbox.broker import (
    Broker,
    addresses_of,
    brokers_in,
    find_broker,
    start_brokers,
    stop_brokers,
)
from toolkit.sandbox.jars import VERSION, kafka_jars
from toolkit.sandbox.process import end, running, spawn
from toolkit.sandbox.readiness import missing_members, missing_signs
from toolkit.sandbox.roles import OPERATOR, ROLES, create_roles
from toolkit.sandbox.secure import is_secured, role_settings, secure
from toolkit.sandbox.seed import seeded_groups
from toolkit.storage.fleet_file import find_fleet_file, sandbox_folder
from toolkit.storage.formats.atomic_files import write_whole
from toolkit.storage.formats.file_lock import exclusively

NAMES = ("eu", "us")
TAKEN = ("demo", "lock", "state")  # beside the clusters' folders; `offsetbook demo` removes its own
SEED_TIMEOUT_S = 90
STEADY_S = 5
ONE_OF_BOTH = "start it without several brokers, or without TLS and ACLs"

Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Whether a cluster's brokers and applications run, and which problems it shows."""

    name: str
    version: str
    address: str
    pids: tuple[int, ...]  # of the brokers that run
    brokers: int
    answers: bool  # all that run
    applications_pid: int | None  # None: the applications do not run
    missing: Mapping[str, str]  # seeded groups whose problem cannot be seen, and why

    @property
    def state(self) -> str:
        """The brokers in one word, or how many of them run."""
        if not self.pids:
            return "stopped"
        if not self.answers:
            return "silent"
        return (
            "running" if len(self.pids) == self.brokers else f"{len(self.pids)} of {self.brokers}"
        )

    def as_row(self) -> Mapping[str, object]:
        groups = len(seeded_groups(self.version))
        return {
            "cluster": self.name,
            "version": self.version,
            "address": self.address,
            "pid": " ".join(map(str, self.pids)),
            "state": self.state,
            "problems seen": f"{groups - len(self.missing)} of {groups}",
            "applications": f"running ({self.applications_pid})"
            if self.applications_pid
            else "stopped",
        }

    def group_rows(self) -> list[Mapping[str, object]]:
        return [
            {
                "cluster": self.name,
                "group": group.group_id,
                "problem": group.problem,
                "what an operator would be told": group.story,
                "seen": self.missing.get(group.group_id, "yes"),
            }
            for group in seeded_groups(self.version)
        ]


class Sandbox:
    """The clusters in one state directory."""

    def __init__(
        self,
        state_dir: Path | None = None,
        *,
        version: str = VERSION,
        brokers: int | None = None,
    ) -> None:
        """Use `state_dir`, which need not exist; new clusters get a version and so many brokers."""
        self.state_dir = (state_dir or sandbox_folder()).resolve()
        self.version, self.brokers = version, brokers

    @property
    def fleet_file(self) -> Path:
        return self.state_dir / "fleet.yaml"

    def up(
        self,
        names: Sequence[str] = NAMES,
        *,
        seed: bool = True,
        fresh: bool = False,
        secured: bool = False,
        on_step: Step = lambda _: None,
    ) -> list[Cluster]:
        """
        Start what is not running yet and return the clusters.

        A new cluster is ready once every problem can be seen. Later, problems may have been solved:
        then it is ready once its applications are members again; `fresh` deletes its data and seeds
        it again. The fleet files lead to the TLS listener of a `secured` cluster (SCRAM, ACLs), of
        one broker. Raises `SandboxFailed` in the words of a broker or of the applications.
        """
        _check(names)
        if secured and self.brokers not in {None, 1}:
            raise UsageError("a secured cluster of the sandbox has one broker", hint=ONE_OF_BOTH)
        if fresh:
            self.down(names, on_step=on_step)
        with exclusively(
            self.state_dir / "lock",
            on_wait=lambda: on_step("waiting for another command on this sandbox"),
        ):
            for name in names if fresh else ():
                shutil.rmtree(self.state_dir / name, ignore_errors=True)
            kafka_jars(self.version, on_step=on_step)
            start = partial(self._start, seed=seed, secured=secured, on_step=on_step)
            with ThreadPoolExecutor(len(names)) as together:
                started = list(together.map(start, names))
            self._write_fleet_files()
        return [
            Cluster(name, addresses_of(found)) for name, found in zip(names, started, strict=True)
        ]

    def down(self, only: Collection[str] = (), *, on_step: Step = lambda _: None) -> list[str]:
        """Stop the clusters started here, or `only` some, and return them; the data stays."""
        if not self.state_dir.exists():
            return []
        with exclusively(self.state_dir / "lock"):
            found = [brokers[0].directory.name for brokers in self._clusters()]
            names = [name for name in found if not only or name in only]
            with ThreadPoolExecutor(len(names) or 1) as together:
                ended = together.map(partial(self._stop, on_step=on_step), names)
                return [name for stopped in ended for name in stopped]

    def status(self) -> list[ClusterStatus]:
        return [_cluster_status(brokers) for brokers in self._clusters()]

    def _clusters(self) -> list[list[Broker]]:
        found = (brokers_in(path.parent) for path in sorted(self.state_dir.glob("*/broker.json")))
        return [brokers for brokers in found if brokers]

    def _start(self, name: str, *, seed: bool, secured: bool, on_step: Step) -> list[Broker]:
        directory = self.state_dir / name
        secured = secured or is_secured(directory)
        properties = secure(directory, self.version) if secured else {}
        known = brokers_in(directory)
        if known and all(broker.pid for broker in known):
            on_step(f"{name} is already running")
        else:
            on_step(f"starting {name} (Apache Kafka {self.version})")
        count = self.brokers or len(known) or 1
        found = start_brokers(directory, count, version=self.version, properties=properties)
        if secured:
            create_roles(found[0].address, directory / "passwords")
        if seed:
            _seed(name, found, on_step=on_step)
        return found

    def _stop(self, name: str, *, on_step: Step) -> list[str]:
        directory = self.state_dir / name
        record, brokers = directory / "applications.process", brokers_in(directory)
        ended = []
        # The applications first: they leave their groups while a broker still runs.
        if running(record):
            on_step(f"stopping the applications of {name}")
        if end(record):
            ended.append(f"applications of {name}")
        if any(broker.pid for broker in brokers):
            on_step(f"stopping the broker{'s' if len(brokers) > 1 else ''} of {name}")
        return ended + [f"broker of {name}"] * stop_brokers(brokers)

    def _write_fleet_files(self) -> None:
        """Write how to connect: `fleet.yaml` as the operator, and a file for each role."""
        live = [found for found in self._clusters() if any(broker.pid for broker in found)]
        secured = any(is_secured(found[0].directory) for found in live)
        paths = {role: self.state_dir / f"{role}.yaml" for role in ROLES} if secured else {}
        for role, path in [(OPERATOR, self.fleet_file), *paths.items()]:
            clusters = {found[0].directory.name: _settings(found, role) for found in live}
            write_whole(path, yaml.safe_dump({"clusters": clusters, "state": "state"}))


def _cluster_status(brokers: Sequence[Broker]) -> ClusterStatus:
    """Look at the processes and ask the brokers; the first one names the cluster."""
    first, address = brokers[0], addresses_of(brokers)
    applications = running(first.directory / "applications.process")
    those_that_run = [broker for broker in brokers if broker.pid is not None]
    live = bool(those_that_run) and all(broker.answers() for broker in those_that_run)
    unseen = {
        group.group_id: "the broker does not respond" for group in seeded_groups(first.version)
    }
    return ClusterStatus(
        name=first.directory.name,
        version=first.version,
        address=address,
        pids=tuple(broker.pid for broker in those_that_run if broker.pid),
        brokers=len(brokers),
        answers=live,
        applications_pid=applications.pid if applications else None,
        missing=missing_signs(address, first.version) if live else unseen,
    )


def _settings(brokers: Sequence[Broker], role: str) -> dict[str, str]:
    if is_secured(brokers[0].directory):
        return role_settings(brokers[0].directory, role)
    return {"bootstrap.servers": addresses_of(brokers)}


def _check(names: Sequence[str]) -> None:
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name) or name in TAKEN:
            raise UsageError(
                f"{name!r} cannot be the name of a sandbox cluster",
                hint=f"use letters, digits, - and _, and none of {', '.join(TAKEN)}",
            )
    if not names or len(set(names)) < len(names):
        raise UsageError("the sandbox needs distinct cluster names")


def _seed(name: str, brokers: Sequence[Broker], *, on_step: Step) -> None:
    """Start the applications if they do not run, and wait until the cluster is ready."""
    broker, address = brokers[0], addresses_of(brokers)
    record = broker.directory / "applications.process"
    steady_s = 0
    if not running(record):
        on_step(f"seeding {name}")
        # If they were killed, they did not leave their groups: they are members until the timeout.
        steady_s = STEADY_S if record.exists() else 0
        command = [sys.executable, "-P", "-m", "toolkit.sandbox.applications"]
        log = broker.directory / "applications.log"
        spawn([*command, address, broker.version], record=record, log=log)
    seeded = broker.directory / "seeded"
    if not seeded.exists():
        _await(missing_signs, name, brokers, steady_s=steady_s)
        seeded.touch()
        return
    _await(missing_members, name, brokers, steady_s=steady_s)
    if solved := missing_signs(address, broker.version):
        groups = ", ".join(sorted(solved))
        on_step(f"{name}: not as seeded any more: {groups}; --fresh seeds the sandbox again")


def _await(
    missing_of: Callable[[str, str], dict[str, str]],
    name: str,
    brokers: Sequence[Broker],
    *,
    steady_s: float,
) -> None:
    """Wait until nothing has been missing for a while."""
    broker, address = brokers[0], addresses_of(brokers)
    log = broker.directory / "applications.log"
    began = seen_from = time.monotonic()
    while (missing := missing_of(address, broker.version)) or (
        time.monotonic() - seen_from < steady_s
    ):
        if not running(broker.directory / "applications.process"):
            raise SandboxFailed(
                f"the applications of {name} ended: {_last_line(log)}", hint=f"read {log}"
            )
        if time.monotonic() - began > SEED_TIMEOUT_S:
            what = "; ".join(f"{group}: {why}" for group, why in missing.items())
            raise SandboxFailed(
                f"seeding {name} is not done after {SEED_TIMEOUT_S} s ({what})", hint=f"read {log}"
            )
        if missing:
            seen_from = time.monotonic()
        time.sleep(0.2)


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line for line in reversed(lines) if line.strip()), "they wrote no output")


def require_sandbox(cluster: Cluster, fleet_file: Path | None = None) -> None:
    """
    Raise Blocked unless a cluster is one that was started here as part of a sandbox.

    Its address proves nothing, because anything may be forwarded to loopback. So its cluster id
    must be that of a broker in the folder of the fleet file or in the sandbox's folder. Raises
    ClusterUnreachable if no broker answers.
    """
    with Connection(cluster) as connection:
        cluster_id = connection.cluster_id
    if not cluster_id or cluster_id not in _known(fleet_file):
        raise Blocked(
            f"cluster {cluster.name} is not a sandbox cluster; this tour makes changes on the "
            "sandbox only",
            hint="run 'offsetbook sandbox up' and use the fleet file that it writes",
        )


def _known(fleet_file: Path | None) -> set[str]:
    """Return the ids of the clusters that were ever started here."""
    folders = {sandbox_folder().resolve()}
    with suppress(FleetFileError):  # then the cluster came by its address
        folders.add(find_fleet_file(fleet_file).resolve().parent)
    brokers = [find_broker(p.parent) for f in folders for p in f.glob("*/broker.json")]
    return {broker.cluster_id for broker in brokers if broker}
