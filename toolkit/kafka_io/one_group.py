"""Read one group by exactly its name."""

from __future__ import annotations

from typing import NamedTuple

from toolkit.errors import NotFound
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Cluster, Group, Snapshot
from toolkit.model.names import ExactName


class OneGroup(NamedTuple):
    """One group, and the facts that were read of it."""

    facts: Snapshot
    group: Group


def read_one_group(cluster: Cluster, name: str, *, commit_times: bool = False) -> OneGroup:
    """
    Read the group of exactly this name, which may look like a pattern, as `read_snapshot` does.

    Raises NotFound where there is none, and says so where not every group could be listed.
    """
    facts = read_snapshot(cluster, groups=[ExactName(name)], commit_times=commit_times)
    for group in facts.groups:
        if group.group_id == name:
            return OneGroup(facts, group)
    partial = f"; the group list is incomplete ({facts.listing_problem})"
    raise NotFound(
        f"no group named {name!r} in cluster {cluster.name}: {facts.why_missing(name)}"
        f"{partial if facts.listing_problem else ''}",
        hint="'offsetbook groups list' lists the names",
    )
