"""How one cluster of the sandbox is now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolkit.sandbox.broker import Broker
from toolkit.sandbox.process import running
from toolkit.sandbox.readiness import missing_signs
from toolkit.sandbox.seed import seeded_groups


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """Whether a cluster's broker and applications run, and which problems it shows."""

    name: str
    version: str
    address: str
    pid: int | None  # None: the broker does not run
    answers: bool
    applications_pid: int | None  # None: the applications do not run
    missing: Mapping[str, str]  # seeded groups whose problem cannot be seen, and why

    @property
    def state(self) -> str:
        """The broker in one word."""
        if self.pid is None:
            return "stopped"
        return "running" if self.answers else "silent"

    def as_row(self) -> Mapping[str, object]:
        """Return what the status table says of the cluster."""
        groups = len(seeded_groups(self.version))
        return {
            "cluster": self.name,
            "version": self.version,
            "address": self.address,
            "pid": str(self.pid or ""),
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


def cluster_status(broker: Broker) -> ClusterStatus:
    """Look at the processes and ask the broker."""
    applications = running(broker.directory / "applications.process")
    live = broker.pid is not None and broker.answers()
    unseen = {
        group.group_id: "the broker does not respond" for group in seeded_groups(broker.version)
    }
    return ClusterStatus(
        name=broker.directory.name,
        version=broker.version,
        address=broker.address,
        pid=broker.pid,
        answers=live,
        applications_pid=applications.pid if applications else None,
        missing=missing_signs(broker.address, broker.version) if live else unseen,
    )
