"""Which groups a cluster has, with their members and subscriptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toolkit.journeys.cluster_access import ClusterAccess
from toolkit.kafka_io.read_snapshot import read_snapshot
from toolkit.model import Snapshot
from toolkit.model.rows import Rows
from toolkit.planning.frames.snapshot_frames import group_list


@dataclass(frozen=True, eq=False)
class GroupsReport:
    """The groups of a cluster; their offsets were not read."""

    facts: Snapshot

    def of_kind(self, *, state: str | None = None, type_: str | None = None) -> GroupsReport:
        chosen = (
            group
            for group in self.facts.groups
            if (state is None or group.state == state) and (type_ is None or group.type == type_)
        )
        return GroupsReport(replace(self.facts, groups=tuple(chosen)))

    @property
    def rows(self) -> Rows:
        """One row for each group; see `group_list`."""
        return group_list(self.facts)


def groups(access: ClusterAccess, names: Sequence[str] = ()) -> GroupsReport:
    """
    Read groups and members, by name and shell pattern, or all.

    Raises ClusterUnreachable; other read errors are rows in `facts.problems`.
    """
    facts = read_snapshot(
        access.cluster, groups=names, offsets=False, on_progress=access.on_progress
    )
    return GroupsReport(facts)
