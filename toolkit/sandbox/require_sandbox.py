"""Verify that a cluster belongs to the sandbox."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from toolkit.errors import Blocked, FleetFileError
from toolkit.kafka_io.client.connection import Connection
from toolkit.model import Cluster
from toolkit.sandbox.broker import find_broker
from toolkit.sandbox.fleet import default_state_dir
from toolkit.storage.fleet_file import find_fleet_file


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
    folders = {default_state_dir().resolve()}
    with suppress(FleetFileError):  # then the cluster came by its address
        folders.add(find_fleet_file(fleet_file).resolve().parent)
    brokers = [find_broker(p.parent) for f in folders for p in f.glob("*/broker.json")]
    return {broker.cluster_id for broker in brokers if broker}
