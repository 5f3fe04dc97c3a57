"""How one cluster of the sandbox is now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolkit.sandbox.broker import Broker
from toolkit.sandbox.broker_quorum import addresses_of
from toolkit.sandbox.process import running
from toolkit.sandbox.readiness import missing_signs
from toolkit.sandbox.seed import seeded_groups


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
        """Return what the status table says of the cluster."""
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
        """Return what is wrong with each seeded group."""
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


def cluster_status(brokers: Sequence[Broker]) -> ClusterStatus:
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
