"""
Which cluster and groups a call is about.

Names of groups are names here, never patterns: for the tool, `pay*` is a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.cli.command_target import CLUSTER_NEEDED, opened
from toolkit.cli.options import CommandScope, scope_of
from toolkit.errors import UsageError
from toolkit.journeys.cluster_access import BARE, ClusterAccess, cluster_at, find_cluster
from toolkit.model import Cluster
from toolkit.model.cluster import Origin
from toolkit.model.names import ExactName

if TYPE_CHECKING:
    from toolkit.journeys.change.group_choice import GroupChoice

MS = 1000
TIMEOUT = "--timeout"


def tool_scope(given: Mapping[str, Any]) -> CommandScope:
    """Return which fleet file and groups are meant, and how to answer."""
    return scope_of(dict(given))


def opened_cluster(given: Mapping[str, Any]) -> AbstractContextManager[ClusterAccess]:
    """Open the cluster that is meant, see `cluster_of`."""
    return opened(tool_scope(given), cluster_of(given))


def cluster_of(given: Mapping[str, Any]) -> Cluster:
    """
    Return the cluster at the address, or of that name in the fleet file.

    Raises UsageError where both or none is given, or settings that cannot be used.
    """
    servers, settings = given["bootstrap_server"], given["command_config"]
    if servers and given["cluster"]:
        hint = "an address or a name of the fleet file"
        raise UsageError("--bootstrap-server and --cluster exclude each other", hint=hint)
    if servers:
        cluster = cluster_at(servers, given["fleet"])
    elif settings:
        hint = "the fleet file has the settings of --cluster"
        raise UsageError("--command-config goes with --bootstrap-server", hint=hint)
    elif given["cluster"] or given["fleet"]:
        cluster = find_cluster(given["cluster"] or "", given["fleet"], way_on=CLUSTER_NEEDED)
    else:
        hint = "--bootstrap-server HOST:PORT, or --cluster NAME of the fleet file"
        raise UsageError("no cluster selected", hint=hint)
    if settings:
        cluster = _configured(cluster, servers, settings)
    elif cluster.origin == BARE:
        cluster = replace(cluster, origin=Origin("a file for --command-config", TIMEOUT))
    if given["timeout"]:
        cluster = replace(cluster, timeout_s=given["timeout"] / MS)
    return cluster


def exact_names(groups: Iterable[str]) -> tuple[str, ...]:
    """Return names to read by, each once, none of them a pattern."""
    return tuple(map(ExactName, dict.fromkeys(groups)))


def chosen_by(given: Mapping[str, Any]) -> GroupChoice:
    """Return the groups of a change: those named, or with --all-groups all that are idle."""
    from toolkit.journeys.change.group_choice import GroupChoice

    return GroupChoice(exact_names(given["groups"]), all_idle=given["all_groups"])


def _configured(cluster: Cluster, servers: str, path: Path) -> Cluster:
    """Return the cluster with the settings of a client's file; its address is that of the flag."""
    from toolkit.model.client_properties import REQUEST_TIMEOUT, read_client_properties

    settings = read_client_properties(path)
    settings.pop("bootstrap.servers", None)
    timeout_s = int(settings.pop(REQUEST_TIMEOUT, 0)) / MS or cluster.timeout_s
    origin = Origin(str(path), TIMEOUT, cluster.origin.fleet_file)
    return Cluster(cluster.name, servers, settings, cluster.policy, timeout_s, origin)
