"""Read the facts that a plan is made from, with progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.cli.change_command import CommandTarget
from toolkit.cli.reading import ProgressLine
from toolkit.errors import Blocked, FleetFileError, ToolkitError, UsageError

if TYPE_CHECKING:
    from toolkit.model import Cluster, Snapshot


def choose_cluster(asked: CommandTarget, name: str | None = None) -> Cluster:
    """
    Return the one cluster that is meant; raises UsageError where that is not clear.

    What `consumer-groups --bootstrap-server` changed is recorded under the address, so that an
    address stands for a cluster too.
    """
    from toolkit.storage.fleet_file import choose_clusters, load_fleet

    wanted = name or asked.cluster
    if wanted and ":" in wanted:
        return cluster_at(wanted, asked.fleet)
    fleet = load_fleet(asked.fleet)
    if wanted is None and len(fleet) > 1:
        raise UsageError("which cluster is meant?", hint=f"--cluster, one of: {', '.join(fleet)}")
    return choose_clusters(fleet, [wanted] if wanted else [])[0]


def cluster_at(servers: str, fleet_file: Path | None) -> Cluster:
    """Return the fleet's cluster at an address, whose policy then holds; else just the address."""
    from toolkit.model import Cluster
    from toolkit.storage.fleet_file import find_fleet_file, load_fleet

    try:
        path = find_fleet_file(fleet_file)
    except FleetFileError:
        return Cluster(servers, servers)
    for cluster in load_fleet(path).values():
        if cluster.name == servers or _servers(cluster.bootstrap_servers) & _servers(servers):
            return cluster
    return Cluster(servers, servers)


def under_fleet_policy(cluster: Cluster, cluster_id: str, fleet_file: Path | None) -> Cluster:
    """
    Return a cluster that came by its address with the policy that the fleet file has for it.

    One cluster has many addresses, but one id. Only clusters that the fleet file restricts are
    asked for theirs. Raises Blocked where one does not answer: it may be this one.
    """
    from dataclasses import replace

    from toolkit.kafka_io.client.connection import Connection
    from toolkit.model import Policy
    from toolkit.storage.fleet_file import find_fleet_file, load_fleet

    if cluster.name != cluster.bootstrap_servers:
        return cluster
    try:
        fleet = load_fleet(find_fleet_file(fleet_file))
    except FleetFileError:
        return cluster
    for known in fleet.values():
        if known.policy == Policy():
            continue
        try:
            with Connection(known) as connection:
                is_this = connection.cluster_id == cluster_id
        except ToolkitError as exc:
            raise Blocked(
                f"whether {cluster.name} is cluster {known.name}, of which the fleet file says "
                f"what may be changed, cannot be told: {exc.problem}",
                hint=f"--cluster {known.name} if it is",
            ) from exc
        if is_this:
            return replace(cluster, policy=known.policy)
    return cluster


def _servers(text: str) -> set[str]:
    return {server.strip() for server in text.split(",")}


def read_facts(
    asked: CommandTarget,
    cluster: Cluster,
    *,
    groups: Sequence[str] | None = None,
    topics: Sequence[str] = (),
    at: datetime | None = None,
) -> Snapshot:
    """Read the groups that were asked for (or others), and every partition of some topics."""
    from toolkit.kafka_io.read_plan_facts import read_plan_facts

    names = asked.groups if groups is None else groups
    with reading(asked, cluster) as progress:
        return read_plan_facts(cluster, groups=names, topics=topics, at=at, on_progress=progress)


@contextmanager
def reading(asked: CommandTarget, cluster: Cluster) -> Iterator[ProgressLine]:
    """Show how far a reading has come, where somebody looks."""
    progress = ProgressLine(cluster.name, visible=not asked.quiet and sys.stderr.isatty())
    try:
        yield progress
    finally:
        progress.clear()


def required_groups(asked: CommandTarget) -> tuple[str, ...]:
    """Return the groups that were asked for; raises UsageError where there are none."""
    if not asked.groups:
        raise UsageError("no group is named", hint="--group NAME, or --group '*' for all")
    return asked.groups
