"""One cluster as a journey needs it: its address, its policy, and the state directory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from toolkit.errors import (
    Blocked,
    BrokerRefused,
    ClusterUnreachable,
    ToolkitError,
    UsageError,
)
from toolkit.kafka_io.client.shared_connections import SharedConnections, connected
from toolkit.model import Cluster, Policy
from toolkit.model.cluster import Origin
from toolkit.model.server_addresses import Server, read_servers
from toolkit.storage.fleet_file import choose_clusters, fleet_file_in_use, is_of_sandbox, load_fleet
from toolkit.storage.state_folder import state_dir

if TYPE_CHECKING:
    from toolkit.journeys.change.run_notices import RunNotice
    from toolkit.kafka_io.read_snapshot import Progress
    from toolkit.report.plan_inputs import NotebookParameters


Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
AccessType = TypeVar("AccessType", bound="ClusterAccess")


# Of a cluster that is named by its address alone.
BARE = Origin("an entry of the fleet file ('offsetbook fleet add')")


class ClusterAccess:
    """
    One cluster, the policy that the fleet file has for it, and the state directory.

    Nothing is sent to the cluster before the first question. `on_progress` is called while facts
    are read.
    """

    def __init__(
        self,
        cluster: Cluster,
        state: Path | None = None,
        *,
        fleet_file: Path | None = None,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        """Take a cluster; without a state directory, the one that the fleet file names."""
        self.cluster = cluster
        self.state = state or state_dir(fleet_file)
        self.fleet_file = fleet_file
        self.on_progress = on_progress
        # As the caller wrote it, for the commands that are shown; "" is the default.
        self.where = {
            "cluster": cluster.name,
            "fleet_file": str(fleet_file or ""),
            "state": str(state or ""),
        }
        self.notebook_parameters: NotebookParameters | None = None  # of the notebook that opened it
        self.connections = SharedConnections()
        self.tell_changed: Callable[[], object] = lambda: None  # called after every change
        self._ids: dict[str, str] = {}  # of restricted clusters of the fleet, by address

    @classmethod
    def named(
        cls,
        cluster: str = "",
        fleet_file: Path | str | None = None,
        state: Path | str | None = None,
        **options: Any,
    ) -> Self:
        """
        Open a cluster by its name in the fleet file, or by its address HOST:PORT.

        Without a name, the only cluster of the fleet file. Raises UsageError and FleetFileError.
        """
        path = Path(fleet_file) if fleet_file else None
        found = find_cluster(cluster, path)
        return cls(found, Path(state) if state else None, fleet_file=path, **options)

    def require_answer(self) -> None:
        """Raise ClusterUnreachable or BrokerRefused, with a command to run, without an answer."""
        try:
            with self.connections.in_use(), connected(self.cluster):
                pass
        except (ClusterUnreachable, BrokerRefused) as exc:
            hint = f"{exc.hint}; {self._what_to_run()}" if exc.hint else self._what_to_run()
            raise type(exc)(exc.problem, hint=hint) from exc

    def _what_to_run(self) -> str:
        if is_of_sandbox(self.fleet_file):
            return "'offsetbook sandbox up' starts the sandbox"
        # Only for a message.
        from toolkit.report.run_command import offsetbook_command  # noqa: PLC0415

        where = ("--cluster", self.cluster.name)
        command = offsetbook_command("doctor", *where, fleet_file=self.fleet_file)
        return f"'{command}' checks the connection"

    def for_cluster(self, cluster: str) -> Self:
        """Open another cluster of the same fleet file, with the same state directory."""
        state = self.where["state"] or None
        other = type(self).named(cluster, self.fleet_file, state, on_progress=self.on_progress)
        other.connections, other.notebook_parameters = self.connections, self.notebook_parameters
        return other

    def under_policy(self, cluster_id: str) -> Cluster:
        """
        Return the cluster with the policy that the fleet file has for it, also under its address.

        The file is read again for that; where its entry was stricter when the cluster was opened,
        that counts. Raises Blocked where it does not have the cluster any more, or a restricted
        cluster of the fleet does not answer: it may be this one.
        """
        cluster = self.cluster
        if cluster.origin.fleet_file:
            now = _entry_of_now(cluster)
            return replace(cluster, policy=cluster.policy.or_stricter(now.policy))
        if cluster.name != cluster.bootstrap_servers:
            return cluster  # a program has made it
        now = cluster_at(cluster.name, self.fleet_file)
        entry = now if now.origin.fleet_file else self._entry_with_id(cluster_id)
        return replace(cluster, policy=entry.policy) if entry else cluster

    def _entry_with_id(self, cluster_id: str) -> Cluster | None:
        """One cluster has many addresses, but one id: ask each restricted cluster for its own."""
        path = fleet_file_in_use(self.fleet_file)
        for known in load_fleet(path).values() if path else ():
            if known.policy == Policy():
                continue
            try:
                if known.bootstrap_servers not in self._ids:
                    with connected(known) as connection:
                        self._ids[known.bootstrap_servers] = connection.cluster_id
            except ToolkitError as exc:
                raise Blocked(
                    f"cannot verify whether {self.cluster.name} is cluster {known.name}, which has "
                    f"limits in the fleet file: {exc.problem}",
                    hint=f"name the cluster {known.name} if it is",
                ) from exc
            if self._ids[known.bootstrap_servers] == cluster_id:
                return known
        return None

    def run_notices(self) -> tuple[RunNotice, ...]:
        """
        Return the results of interrupted runs and orphaned holds on the cluster; each once.

        Raises ClusterUnreachable, and StateFileError where that cannot be recorded.
        """
        # Reads Kafka, which a session that is only opened need not load.
        from toolkit.journeys.change.run_notices import find_run_notices  # noqa: PLC0415

        with self.connections.in_use():
            return find_run_notices(self.cluster, self.state)


def over_one_connection(
    journey: Callable[Concatenate[AccessType, Parameters], Result],
) -> Callable[Concatenate[AccessType, Parameters], Result]:
    """Return a journey that asks over the open connection of its `ClusterAccess`."""

    @wraps(journey)
    def connected_journey(
        access: AccessType, /, *args: Parameters.args, **given: Parameters.kwargs
    ) -> Result:
        with access.connections.in_use():
            return journey(access, *args, **given)

    return connected_journey


def find_cluster(
    name: str, fleet_file: Path | None = None, *, way_on: str = "name one of"
) -> Cluster:
    """Return the one cluster that is meant; raises UsageError with a `way_on` if not clear."""
    found = find_clusters([name] if name else (), fleet_file)
    if len(found) > 1:
        names = ", ".join(cluster.name for cluster in found)
        raise UsageError("no cluster selected", hint=f"{way_on}: {names}")
    return found[0]


def find_clusters(names: Sequence[str], fleet_file: Path | None = None) -> list[Cluster]:
    """
    Return clusters by their names in the fleet file, or by address; without names, the whole fleet.

    Raises FleetFileError and UsageError.
    """
    if not names:
        return choose_clusters(load_fleet(fleet_file), ())
    named = [name for name in names if ":" not in name]
    chosen = choose_clusters(load_fleet(fleet_file), named) if named else []
    by_name = {cluster.name: cluster for cluster in chosen}
    found = (by_name.get(name) or cluster_at(name, fleet_file) for name in names)
    # A name and an address, or two addresses, may be one cluster.
    return list({cluster.name: cluster for cluster in found}.values())


def cluster_at(servers: str, fleet_file: Path | None) -> Cluster:
    """Return the fleet's cluster at an address, whose policy then holds; else just the address."""
    path = fleet_file_in_use(fleet_file)
    for cluster in load_fleet(path).values() if path else ():
        if cluster.name == servers or _servers(cluster.bootstrap_servers) & _servers(servers):
            return cluster
    return Cluster(servers, servers, origin=BARE)


def _entry_of_now(cluster: Cluster) -> Cluster:
    try:
        fleet = load_fleet(Path(cluster.origin.fleet_file))
        (now,) = choose_clusters(fleet, [cluster.name])
    except ToolkitError as exc:
        why = f"what may be changed on {cluster.name} is not known: {exc.problem}"
        raise Blocked(why, hint=exc.hint) from exc
    return now


def _servers(text: str) -> set[Server | str]:
    """Return the servers, however they are written; the text itself where it is no address."""
    try:
        return {Server(server.host.lower(), server.port) for server in read_servers(text)}
    except UsageError:
        return {text}
